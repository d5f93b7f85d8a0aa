package ptx

// operand parses one operand of an instruction.
func (p *parser) operand(op opcode) Operand {
	o := p.single(op)
	if p.tok.kind != '|' {
		return o
	}
	switch o.(type) {
	case Reg, Sink, Vec:
	default:
		p.fail("'|' joins two destination registers")
		return o
	}
	p.next()
	return Pair{First: o, Second: p.single(op)}
}

func (p *parser) single(op opcode) Operand {
	switch t := p.tok; t.kind {
	case tokName:
		return p.named(op)
	case '[':
		return p.memory(op)
	case '{':
		return Vec{Elems: p.group(op, '{', '}')}
	case '!', '-':
		if c := p.lex.blanks(p.lex.off); p.lex.is(c, nameStart) || p.lex.at(c, '%') {
			return p.negated(op)
		}
	case tokEOF, ';', ',', ')', ']', '}':
		p.fail("expected an operand, found %s", t)
		return Sink{}
	}
	return p.constant().operand()
}

// list parses (a, b, ...) of a call.
func (p *parser) list() Operand { return List{Elems: p.group(opcode{op: "call"}, '(', ')')} }

// group parses operands between brackets of any kind.
func (p *parser) group(op opcode, open, end kind) []Operand {
	defer p.enter()()
	p.arg = -1
	p.expect(open, "before the operands")
	start := len(p.stack)
	for p.tok.kind != end && !p.bad {
		o := p.operand(op)
		p.stack = append(p.stack, o)
		if !p.accept(',') {
			break
		}
	}
	p.expect(end, "after the operands")
	return p.take(start)
}

// negated parses !p, or the -r of video instructions.
func (p *parser) negated(op opcode) Operand {
	sign := p.tok
	if c := p.lex.blanks(p.lex.off); p.lex.src[c:p.lex.run(c, namePart)] == "WARP_SZ" {
		return p.expression().operand()
	}
	p.next()
	r, ok := p.named(op).(Reg)
	if !ok {
		p.failAt(sign, "'%s' needs a register or a constant after it", sign.text)
	}
	r.Negate, r.Minus = sign.kind == '!', sign.kind == '-'
	return r
}

// fullName parses a name with the component that may follow it: %v.x.
func (p *parser) fullName() (string, Pos) {
	t := p.tok
	if p.lex.at(t.end, '.') && p.lex.is(t.end+1, nameStart) {
		p.lex.off = p.lex.run(t.end+1, namePart)
		p.tok.end = p.lex.off
		t.text = p.lex.src[t.off:p.lex.off]
	}
	p.next()
	return t.text, t.pos
}

// named parses an operand that starts with a name: a register, a symbol, a label, _
// or WARP_SZ.
func (p *parser) named(op opcode) Operand {
	switch p.tok.text {
	case "_":
		p.next()
		return Sink{}
	case "WARP_SZ":
		return p.expression().operand()
	}
	text, pos := p.fullName()
	if op.jump && p.arg >= 0 && text[0] != '%' {
		if _, isVar := p.lookup(text); !isVar || p.arg == 0 && op.op == "bra" {
			p.countItem()
			p.jumps = append(p.jumps, reference{name: text, pos: pos, f: p.f, scope: p.scope, instr: p.instrs.len(), arg: p.arg, code: op.op == "bra"})
			return Sym{Name: text}
		}
	}
	r, ok := p.lookup(text)
	if !ok {
		return p.symbolTail(op, p.outer(text, pos), p.m.vars[text])
	}
	if p.tok.kind != '[' && p.tok.kind != '+' && p.tok.kind != '-' {
		return r.op
	}
	if sym, isSym := r.op.(Sym); isSym {
		return p.symbolTail(op, sym, r.v)
	}
	p.fail("'%s' after register %s: an operand cannot be a sum; an address needs brackets", p.tok.text, text)
	return r.op
}

// outer returns the symbol of a name that the function does not declare: the module
// declares it, or something declares it later.
func (p *parser) outer(text string, pos Pos) Sym {
	switch {
	case p.m.has(text):
	case text[0] == '%':
		p.undeclared(p.scope, text, pos)
	default:
		p.countItem()
		p.jumps = append(p.jumps, reference{name: text, pos: pos, f: p.f, scope: p.scope, instr: p.instrs.len(), arg: p.arg})
	}
	return Sym{Name: text}
}

// symbolTail parses what may follow a symbol: an index or an offset.
func (p *parser) symbolTail(op opcode, sym Sym, v *Var) Operand {
	if p.tok.kind == '+' || p.tok.kind == '-' {
		sym.Offset = p.offset()
	}
	if p.tok.kind != '[' {
		return sym
	}
	open := p.tok
	p.next()
	if p.tok.kind == tokName && p.tok.text != "WARP_SZ" {
		p.fail("an index must be constant: compute the address in a register")
	}
	index := int64(p.expression().bits)
	p.expect(']', "after the index")
	if v == nil {
		p.failAt(open, "%s is not a variable declared before this place: it has no elements", sym.Name)
		return sym
	}
	sym.Offset += index * int64(v.elementSize())
	if op.memory >= 0 {
		return Mem{Base: sym.Name, Offset: sym.Offset}
	}
	return sym
}

// memory parses [base], [base+offset], [offset], or one of these with further
// operands: [texture, {x, y}].
func (p *parser) memory(op opcode) Operand {
	defer p.enter()()
	p.arg = -1
	p.next()
	var m Mem
	if p.tok.kind == tokName && p.tok.text != "WARP_SZ" {
		m.Base, m.IsReg = p.base()
		if p.tok.kind == '+' || p.tok.kind == '-' {
			m.Offset = p.offset()
		}
	} else {
		m.Offset = p.offset()
	}
	start := len(p.stack)
	for p.accept(',') {
		o := p.operand(op)
		p.stack = append(p.stack, o)
	}
	m.Args = p.take(start)
	p.expect(']', "after the address")
	return m
}

// base parses the register or symbol at the start of an address.
func (p *parser) base() (name string, isReg bool) {
	text, pos := p.fullName()
	r, ok := p.lookup(text)
	if !ok {
		return p.outer(text, pos).Name, text[0] == '%'
	}
	switch o := r.op.(type) {
	case Sym:
		return o.Name, false
	case Reg:
		switch {
		case o.Special:
			p.reportAt(pos, "%s is a special register: move it into an ordinary one to address with it", text)
		case o.Comp != 0:
			p.reportAt(pos, "%s is part of a vector: move it into a register of its own to address with it", text)
		case r.v.Type == Pred:
			p.reportAt(pos, "%s is a predicate: it holds no address", text)
		default:
			p.noteAddress(r.v.Type)
		}
		return o.Name, true
	}
	return text, false
}
