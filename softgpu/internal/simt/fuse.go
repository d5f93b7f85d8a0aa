package simt

import (
	"slices"

	"github.com/ferrygpu/ferry/ptx"
	"github.com/ferrygpu/ferry/softgpu/internal/softfloat"
)

// The PTX ISA lets a compiler join a multiplication and an addition that have no rounding
// modifier: the product is not rounded, as in fma. ptxas does that by these rules, and so does
// this package. They were found on an H200; docs/softgpu/differential.md has the evidence.
//
//   - Both have the same type and both or neither have .ftz. The addition may have .sat. A
//     product is a mul, or the last step of div.full and div.approx.
//   - A product is joined if every instruction that uses it is such an addition of the same
//     basic block. What nothing depends on is no use. A return uses results that are
//     registers. mov is transparent, and so is neg where it changes only a sign.
//   - No fence and no call lies between them.
//   - An addition is joined with one product. Products with one use come first. If both
//     operands can be joined, the first is. The other product must then be rounded, and no
//     later addition is joined with it.
//   - A product of two constants is a constant.
//
// Without optimisation nothing is joined.

// product is a multiplication that additions may be joined with.
type product struct {
	at      int         // index into the body
	uses    []productOf // the additions that use it
	joined  bool        // with at least one of them
	last    int         // the last one that it is joined with
	rounded bool        // an addition uses it after it is rounded
	kept    bool        // an instruction on which nothing depends may use it after it is rounded

	a, b int32 // the registers of the factors, once the multiplication is decoded
}

// productOf is an operand of an addition that is a product.
type productOf struct {
	*product
	sum     int  // index of the addition in the body
	operand int  // 1 or 2
	minus   bool // the addition subtracts the product
}

// joins is what a function's multiplications and additions become.
type joins struct {
	products map[int]*product  // by index into the body
	sums     map[int]productOf // the product that an addition is joined with
}

// findJoins applies the rules to a function.
func (fl *flow) findJoins() joins {
	if fl.program.plain || !hasPair(fl.src) {
		return joins{}
	}
	u := fl.findUses()
	if u == nil {
		return joins{}
	}
	operands := map[int]*[2]*productOf{} // of additions: their products
	for i := range fl.src.Body {
		p := u.productAt(i)
		if p == nil {
			continue
		}
		for k := range p.uses {
			s := &p.uses[k]
			if operands[s.sum] == nil {
				operands[s.sum] = new([2]*productOf)
			}
			operands[s.sum][s.operand-1] = s
		}
	}
	return chooseProducts(fl.src, operands)
}

// hasPair reports whether a function has a multiplication and an addition that could be joined.
func hasPair(f *ptx.Func) bool {
	return slices.ContainsFunc(f.Body, func(in ptx.Instr) bool { return multiplies(&in) }) &&
		slices.ContainsFunc(f.Body, func(in ptx.Instr) bool { return adds(&in) })
}

// chooseProducts joins each addition with one of its products.
func chooseProducts(f *ptx.Func, operands map[int]*[2]*productOf) joins {
	j := joins{map[int]*product{}, map[int]productOf{}}
	for _, single := range []bool{true, false} {
		for i := range f.Body {
			if both := operands[i]; both != nil && j.sums[i].product == nil {
				j.join(both, single)
			}
		}
	}
	return j
}

// join joins an addition with the first of its products that can be. single demands that the
// product has no other use.
func (j *joins) join(both *[2]*productOf, single bool) {
	can := func(s *productOf) bool { return s != nil && !s.rounded && (len(s.uses) == 1 || !single) }
	first := slices.IndexFunc(both[:], can)
	if first < 0 {
		return
	}
	s := both[first]
	if other := both[1-first]; other != nil {
		other.rounded = true
	}
	s.joined, s.last = true, max(s.last, s.sum)
	j.sums[s.sum], j.products[s.at] = *s, s.product
}

// multiplies reports whether an instruction is a product that may be joined.
func multiplies(in *ptx.Instr) bool {
	if !unrounded(in) || slices.Contains(in.Mods, "sat") {
		return false
	}
	return in.Op == "mul" || in.Op == "div" && (slices.Contains(in.Mods, "full") || slices.Contains(in.Mods, "approx"))
}

// adds reports whether an instruction is an addition that may be joined.
func adds(in *ptx.Instr) bool { return (in.Op == "add" || in.Op == "sub") && unrounded(in) }

// unrounded reports whether an instruction computes a float of two others, without a rounding
// modifier.
func unrounded(in *ptx.Instr) bool {
	return len(in.Operands) == 3 && isRegister(in.Operands[0]) && floatType(in) != ptx.NoType &&
		!slices.ContainsFunc(in.Mods, func(m string) bool { return m == "rn" || m == "rz" || m == "rm" || m == "rp" })
}

