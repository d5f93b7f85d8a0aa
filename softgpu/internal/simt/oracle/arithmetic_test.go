package oracle

import (
	"math/big"
	"math/bits"
	"slices"
	"strings"
	"testing"
)

// checkExact compares a result with exact arithmetic. It returns false for forms
// without exact arithmetic. Every NaN counts as equal here; its bits are compared
// with those of the GPU.
func checkExact(t *testing.T, k *kernel, out []byte) bool {
	t.Helper()
	f := k.form
	want := exactFor(f)
	if want == nil {
		return false
	}
	n := max(k.out[0].bits/8, 4*bit(k.out[0].bits == 1))
	for i := range threads {
		var v [3]uint64
		for j, o := range k.in {
			v[j] = input(o.class, j, 0, i)
		}
		w, isNaN := want(v[0], v[1], v[2])
		got := word64(out[i*outBytes:], n)
		if isNaN && allNaN(got, f.typ(0)) {
			continue
		}
		if w &= ^uint64(0) >> (64 - 8*n); got != w {
			t.Errorf("%s of %#x, %#x, %#x: got %#x, want exactly %#x", f.text, v[0], v[1], v[2], got, w)
			return true
		}
	}
	return true
}

// exactFor returns exact arithmetic for a form, nil if there is none.
func exactFor(f form) func(a, b, c uint64) (uint64, bool) {
	switch {
	case isApproximate(f):
	case floatOperation(f) != nil:
		return perHalf(f.typ(0), floatOperation(f))
	case integerOperation(f) != nil:
		return integerOperation(f)
	case f.op == "vshr":
		return videoShift(f)
	case f.op == "setp" && !strings.HasSuffix(f.last(), "x2"):
		return comparison(f)
	case f.op == "cvt" && len(f.types) == 2 && layouts[f.types[0]].mant > 0 && typeBits[f.types[1]] > 0 && f.types[0] != "tf32" && !strings.HasSuffix(f.types[1], "x2"):
		return conversion(f)
	case f.op == "cvt" && len(f.types) == 2 && f.types[1] == "bf16" && typeBits[f.types[0]] == 8:
		return toByte(f)
	}
	return nil
}

func allNaN(v uint64, t string) bool {
	l, ok := layouts[strings.TrimSuffix(t, "x2")]
	return ok && (l.decode(v, false).nan || strings.HasSuffix(t, "x2"))
}

// perHalf turns an operation into one on both halves of a packed type.
func perHalf(t string, one func(a, b, c uint64) (uint64, bool)) func(a, b, c uint64) (uint64, bool) {
	if !strings.HasSuffix(t, "x2") {
		return one
	}
	return func(a, b, c uint64) (uint64, bool) {
		lo, nanLo := one(a&0xffff, b&0xffff, c&0xffff)
		hi, nanHi := one(a>>16, b>>16, c>>16)
		return hi<<16 | lo, nanLo || nanHi
	}
}

// mode returns the rounding of a form.
func (f form) mode() string { return f.any("rz", "rm", "rp", "rna") }

// floatOperation returns what a form does with floats of its type, nil if it is not
// floating-point arithmetic.
func floatOperation(f form) func(a, b, c uint64) (uint64, bool) {
	l, ok := layouts[strings.TrimSuffix(f.typ(0), "x2")]
	ops := []string{"add", "sub", "mul", "mad", "fma", "div", "rcp", "sqrt", "min", "max"}
	if !ok || !slices.Contains(ops, f.op) || len(f.types) != 1 || f.has("xorsign") {
		return nil
	}
	ftz := f.has("ftz")
	return func(a, b, c uint64) (uint64, bool) {
		x, y, z := l.decode(a, ftz), l.decode(b, ftz), l.decode(c, ftz)
		r := l.operate(f, x, y, z)
		if r.nan && !f.has("sat") && (!f.has("relu")) {
			return l.nan, true
		}
		return l.finish(f, r, ftz), r.nan
	}
}

func (l layout) operate(f form, x, y, z number) number {
	switch f.op {
	case "add":
		return add(x, y, f.mode())
	case "sub":
		return add(x, y.negated(), f.mode())
	case "mul":
		return mul(x, y)
	case "mad", "fma":
		return add(mul(x, y), z, f.mode())
	case "div":
		return div(x, y)
	case "rcp":
		return div(number{x: big.NewFloat(1)}, x)
	case "sqrt":
		return sqrt(x)
	}
	return pick(f, x, y)
}

func (n number) negated() number {
	n.neg = !n.neg
	if n.x != nil {
		n.x = big0().Neg(n.x)
	}
	return n
}

// pick computes min or max. A number wins over NaN unless .NaN says otherwise, and -0
// is below +0.
func pick(f form, x, y number) number {
	switch {
	case x.nan && y.nan || f.has("NaN") && (x.nan || y.nan):
		return number{nan: true}
	case x.nan:
		return y
	case y.nan:
		return x
	}
	c, _ := compare(x, y)
	if c == 0 {
		c = bit(y.neg) - bit(x.neg)
	}
	if (c < 0) == (f.op == "min") {
		return x
	}
	return y
}

