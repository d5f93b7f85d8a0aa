package ptx

import (
	"math"
	"math/bits"
	"slices"
)

// maxInit is the most bytes of an initialiser that a short text may cause. A long
// text may take maxInitRatio times its own length.
const (
	maxInit      = 64 << 20
	maxInitRatio = 16
)

// initialiser parses what follows the name of a variable, if it starts with "=".
func (p *parser) initialiser(v *Var) {
	if p.tok.kind != '=' {
		return
	}
	if v.Space != GlobalSpace && v.Space != ConstSpace || v.Linkage == Extern {
		p.fail("%s cannot have an initialiser: only .global and .const variables that are not .extern can", v.Name)
	}
	p.next()
	dims := v.Dims
	if v.Vec > 1 {
		dims = append(slices.Clip(dims), v.Vec)
	}
	switch {
	case v.Type.isOpaque() && p.tok.kind == '{':
		p.skipBraces()
	case p.tok.kind == '{':
		if len(dims) == 0 {
			dims = []int{1}
		}
		p.initList(v, dims, 0)
	case len(dims) > 0:
		p.fail("expected '{' before the values of the array %s", v.Name)
	default:
		p.initElement(v, 0)
	}
	if v.Init == nil {
		v.Init = []byte{}
	}
}

// initList parses {a, b, ...} for the array of dims that starts at element base.
func (p *parser) initList(v *Var, dims []int, base int) {
	defer p.enter()()
	stride := 1
	for _, d := range dims[1:] {
		stride *= max(d, 1)
	}
	p.expect('{', "before the values")
	next := 0 // number of the element, counted from base
	for p.tok.kind != '}' && !p.bad {
		start := p.tok
		if start.kind == '{' {
			next = (next + stride - 1) / stride * stride
		}
		if dims[0] >= 0 && next >= dims[0]*stride || next > maxVarSize-stride {
			p.failAt(start, "more values than the %d that %s holds here", max(dims[0], 0)*stride, v.Name)
			return
		}
		switch {
		case start.kind != '{' && slices.Contains(dims, 0):
			p.failAt(start, "%s holds no values: an extent is 0", v.Name)
		case start.kind != '{':
			p.initElement(v, base+next)
			next++
		case len(dims) == 1:
			p.fail("more braces than %s has dimensions", v.Name)
		default:
			p.initList(v, dims[1:], base+next)
			next += stride
		}
		if !p.accept(',') {
			break
		}
	}
	p.expect('}', "after the values")
	if dims[0] < 0 && !p.bad {
		v.Dims[0] = (next + stride - 1) / stride
	}
}

// initElement parses a constant or an address for element i of the array.
func (p *parser) initElement(v *Var, i int) {
	t := p.tok
	switch {
	case t.kind == tokNumber && p.lex.at(p.lex.blanks(p.lex.off), '('):
		p.initPiece(v, i)
	case t.kind == tokName && t.text != "WARP_SZ":
		r := p.initAddress()
		if size := v.Type.Size(); !p.bad && size != 4 && size != 8 {
			p.failAt(t, "an address does not fit .%s", v.Type)
		}
		p.initReloc(v, i, r)
	default:
		c := p.constant()
		stored, problem := c.as(v.Type)
		if problem != "" && !p.bad {
			p.failAt(t, "%s", problem)
		}
		p.initBits(v, i, stored)
	}
}

// initPiece parses 0xFF00(symbol): some bits of an address, shifted to the right end.
func (p *parser) initPiece(v *Var, i int) {
	t := p.tok
	mask, problem := number(t.text)
	p.next()
	p.expect('(', "after the mask")
	r := p.initAddress()
	p.expect(')', "after the masked address")
	r.Shift = min(bits.TrailingZeros64(mask.bits), 63)
	width := uint(v.Type.Size() * 8)
	if ones := uint64(1)<<width - 1; problem == "" && (mask.width != 0 || mask.bits>>r.Shift != ones) {
		problem = t.text + ": the mask of a piece for ." + v.Type.String() + " must be " + itoa(int(width)) + " ones in a row"
	}
	if problem != "" {
		p.failAt(t, "%s", problem)
	}
	p.initReloc(v, i, r)
}

// initAddress parses symbol, generic(symbol), or either with an offset.
func (p *parser) initAddress() (r Reloc) {
	defer p.enter()()
	name, pos := p.name("a symbol")
	if name == "generic" && p.accept('(') {
		r = p.initAddress()
		r.Generic = true
		p.expect(')', "after generic's symbol")
	} else {
		r.Symbol = p.symbol(name, pos)
	}
	if p.tok.kind == '+' || p.tok.kind == '-' {
		r.Addend += p.offset()
	}
	return r
}

// symbol returns the unique name of a variable or function that an initialiser refers
// to.
func (p *parser) symbol(name string, pos Pos) string {
	if p.bad {
		return name
	}
	if p.f != nil {
		if r, ok := p.lookup(name); ok {
			if sym, ok := r.op.(Sym); ok {
				return sym.Name
			}
			p.reportAt(pos, "%s is a register: an initialiser needs a constant", name)
			return name
		}
	}
	if !p.m.has(name) {
		p.forward = append(p.forward, reference{name: name, pos: pos, f: p.f, scope: p.scope, arg: -1})
	}
	return name
}

func (p *parser) initReloc(v *Var, i int, r Reloc) {
	p.initBits(v, i, 0)
	r.Offset, r.Size = i*v.Type.Size(), v.Type.Size()
	if p.countItem(); !p.bad {
		v.Relocs = append(v.Relocs, r)
	}
}

// initBits stores element i.
func (p *parser) initBits(v *Var, i int, stored uint64) {
	size := v.Type.Size()
	end := (i + 1) * size
	if limit := max(maxInit, len(p.lex.src)*maxInitRatio); i >= limit || end > limit {
		p.fail("the initialiser of %s is longer than %d bytes", v.Name, limit)
	}
	if p.bad {
		return
	}
	if end > len(v.Init) {
		v.Init = slices.Grow(v.Init, end-len(v.Init))[:end]
	}
	for b := range size {
		v.Init[end-size+b] = byte(stored >> (8 * b)) // zero from bit 64 up
	}
}

// as returns the bits of the constant for a variable of type t. If there are none,
// problem says why.
func (v value) as(t Type) (stored uint64, problem string) {
	switch {
	case t == F32 && v.width != 32:
		return uint64(math.Float32bits(float32(v.float()))), ""
	case t == F64 && v.width != 64:
		return math.Float64bits(v.float()), ""
	case v.width == 0 || v.width == t.Size()*8 && (t.IsFloat() || t == B32 || t == B64):
		return v.bits, ""
	}
	return 0, "a float cannot initialise ." + t.String() + ": give its bits as an integer"
}