// floatType returns the first type among the modifiers if it is one of floats.
func floatType(in *ptx.Instr) ptx.Type {
	for _, m := range in.Mods {
		if t, ok := ptx.ParseType(m); ok {
			if t.IsFloat() {
				return t
			}
			break
		}
	}
	return ptx.NoType
}

// isRegister reports whether an operand is a register, and not a part of one.
func isRegister(o ptx.Operand) bool {
	r, ok := o.(ptx.Reg)
	return ok && r.Comp == 0 && r.Sel == "" && !r.Special
}

// sameKind reports whether a product and an addition have the same type and .ftz.
func sameKind(a, b *ptx.Instr) bool {
	return floatType(a) == floatType(b) && slices.Contains(a.Mods, "ftz") == slices.Contains(b.Mods, "ftz")
}

// copies reports whether an instruction copies a register. Of min, max and selp, both operands
// are that register.
func copies(in *ptx.Instr) bool {
	if len(in.Operands) < 2 || in.Guard != "" || !isRegister(in.Operands[0]) || !isRegister(in.Operands[1]) {
		return false
	}
	itself := len(in.Operands) > 2 && in.Operands[1] == in.Operands[2]
	switch in.Op {
	case "mov":
		return true
	case "cvt":
		return slices.Equal(in.Mods, []string{"f32", "f32"})
	case "selp":
		return itself
	case "min", "max": // of halves, hardware looks for NaN
		t := floatType(in)
		return itself && (t == ptx.F32 || t == ptx.F64 || t == ptx.F16 && !slices.Contains(in.Mods, "ftz"))
	}
	return false
}

// negates reports whether an instruction changes only the sign of a product. neg of bf16x2 is a
// multiplication on hardware, and neg.ftz of f16 an addition.
func negates(in, product *ptx.Instr) bool {
	if in.Op != "neg" || in.Guard != "" || !isRegister(in.Operands[0]) || floatType(in) != floatType(product) {
		return false
	}
	switch ftz := slices.Contains(in.Mods, "ftz"); floatType(in) {
	case ptx.F32:
		return !ftz || slices.Contains(product.Mods, "ftz")
	case ptx.BF16x2:
		return false
	default:
		return !ftz && !slices.Contains(product.Mods, "ftz")
	}
}

// productAt returns the product that instruction i computes. It is nil if i computes none, or
// one that must be rounded.
func (u *uses) productAt(i int) *product {
	in, d := u.at(i), u.of[i]
	if d == nil || !multiplies(in) || u.constant(i, in.Operands[1]) && u.constant(i, in.Operands[2]) {
		return nil
	}
	p := &product{at: i}
	if !u.follow(p, d, path{}) {
		return nil
	}
	slices.SortFunc(p.uses, func(a, b productOf) int { return a.sum - b.sum })
	for k := range p.uses[1:] {
		if p.uses[k].sum == p.uses[k+1].sum { // both operands are the product
			return nil
		}
	}
	return p
}

// path is what lies between a product and a use of it.
type path struct {
	minus   bool // the sign is changed
	flushes bool // by neg.ftz
}

// follow adds the uses of a definition that is p, or -p, to p.uses. It reports whether all are
// additions that p can be joined with.
func (u *uses) follow(p *product, d *definition, by path) bool {
	if d.other || len(d.uses) == 0 {
		return false
	}
	p.kept = p.kept || slices.ContainsFunc(u.names[d.at].writes, u.dropped.has)
	return !slices.ContainsFunc(d.uses, func(s use) bool { return !u.followUse(p, s, by) })
}

// followUse is follow for one use. An addition takes over one neg.ftz as a change of sign, but
// not where it changes the sign itself.
func (u *uses) followUse(p *product, s use, by path) bool {
	in, of := u.at(s.at), u.at(p.at)
	switch {
	case copies(in):
		return s.operand != 1 || u.follow(p, u.of[s.at], by)
	case negates(in, of):
		ftz := slices.Contains(in.Mods, "ftz")
		return !by.flushes && !(ftz && by.minus) && u.follow(p, u.of[s.at], path{!by.minus, ftz})
	case adds(in) && sameKind(in, of):
		subtracted := in.Op == "sub" && s.operand == 2
		p.uses = append(p.uses, productOf{p, s.at, s.operand, by.minus != subtracted})
		return !(by.flushes && subtracted)
	}
	return false
}

