package simt

import "github.com/ferrygpu/ferry/ptx"

// videoShift is a vshr. It shifts a part of a register and may saturate the result. It
// then combines the result with c, or replaces a part of c by it.
type videoShift struct {
	a, b, d part
	sat     bool
	wrap    bool   // the shift count is taken modulo 32; else it is at most 32
	combine string // add, min or max with c; "" for none
}

func decodeVideoShift(d *decoder) error {
	s := videoShift{sat: d.has("sat"), wrap: d.has("wrap"), combine: d.hasAny("add", "min", "max")}
	out := inst{exec: execPure}
	var err error
	if out.a, s.a, err = d.partOf(1, d.typ(1)); err != nil {
		return err
	}
	if out.b, s.b, err = d.partOf(2, ptx.U32); err != nil {
		return err
	}
	dst, selector := withoutPart(d.in.Operands[0])
	if out.d, err = d.destOf(dst); err != nil {
		return err
	}
	if selector != "" && s.combine != "" {
		return missing("a part of the destination and .%s are not supported together", s.combine)
	}
	s.d = partFor(selector, d.typ(0))
	if selector != "" || s.combine != "" {
		if out.c, err = d.source(3, d.typ(0)); err != nil {
			return err
		}
	}
	out.vec = lift3(s.shiftRight)
	d.emit(out)
	return nil
}

// shiftRight computes the destination register of one lane, as an H200 does with the code
// of ptxas 13.0. That differs from the manual in two ways. A result is saturated to 32
// bits even if it replaces a part of c. A result that replaces .h1 is not moved there:
// its own upper half replaces the upper half of c.
func (s *videoShift) shiftRight(a, b, c uint64) uint64 {
	count := s.b.read(b)
	if s.wrap {
		count &= 31
	}
	v := s.a.read(a) >> min(count, 32)
	whole := part{bits: 32, signed: s.d.signed}
	if s.sat {
		low, high := whole.limits()
		v = min(max(v, low), high)
	}
	switch s.combine {
	case "add":
		return uint64(v + whole.read(c))
	case "min":
		return uint64(min(v, whole.read(c)))
	case "max":
		return uint64(max(v, whole.read(c)))
	}
	if s.d.bits == 32 {
		return uint64(v)
	}
	if s.d.bits == 8 || s.d.at == 0 {
		v <<= s.d.at
	}
	mask := uint64(1<<s.d.bits-1) << s.d.at
	return c&^mask | uint64(v)&mask
}

// part is a byte or a half of a 32-bit register, or the whole register.
type part struct {
	at, bits int
	signed   bool
}

// partFor returns the part for a selector, "b2" or "h1"; "" selects the register.
func partFor(selector string, t ptx.Type) part {
	p := part{bits: 32, signed: t.IsSigned()}
	if selector == "" {
		return p
	}
	p.bits = 8
	if selector[0] == 'h' {
		p.bits = 16
	}
	p.at = p.bits * int(selector[1]-'0')
	return p
}

// partOf returns the register of source i and the part of it that is read as type t.
func (d *decoder) partOf(i int, t ptx.Type) (reg int32, p part, err error) {
	if err := d.want(i + 1); err != nil {
		return 0, p, err
	}
	op, selector := withoutPart(d.in.Operands[i])
	reg, err = d.value(op, t)
	return reg, partFor(selector, t), err
}

// withoutPart separates a register from the selector of a part.
func withoutPart(op ptx.Operand) (ptx.Operand, string) {
	r, ok := op.(ptx.Reg)
	if !ok {
		return op, ""
	}
	selector := r.Sel
	r.Sel = ""
	return r, selector
}

// read returns the part of a register, extended.
func (p part) read(v uint64) int64 {
	v <<= 64 - p.at - p.bits
	if p.signed {
		return int64(v) >> (64 - p.bits)
	}
	return int64(v >> (64 - p.bits))
}

// limits returns the least and the greatest value of the part.
func (p part) limits() (low, high int64) {
	if p.signed {
		return -1 << (p.bits - 1), 1<<(p.bits-1) - 1
	}
	return 0, 1<<p.bits - 1
}