// finish rounds, saturates and flushes a result.
func (l layout) finish(f form, r number, ftz bool) uint64 {
	switch {
	case r.nan:
		return 0 // for .sat; for .relu the caller has compared NaN
	case f.has("sat") && (r.neg || r.zero()):
		return 0
	case f.has("relu") && r.neg:
		return 0
	}
	v := l.encode(r, f.mode())
	if f.has("sat") && v > uint64(l.bias())<<l.mant {
		v = uint64(l.bias()) << l.mant
	}
	if ftz && r.x != nil && l.tiny(r, f.mode()) {
		v &= 1 << (l.mant + l.exp)
	}
	return v
}

// comparison computes setp: whether it holds, combined with the sign of c.
func comparison(f form) func(a, b, c uint64) (uint64, bool) {
	op := f.mods[0]
	t := f.last()
	return func(a, b, c uint64) (uint64, bool) {
		order, ordered := 0, true
		if l, ok := layouts[t]; ok {
			order, ordered = compare(l.decode(a, f.has("ftz")), l.decode(b, f.has("ftz")))
		} else {
			order = bigInt(a, t).Cmp(bigInt(b, t))
		}
		r := holds(op, order, ordered)
		p := int32(c) < 0
		switch f.any("and", "or", "xor") {
		case "and":
			r = r && p
		case "or":
			r = r || p
		case "xor":
			r = r != p
		}
		return uint64(bit(r)), false
	}
}

func holds(op string, order int, ordered bool) bool {
	switch op {
	case "num":
		return ordered
	case "nan":
		return !ordered
	}
	if !ordered {
		return len(op) == 3 // equ, neu, ...
	}
	switch op[:2] {
	case "eq":
		return order == 0
	case "ne":
		return order != 0
	case "lt", "lo":
		return order < 0
	case "le", "ls":
		return order <= 0
	case "gt", "hi":
		return order > 0
	}
	return order >= 0
}

// bigInt returns the integer v of type t.
func bigInt(v uint64, t string) *big.Int {
	n := typeBits[t]
	v &= ^uint64(0) >> (64 - n)
	x := new(big.Int).SetUint64(v)
	if t[0] == 's' && v>>(n-1) != 0 {
		x.Sub(x, new(big.Int).Lsh(big.NewInt(1), uint(n)))
	}
	return x
}

// cut returns the low 64 bits of a number in two's complement.
func cut(x *big.Int) uint64 {
	return new(big.Int).And(x, new(big.Int).SetUint64(^uint64(0))).Uint64()
}

// integerOperation returns what a form does with integers, nil if it is not integer
// arithmetic.
func integerOperation(f form) func(a, b, c uint64) (uint64, bool) {
	t := f.typ(0)
	if typeBits[t] < 16 || layouts[t].mant > 0 || strings.HasSuffix(t, "x2") || f.has("cc") || strings.HasSuffix(f.op, "c") && f.op != "popc" {
		return nil
	}
	n := uint(typeBits[t])
	one := func(op func(a, b, c *big.Int) *big.Int) func(a, b, c uint64) (uint64, bool) {
		return func(a, b, c uint64) (uint64, bool) {
			tc := t
			if f.has("wide") {
				tc = t[:1] + map[uint]string{16: "32", 32: "64"}[n]
			}
			r := op(bigInt(a, t), bigInt(b, t), bigInt(c, tc))
			if f.has("sat") {
				lo, hi := big.NewInt(-1<<31), big.NewInt(1<<31-1)
				if r.Cmp(lo) < 0 {
					r = lo
				} else if r.Cmp(hi) > 0 {
					r = hi
				}
			}
			return cut(r), false
		}
	}
	z := func() *big.Int { return new(big.Int) }
	product := func(a, b *big.Int) *big.Int {
		p := z().Mul(a, b)
		if f.has("hi") {
			p.Rsh(p, n)
		}
		return p
	}
	minusOne := big.NewInt(-1)
	switch f.op {
	case "add":
		return one(func(a, b, _ *big.Int) *big.Int { return z().Add(a, b) })
	case "sub":
		return one(func(a, b, _ *big.Int) *big.Int { return z().Sub(a, b) })
	case "mul":
		return one(func(a, b, _ *big.Int) *big.Int { return product(a, b) })
	case "mad":
		return one(func(a, b, c *big.Int) *big.Int { return z().Add(product(a, b), c) })
	case "div":
		return one(func(a, b, _ *big.Int) *big.Int {
			if b.Sign() == 0 {
				return minusOne
			}
			return z().Quo(a, b)
		})
	case "rem":
		return one(func(a, b, _ *big.Int) *big.Int {
			if b.Sign() == 0 {
				return minusOne
			}
			return z().Rem(a, b)
		})
	case "sad":
		return one(func(a, b, c *big.Int) *big.Int { d := z().Sub(a, b); return d.Add(d.Abs(d), c) })
	case "abs":
		return one(func(a, _, _ *big.Int) *big.Int { return z().Abs(a) })
	case "neg":
		return one(func(a, _, _ *big.Int) *big.Int { return z().Neg(a) })
	case "min", "max":
		return one(func(a, b, _ *big.Int) *big.Int {
			r := a
			if a.Cmp(b) > 0 == (f.op == "min") {
				r = b
			}
			if f.has("relu") && r.Sign() < 0 {
				return z()
			}
			return r
		})
	case "and":
		return one(func(a, b, _ *big.Int) *big.Int { return z().And(a, b) })
	case "or":
		return one(func(a, b, _ *big.Int) *big.Int { return z().Or(a, b) })
	case "xor":
		return one(func(a, b, _ *big.Int) *big.Int { return z().Xor(a, b) })
	case "not":
		return one(func(a, _, _ *big.Int) *big.Int { return z().Not(a) })
	case "popc":
		return func(a, _, _ uint64) (uint64, bool) { return uint64(bits.OnesCount64(a)), false }
	case "clz":
		return func(a, _, _ uint64) (uint64, bool) { return uint64(bits.LeadingZeros64(a) - (64 - int(n))), false }
	case "brev":
		return func(a, _, _ uint64) (uint64, bool) { return bits.Reverse64(a) >> (64 - n), false }
	case "shl":
		return func(a, b, _ uint64) (uint64, bool) {
			return cut(z().Lsh(bigInt(a, t), uint(min(b&0xffffffff, 200)))), false
		}
	case "shr":
		return func(a, b, _ uint64) (uint64, bool) {
			return cut(z().Rsh(bigInt(a, t), uint(min(b&0xffffffff, 200)))), false
		}
	}
	return nil
}

