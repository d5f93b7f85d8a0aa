package oracle

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/softgpu/internal/ptxforms"
)

// leastFile has the GPU's results around the smallest normal number.
const leastFile = "least.txt"

// least returns operand k of thread i. The operands are chosen so that their product,
// quotient or sum of a product lies around the smallest normal number. The distance is
// a fraction of the last place.
func least(class string, k, i int) uint64 {
	name, packed := strings.CutSuffix(class, "x32")
	name = strings.TrimSuffix(name, "x16")
	v := leastOperands(name, i)[k]
	if packed {
		v |= leastOperands(name, (i+37)%threads)[k] << 16
	}
	return v
}

func leastOperands(name string, i int) [3]uint64 {
	r := rand.New(rand.NewPCG(uint64(len(name))<<8|uint64(name[0]), uint64(i)))
	l := layouts[name]
	one := uint64(l.bias()) << l.mant
	frac := func() uint64 { return r.Uint64() & (1<<l.mant - 1) }
	scale := func(by int) uint64 { return one + uint64(by)<<l.mant } // 2^by
	near := func(v uint64) uint64 { return v + uint64(r.IntN(5)) - 2 }
	sign := func() uint64 { return r.Uint64() & 1 << (l.mant + l.exp) }
	e := 1 - l.bias() // exponent of the smallest normal number
	var a, b, c uint64
	switch i % 4 {
	case 0, 1: // a*b, and a very small c
		a = scale(e/2) | frac()
		quotient := div(l.decode(scale(e), false), l.decode(a, false))
		b = l.encode(quotient, "") + uint64(r.IntN(3)) - 1
		c = uint64(i%4) * (r.Uint64() & 3)
	case 2: // c minus a*b, where a*b is around half of the last place of c, or less
		by := e - l.mant + 1 - r.IntN(6)
		a, b, c = scale(by/2)|frac(), scale(by-by/2)|frac(), scale(e)+uint64(max(r.IntN(6)-3, 0))
		if i%16 == 2 { // exactly half
			a, b = scale(by/2), scale(by-by/2)
		}
	case 3: // a/b, or the inverse of a
		b = scale(1+r.IntN(-e-1)) | frac()
		if a = near(b + uint64(e)<<l.mant); i%8 == 3 {
			a = near(scale(-e) + 2)
		}
	}
	if name == "f64" || name == "f32" && i%32 >= 24 { // the smallest normal number of smaller formats
		a = scale([]int{-14, -126}[i%2]) - 1<<r.IntN(l.mant) + uint64(r.IntN(3)) - 1
	}
	return [3]uint64{a | sign(), b | sign(), c | sign()}
}

// leastKernels returns kernels of floating-point arithmetic and conversions, with
// operands of [least].
func leastKernels(t *testing.T) []*kernel {
	var all []*kernel
	for _, text := range ptxforms.Forms() {
		f := parseForm(text)
		ops := []string{"add", "sub", "mul", "mad", "fma", "div", "rcp", "sqrt", "cvt"}
		if exactFor(f) == nil || !slices.Contains(ops, f.op) || f.op != "cvt" && f.typ(0) == "f64" {
			continue
		}
		k, ok := kernelOf(text)
		if !ok {
			t.Fatalf("%s: no kernel", text)
		}
		for i, o := range k.in {
			if k.in[i].class = "least" + o.class; !slices.Contains(classes, k.in[i].class) {
				k = nil
				break
			}
		}
		if k != nil {
			all = append(all, k)
		}
	}
	return all
}

// TestLeast checks results around the smallest normal number, which may be flushed by
// .ftz or lose bits. They must equal exact arithmetic and the results of the GPU.
func TestLeast(t *testing.T) {
	hashes, others := readGoldens(t, leastFile), readGoldens(t, "hashes.txt")
	for _, k := range leastKernels(t) {
		out, err := runSoft(k)
		if err != nil {
			t.Errorf("%s: %v", k.form.text, err)
			continue
		}
		switch want := hashes[k.form.text]; want {
		case "": // exact arithmetic is enough for a form that is in no record yet
			if others[k.form.text] != "" {
				t.Errorf("%s: not recorded", k.form.text)
			}
		case refusedByCompiler:
		default:
			if hash(out) != want {
				t.Errorf("%s: the result differs from the GPU", k.form.text)
			}
		}
		checkExact(t, k, out)
	}
}

// TestHardwareLeast runs the same kernels on a GPU and on the software GPU.
func TestHardwareLeast(t *testing.T) { compareOnGPU(t, leastKernels(t), leastFile) }
