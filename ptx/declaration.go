package ptx

import (
	"math"
	"math/bits"
)

// maxVarSize is the most bytes that a variable may have.
const maxVarSize = min(1<<46, math.MaxInt)

// moduleVariables parses a declaration of variables outside of functions.
func (p *parser) moduleVariables(space Space, link Linkage) {
	lost := p.lostName
	p.lostName = true // until the statement is parsed
	if space == ParamSpace {
		p.fail("a .param variable must be in a function")
	}
	spec := p.declarationStart(space)
	spec.Linkage = link
	for {
		v := p.declarator(spec)
		p.initialiser(v)
		p.checkExtent(v)
		if p.bad {
			return
		}
		p.addModuleVar(v)
		if !p.accept(',') {
			break
		}
	}
	p.semicolon("the declaration")
	p.lostName = lost || p.bad
}

func (p *parser) addModuleVar(v *Var) {
	old := p.m.vars[v.Name]
	switch {
	case v.Space == RegSpace:
		p.m.registers = append(p.m.registers, v)
		return
	case v.Count != 0:
		p.reportAt(v.Pos, "%s<%d>: only registers are declared in ranges", v.Name, v.Count)
		return
	case p.m.funcs[v.Name] != nil:
		p.reportAt(v.Pos, "%s is already declared as a function at %s", v.Name, p.m.funcs[v.Name].Pos)
		return
	case old != nil && old.Linkage != Extern && v.Linkage != Extern:
		p.reportAt(v.Pos, "%s is already declared at %s", v.Name, old.Pos)
		return
	case old != nil && (old.Space != v.Space || old.Type.Size() != v.Type.Size()):
		p.reportAt(v.Pos, "%s is declared .%s .%s here and .%s .%s at %s", v.Name, v.Space, v.Type, old.Space, old.Type, old.Pos)
		return
	}
	p.m.Vars = append(p.m.Vars, v)
	if old == nil || v.Linkage != Extern {
		p.m.vars[v.Name] = v
	}
}

// declareModuleRegisters gives an entry its own registers for those that are declared
// outside of functions. Other functions cannot use them, because they would share
// them with the caller.
func (p *parser) declareModuleRegisters() {
	if !p.f.Entry {
		return
	}
	for _, v := range p.m.registers {
		own := *v
		p.addLocal(&own)
	}
}

// localVariables parses a declaration of variables in the body of a function.
func (p *parser) localVariables(space Space) {
	lost := p.lostDeclaration
	p.lostDeclaration = true // until the statement is parsed
	spec := p.declarationStart(space)
	for {
		v := p.declarator(spec)
		p.initialiser(v)
		p.checkExtent(v)
		if p.bad {
			return
		}
		p.addLocal(v)
		if !p.accept(',') {
			break
		}
	}
	p.semicolon("the declaration")
	p.lostDeclaration = lost || p.bad
}

// maxExpanded is the largest n of a declaration name<n> that is not of registers. It
// becomes n variables.
const maxExpanded = 1 << 12

func (p *parser) addLocal(v *Var) {
	switch {
	case p.oldParam(v):
		p.declareParam(v)
		p.f.Params = append(p.f.Params, v)
	case v.Count == 0 || v.Space == RegSpace:
		if p.declare(v, false) {
			p.f.Vars = append(p.f.Vars, v)
		}
	case v.Count > maxExpanded:
		p.reportAt(v.Pos, "%s<%d>: at most %d variables that are not registers", v.Name, v.Count, maxExpanded)
	default:
		for i := range v.Count {
			one := *v
			one.Name, one.Count = v.Name+itoa(i), 0
			if !p.declare(&one, false) {
				return
			}
			p.f.Vars = append(p.f.Vars, &one)
		}
	}
}

// oldParam reports whether v is a kernel parameter declared in the body, as in PTX
// before 1.4.
func (p *parser) oldParam(v *Var) bool {
	ver := p.m.Version
	return v.Space == ParamSpace && p.f.Entry && p.levels == 1 && !p.f.hasParams && ver.Major == 1 && ver.Minor < 4
}

// declarationStart parses a declaration up to its first name: state space, alignment,
// vector, type. The current token is the state space.
func (p *parser) declarationStart(space Space) Var {
	v := Var{Space: space}
	word := p.tok.text
	p.next()
	if p.accept('[') { // the number of a constant bank
		p.integerConstant("the number of a constant bank", 0, 15)
		p.expect(']', "after the number of a constant bank")
	}
	for p.tok.kind == tokDot {
		p.declarationWord(&v)
	}
	switch {
	case p.bad:
	case v.Type == NoType:
		p.fail("expected a type such as .u32, found %s", p.tok)
	case v.Type == Pred && space != RegSpace:
		p.fail("a predicate must be a register: .%s .pred is not possible", space)
	case v.Managed && space != GlobalSpace:
		p.fail(".attribute(.managed) belongs to .global variables, not to .%s", space)
	case word == "tex":
		v.Type = TexRef
	case word == "surf":
		v.Type = SurfRef
	}
	if v.Align == 0 {
		v.Align = max(v.elementSize(), 1)
	}
	return v
}

