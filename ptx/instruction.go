package ptx

import "strings"

// opcode is an opcode with its modifiers.
type opcode struct {
	op     string
	mods   []string
	memory int  // index of the operand that must be an address, -1 for none
	jump   bool // a name is looked up as a label first
}

// instruction parses a guard, an opcode and its operands.
func (p *parser) instruction() {
	in := Instr{Pos: p.tok.pos, Loc: p.at}
	jumps := len(p.jumps)
	if p.tok.kind == '@' {
		p.guard(&in)
	}
	if c := p.tok; c.kind != tokName || c.text[0] == '%' || c.text[0] == '$' {
		p.fail("expected an instruction, found %s", c)
		return
	}
	op := p.opcode()
	in.Op, in.Mods = op.op, op.mods
	p.operands(op)
	in.Operands = p.take(0)
	if p.bad {
		p.jumps = p.jumps[:jumps] // they point into the instruction that is dropped
		return
	}
	if p.countItem(); p.bad {
		return
	}
	p.checkMemory(&in, op)
	p.instrs.add(&in)
	p.semicolon("the instruction")
}

// A short text may have freeItems instructions and addresses in initialisers. A long one may
// have one for every itemBytes of its length. What compilers write has over 20 bytes for
// each. An item takes 72 to 200 bytes of memory, so a few letters that a file repeats
// millions of times, which compress well, would fill the memory.
const (
	freeItems = 500_000
	itemBytes = 16
)

// countItem counts an instruction or an address.
func (p *parser) countItem() {
	if most := max(freeItems, len(p.lex.src)/itemBytes); p.items >= most {
		p.fail("the module has more than %d instructions and addresses in initialisers: "+
			"a text of %d bytes may have %d, or one for every %d bytes", most, len(p.lex.src), freeItems, itemBytes)
		return
	}
	p.items++
}

// take removes the operands from start on from the stack and returns a copy.
func (p *parser) take(start int) []Operand {
	list := p.stack[start:]
	p.stack = p.stack[:start]
	if len(list) == 0 {
		return nil
	}
	if cap(p.slab)-len(p.slab) < len(list) {
		p.slab = make([]Operand, 0, max(slabSize, len(list)))
	}
	from := len(p.slab)
	p.slab = append(p.slab, list...)
	return p.slab[from:len(p.slab):len(p.slab)]
}

// slabSize is how many operands are allocated at a time.
const slabSize = 512

// guard parses @p or @!p.
func (p *parser) guard(in *Instr) {
	p.next()
	in.Negate = p.accept('!')
	t := p.tok
	name, _ := p.name("a predicate register")
	if p.bad {
		return
	}
	r, ok := p.lookup(name)
	reg, isReg := r.op.(Reg)
	switch {
	case !ok:
		p.undeclared(p.scope, name, t.pos)
	case !isReg || r.v == nil:
		p.reportAt(t.pos, "%s is not a predicate register: a guard needs one", name)
	case r.v.Type != Pred || r.v.Vec > 1:
		p.reportAt(t.pos, "%s is declared %s: a guard must be a predicate, .pred", name, r.v.typeText())
	}
	in.Guard = name
	if isReg {
		in.Guard = reg.Name
	}
}

// opcode parses the dotted name of an operation.
func (p *parser) opcode() opcode {
	start, end := p.tok.off, p.tok.end
	for p.lex.at(end, '.') && p.lex.is(end+1, namePart) {
		end = p.bankEnd(p.lex.wordEnd(end + 1))
	}
	text := p.lex.src[start:end]
	op, ok := p.ops[text]
	if !ok {
		op = newOpcode(text)
		p.ops[text] = op
	}
	p.lex.off, p.tok.end = end, end
	p.next()
	if p.tok.kind != tokDot {
		return op
	}
	for p.tok.kind == tokDot { // blanks before a dot
		text += "." + p.tok.text
		p.next()
	}
	return newOpcode(text)
}

// bankEnd returns the end of the number of a constant bank at i, as in
// ld.const[3].u32, or i if there is none.
func (p *parser) bankEnd(i int) int {
	if !p.lex.at(i, '[') || !strings.HasSuffix(p.lex.src[:i], ".const") {
		return i
	}
	end := p.lex.run(i+1, digit)
	if end == i+1 || !p.lex.at(end, ']') || !p.lex.at(end+1, '.') {
		return i
	}
	return end + 1
}

func newOpcode(text string) opcode {
	parts := strings.Split(text, ".")
	op := opcode{op: parts[0], mods: parts[1:], memory: -1}
	for i, m := range op.mods {
		if strings.HasPrefix(m, "const[") {
			op.mods[i] = "const"
		}
	}
	switch op.op {
	case "ld", "ldu", "atom":
		op.memory = 1
	case "st", "red":
		op.memory = 0
	case "bra", "brx":
		op.jump = true
	}
	return op
}

func (p *parser) operands(op opcode) {
	p.stack = p.stack[:0]
	if p.tok.kind == ';' {
		return
	}
	for n := 0; !p.bad; n++ {
		p.arg = n
		if n < len(p.argPos) {
			p.argPos[n] = p.tok.pos
		}
		var o Operand
		if op.op == "call" && p.tok.kind == '(' {
			o = p.list()
		} else {
			o = p.operand(op)
		}
		p.stack = append(p.stack, o)
		if !p.accept(',') {
			return
		}
	}
}

var ordinals = [...]string{"first", "second"}

// checkMemory checks that loads, stores and atomics have their address.
func (p *parser) checkMemory(in *Instr, op opcode) {
	if op.memory < 0 {
		return
	}
	if len(in.Operands) <= op.memory {
		p.reportAt(in.Pos, "%s needs an address in brackets as its %s operand", in.Op, ordinals[op.memory])
		return
	}
	if _, ok := in.Operands[op.memory].(Mem); !ok {
		p.reportAt(p.argPos[op.memory], "the %s operand of %s must be an address in brackets", ordinals[op.memory], in.Op)
	}
}