// videoShift computes vshr of whole registers.
func videoShift(f form) func(a, b, c uint64) (uint64, bool) {
	return func(a, b, c uint64) (uint64, bool) {
		b &= 0xffffffff
		if f.has("wrap") {
			b %= 32
		}
		r := new(big.Int).Rsh(bigInt(a, f.typ(1)), uint(min(b, 32)))
		low, high := new(big.Int), big.NewInt(1<<32-1)
		if f.typ(0) == "s32" {
			low, high = big.NewInt(-1<<31), big.NewInt(1<<31-1)
		}
		if f.has("sat") && r.Cmp(low) < 0 {
			r = low
		} else if f.has("sat") && r.Cmp(high) > 0 {
			r = high
		}
		other := bigInt(c, f.typ(0))
		switch op := f.any("add", "min", "max"); {
		case op == "add":
			r = r.Add(r, other)
		case op == "min" && other.Cmp(r) < 0, op == "max" && other.Cmp(r) > 0:
			r = other
		}
		return cut(r), false
	}
}

// conversion computes cvt to a float.
func conversion(f form) func(a, b, c uint64) (uint64, bool) {
	dst, src := layouts[f.types[0]], f.types[1]
	from, isFloat := layouts[src]
	whole := f.any("rni", "rzi", "rmi", "rpi")
	return func(a, _, _ uint64) (uint64, bool) {
		ftz := f.has("ftz") && f.types[0] != "f16"
		var x number
		if isFloat {
			x = from.decode(a, ftz && src == "f32")
		} else {
			x = exact(big0().SetInt(bigInt(a, src)), false)
		}
		if whole != "" && x.x != nil {
			x = roundedWhole(x, strings.TrimSuffix(whole, "i"))
		}
		if x.nan && !f.has("sat") {
			return dst.nan, true
		}
		v := dst.finish(f, x, ftz && f.types[0] == "f32")
		if inf := (uint64(1)<<dst.exp - 1) << dst.mant; f.has("satfinite") && v&inf == inf {
			v--
		}
		return v, false
	}
}

// toByte returns the conversion of bf16 to an 8-bit integer, which is extended to its register. NaN
// becomes 0, as with the other integers of at most 32 bits.
func toByte(f form) func(a, b, c uint64) (uint64, bool) {
	least, most := int64(0), int64(255)
	if f.types[0] == "s8" {
		least, most = -128, 127
	}
	mode := strings.TrimSuffix(f.any("rni", "rzi", "rmi", "rpi"), "i")
	return func(a, _, _ uint64) (uint64, bool) {
		x := layouts["bf16"].decode(a, false)
		switch {
		case x.inf && x.neg:
			return uint64(least), false
		case x.inf:
			return uint64(most), false
		case x.x != nil:
			x = roundedWhole(x, mode)
		}
		if x.x == nil { // zero or NaN
			return 0, false
		}
		v, _ := x.x.Int64() // saturates
		return uint64(min(max(v, least), most)), false
	}
}

// roundedWhole rounds a number to an integral value and keeps its sign.
func roundedWhole(x number, mode string) number {
	if x.x.MantExp(nil) > 60 {
		return x
	}
	v := roundWhole(big0().Abs(x.x), mode, x.neg)
	r := big0().SetUint64(v)
	if x.neg {
		r.Neg(r)
	}
	return exact(r, x.neg)
}