// decodeProduct decodes a multiplication that additions are joined with. It keeps its factors,
// and computes the rounded product only if an instruction reads it.
func (d *decoder) decodeProduct(p *product) error {
	t := floatType(d.in)
	var err error
	if p.a, err = d.source(1, t); err != nil {
		return err
	}
	if p.b, err = d.source(2, t); err != nil {
		return err
	}
	switch {
	case d.in.Op == "div":
		d.emitFactors(p)
	case p.overwritten(d.flow.names):
		d.emitCopy(&p.a)
		d.emitCopy(&p.b)
	}
	if p.rounded {
		return decoders[d.in.Op](d)
	}
	if p.kept {
		if err := d.decodeKept(); err != nil {
			return err
		}
	}
	return d.elide()
}

// decodeKept decodes a multiplication whose result is used only by instructions that compilers
// drop. It is not counted as an instruction.
func (d *decoder) decodeKept() error {
	cost, first := d.cost, len(d.f.code)
	if err := decoders[d.in.Op](d); err != nil {
		return err
	}
	for i := range d.f.code[first:] {
		in := &d.f.code[first+i]
		in.cost, in.class = 0, Plain
	}
	d.cost = cost
	return nil
}

// farApart is how far overwritten looks. Beyond that, copying the factors takes less time.
const farApart = 1 << 10

// overwritten reports whether a factor may be written before the last addition that is joined.
func (p *product) overwritten(names []named) bool {
	if p.last-p.at > farApart {
		return true
	}
	from := p.at
	if !p.rounded && !p.kept {
		from++
	}
	return slices.ContainsFunc(names[from:max(from, p.last)], func(n named) bool {
		return slices.ContainsFunc(n.writes, func(r int32) bool { return slices.Contains(names[p.at].reads, r) })
	})
}

// emitCopy emits a copy of a register, which counts as no instruction.
func (d *decoder) emitCopy(reg *int32) {
	kept := d.temp()
	d.emitExtra(inst{d: kept, a: *reg, exec: execPure, vec: vecMove, aff: affMove})
	*reg = kept
}

// emitExtra emits an instruction that counts as none.
func (d *decoder) emitExtra(out inst) *inst {
	cost := d.cost
	to := d.emit(out)
	to.cost, to.class, d.cost = 0, Plain, cost
	return to
}

// emitFactors emits what div.full or div.approx does before its last step, a multiplication.
func (d *decoder) emitFactors(p *product) {
	f := softfloat.DivFactors32(d.hasAny("approx", "full"), d.has("ftz"))
	a, b := p.a, p.b
	p.a, p.b = d.temp(), d.temp()
	d.emitExtra(inst{d: p.a, a: a, b: b, exec: execPure, vec: lift2(func(a, b uint64) uint64 {
		x, _ := f(uint32(a), uint32(b))
		return uint64(x)
	})})
	reciprocal := d.emitExtra(inst{d: p.b, a: a, b: b, exec: execPure, vec: lift2(func(a, b uint64) uint64 {
		_, y := f(uint32(a), uint32(b))
		return uint64(y)
	})})
	if !p.rounded {
		reciprocal.class = Quotient
	}
}

// decodeJoined decodes an addition that is joined with a product.
func (d *decoder) decodeJoined(s productOf) error {
	t := floatType(d.in)
	out := inst{a: s.a, b: s.b, exec: execPure}
	var err error
	if out.d, err = d.dest(0); err != nil {
		return err
	}
	if out.c, err = d.source(3-s.operand, t); err != nil {
		return err
	}
	switch m := d.floatMode(); t {
	case ptx.F32:
		out.vec = arithF32("fma", m, "")
	case ptx.F64:
		out.vec = arithF64("fma", m)
	default:
		out.vec = arithNarrow("fma", t, m)
	}
	if out.vec == nil {
		return d.badType()
	}
	out.vec = withSigns(out.vec, t, s.minus, d.in.Op == "sub" && s.operand == 1)
	d.emit(out)
	return nil
}

// withSigns returns the loop v with the sign of its first operand changed, or that of its third
// one, or both.
func withSigns(v vec, t ptx.Type, first, third bool) vec {
	if !first && !third {
		return v
	}
	return func(d, a, b, c *lanes, n int) {
		var x, z lanes
		if first {
			changeSigns(&x, a, t, n)
			a = &x
		}
		if third {
			changeSigns(&z, c, t, n)
			c = &z
		}
		v(d, a, b, c, n)
	}
}

// changeSigns sets d to -a. A NaN of f64 stays as it is, because it may be the result.
func changeSigns(d, a *lanes, t ptx.Type, n int) {
	signs := signsOf(t)
	for i, v := range a[:n] {
		if x := f64from(v); t != ptx.F64 || x == x {
			v ^= signs
		}
		d[i] = v
	}
}