// declarationWord parses a dotted word between the state space and the name.
func (p *parser) declarationWord(v *Var) {
	t := p.tok
	p.next()
	if typ, ok := ParseType(t.text); ok {
		if v.Type != NoType {
			p.failAt(t, ".%s after .%s: one type is allowed", typ, v.Type)
		}
		v.Type = typ
		return
	}
	space, isSpace := spaceOf(t.text)
	switch {
	case t.text == "align" && v.Ptr:
		v.PtrAlign = p.alignment()
	case t.text == "align":
		v.Align = p.alignment()
	case t.text == "v2" || t.text == "v4" || t.text == "v8":
		v.Vec = int(t.text[1] - '0')
	case t.text == "ptr":
		v.Ptr = true
	case isSpace && v.Ptr:
		v.PtrSpace = space
	case t.text == "attribute":
		p.attribute(v)
	default:
		p.failAt(t, "expected a type such as .u32, found .%s%s", t.text, dotHint(t.text, typeNames))
	}
}

var typeNames = func() (list []string) {
	for _, t := range typeTable[U8:] {
		list = append(list, t.name)
	}
	return list
}()

func (p *parser) alignment() int {
	t := p.tok
	n := p.plainNumber("an alignment", 1, 1<<30)
	if n&(n-1) != 0 {
		p.failAt(t, "alignment %d is not a power of two", n)
	}
	return int(n)
}

// plainNumber parses a number token that must be an integer in a range.
func (p *parser) plainNumber(what string, low, high int64) int64 {
	t := p.tok
	if t.kind != tokNumber {
		p.fail("expected %s, found %s", what, t)
		return low
	}
	p.next()
	v, problem := number(t.text)
	switch {
	case problem != "":
		p.failAt(t, "%s", problem)
	case v.width != 0 || v.unsigned && int64(v.bits) < 0 || int64(v.bits) < low || int64(v.bits) > high:
		p.failAt(t, "%s must be %d to %d, not %s", what, low, high, t.text)
	default:
		return int64(v.bits)
	}
	return low
}

// attribute parses (.managed), (.unified(a, b)) or a list of both. v may be nil.
func (p *parser) attribute(v *Var) {
	p.expect('(', "after .attribute")
	for !p.bad {
		t := p.tok
		p.next()
		switch {
		case t.kind == tokDot && t.text == "managed" && v != nil:
			v.Managed = true
		case t.kind == tokDot && t.text == "unified":
			p.expect('(', "after .unified")
			p.expression()
			p.expect(',', "between the halves of .unified")
			p.expression()
			p.expect(')', "after the halves of .unified")
		default:
			p.failAt(t, "expected an attribute such as .managed, found %s", t)
		}
		if !p.accept(',') {
			break
		}
	}
	p.expect(')', "after the attributes")
}

// declarator parses a name with its count or extents.
func (p *parser) declarator(spec Var) *Var {
	v := new(Var)
	*v = spec
	v.Name, v.Pos = p.name("a name")
	if p.accept('<') {
		v.Count = int(p.plainNumber("the number of registers", 1, maxRange))
		p.expect('>', "after the number of registers")
	}
	for p.tok.kind == '[' && !p.bad {
		p.extent(v)
	}
	p.checkSize(v)
	return v
}

func (p *parser) extent(v *Var) {
	p.next()
	n := int64(-1)
	switch {
	case p.tok.kind != ']':
		n = p.integerConstant("an extent", 0, maxVarSize)
	case len(v.Dims) > 0:
		p.fail("only the first extent may be left open")
	}
	p.expect(']', "after an extent")
	if v.Space == RegSpace || v.Count != 0 {
		p.failAt(token{pos: v.Pos}, "%s: registers cannot be an array", v.Name)
	}
	v.Dims = append(v.Dims, int(n))
}

// checkSize reports variables that no address space could hold.
func (p *parser) checkSize(v *Var) {
	total := uint64(v.elementSize())
	for _, d := range v.Dims {
		high, low := bits.Mul64(total, uint64(max(d, 1)))
		if high != 0 || low > maxVarSize {
			p.failAt(token{pos: v.Pos}, "%s is larger than %d bytes", v.Name, int64(maxVarSize))
			return
		}
		total = low
	}
}

// checkExtent reports an open extent for which there is neither an initialiser nor
// .extern.
func (p *parser) checkExtent(v *Var) {
	if len(v.Dims) > 0 && v.Dims[0] < 0 && v.Linkage != Extern && v.Space != ParamSpace {
		p.reportAt(v.Pos, "%s[] has no extent: give one, an initialiser, or .extern", v.Name)
	}
}

// typeText returns the type of the variable as PTX writes it, with dots.
func (v *Var) typeText() string {
	if v.Vec > 1 {
		return ".v" + itoa(v.Vec) + " ." + v.Type.String()
	}
	return "." + v.Type.String()
}
