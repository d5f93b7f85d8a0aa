package ptx

// maxDepth bounds the nesting of expressions, initialisers, vectors and scopes.
const maxDepth = 200

// warpSize is the constant WARP_SZ.
const warpSize = 32

// precedence returns the precedence of a binary operator, as in C, and 0 for other
// tokens.
func precedence(k kind) int {
	switch k {
	case '*', '/', '%':
		return 10
	case '+', '-':
		return 9
	case tokShl, tokShr:
		return 8
	case '<', '>', tokLE, tokGE:
		return 7
	case tokEQ, tokNE:
		return 6
	case '&':
		return 5
	case '^':
		return 4
	case '|':
		return 3
	case tokAnd:
		return 2
	case tokOr:
		return 1
	}
	return 0
}

// enter counts a level of nesting and fails at too many. The caller defers the
// result, which undoes it.
func (p *parser) enter() (leave func()) {
	p.depth++
	if p.depth > maxDepth {
		p.fail("nested more than %d deep", maxDepth)
	}
	return p.leave
}

func (p *parser) leave() { p.depth-- }

// expression parses a constant expression.
func (p *parser) expression() value {
	defer p.enter()()
	v := p.binaryExpression(1)
	if p.tok.kind != '?' {
		return v
	}
	p.next()
	yes := p.expression()
	p.expect(':', "in a conditional expression")
	no := p.expression()
	if v.isTrue() {
		return yes
	}
	return no
}

func (p *parser) binaryExpression(least int) value {
	v := p.unaryExpression()
	for !p.bad {
		p.splitModulo()
		op := p.tok
		prec := precedence(op.kind)
		if prec < least || prec == 0 {
			break
		}
		p.next()
		right := p.binaryExpression(prec + 1)
		result, problem := binary(op.kind, v, right)
		if problem != "" && !p.bad {
			p.failAt(op, "%s", problem)
		}
		v = result
	}
	return v
}

// splitModulo splits a name such as %3 into two tokens where an operator is expected.
func (p *parser) splitModulo() {
	if p.tok.kind != tokName || p.tok.text[0] != '%' {
		return
	}
	p.tok.kind, p.tok.text, p.tok.end = '%', "%", p.tok.off+1
	p.lex.back(p.tok)
	p.lex.off++
}

func (p *parser) unaryExpression() value {
	defer p.enter()()
	t := p.tok
	switch t.kind {
	case '-', '+', '!', '~':
		p.next()
		v, ok := unary(t.kind, p.unaryExpression())
		if !ok {
			p.failAt(t, "this operator takes integers, not floats")
		}
		return v
	case '(':
		return p.parenthesis()
	case tokNumber:
		return p.literal()
	case tokDot:
		return p.pointFirst()
	case tokName:
		if t.text == "WARP_SZ" {
			p.next()
			return integer(warpSize)
		}
	}
	p.fail("expected a constant, found %s", t)
	return value{}
}

// pointFirst parses a float that starts with its decimal point.
func (p *parser) pointFirst() value {
	t := p.tok
	if !p.lex.is(t.off+1, digit) {
		p.fail("expected a constant, found %s", t)
		return value{}
	}
	p.lex.off = p.lex.numberEnd(t.off + 1)
	v, problem := decimalFloat(p.lex.src[t.off:p.lex.off])
	p.next()
	if problem != "" {
		p.failAt(t, "%s", problem)
	}
	return v
}

// parenthesis parses (expression), or a cast (.s64) or (.u64) with its operand.
func (p *parser) parenthesis() value {
	p.next()
	if p.tok.kind != tokDot || p.tok.text != "s64" && p.tok.text != "u64" {
		v := p.expression()
		p.expect(')', "after the expression")
		return v
	}
	unsigned := p.tok.text == "u64"
	p.next()
	p.expect(')', "after the cast")
	v := p.unaryExpression()
	if v.width != 0 {
		f := v.float()
		v = integer(int64(f))
		if unsigned && f >= 1<<63 {
			v.bits = uint64(f)
		}
	}
	v.unsigned = unsigned
	return v
}

// integerConstant parses a constant expression that must be an integer in a range.
func (p *parser) integerConstant(what string, low, high int64) int64 {
	t := p.tok
	v := p.expression()
	if p.bad {
		return low
	}
	n := int64(v.bits)
	switch {
	case v.width != 0:
		p.failAt(t, "%s must be an integer", what)
	case n < low || n > high || v.unsigned && n < 0:
		p.failAt(t, "%s must be %d to %d, not %s", what, low, high, v.text())
	default:
		return n
	}
	return low
}

// constant parses an expression; it is fast for a single number.
func (p *parser) constant() value {
	if p.tok.kind == tokNumber {
		if c := p.lex.blanks(p.lex.off); p.lex.at(c, ',') || p.lex.at(c, ';') || p.lex.at(c, '}') || p.lex.at(c, ']') {
			return p.literal()
		}
	}
	return p.expression()
}

// literal parses a number token.
func (p *parser) literal() value {
	t := p.tok
	p.next()
	v, problem := number(t.text)
	if problem != "" {
		p.failAt(t, "%s", problem)
	}
	return v
}

// offset parses the integer after an address. The current token is its sign.
func (p *parser) offset() int64 {
	if p.tok.kind == '+' {
		p.next()
	}
	t := p.tok
	v := p.constant()
	if v.width != 0 && !p.bad {
		p.failAt(t, "an offset must be an integer")
	}
	return int64(v.bits)
}
