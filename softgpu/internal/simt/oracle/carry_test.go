package oracle

import (
	"math/big"
	"slices"
	"strings"
	"testing"
)

// carryFile has the GPU's results of chains of carries that mix additions and
// subtractions.
const carryFile = "carry.txt"

// mixedChains returns kernels of two or three instructions that share the carry flag:
// every way to set it, to pass it on, and to use it.
func mixedChains() []*kernel {
	var all []*kernel
	for _, t := range []string{"u32", "s32", "u64", "s64"} {
		for _, set := range []string{"add", "sub", "mad.lo", "mad.hi"} {
			for _, pass := range []string{"", "addc", "subc", "madc.lo", "madc.hi"} {
				for _, use := range []string{"addc", "subc", "madc.lo", "madc.hi"} {
					all = append(all, chain(t, set, pass, use))
				}
			}
		}
	}
	return all
}

// chain returns the kernel of one chain. Its name has the instructions with "+" between.
func chain(t, set, pass, use string) *kernel {
	class := classOf(t)
	k := &kernel{in: one(class, class, class), out: []word{{"%d", typeBits[t]}, {"%e", typeBits[t]}}}
	steps := [][2]string{{set + ".cc." + t, "%e, $a, $b"}}
	if pass != "" {
		steps = append(steps, [2]string{pass + ".cc." + t, "%e, $b, $c"})
	}
	steps = append(steps, [2]string{use + "." + t, "%d, $c, $a"})
	var names, lines []string
	for _, s := range steps {
		names = append(names, s[0])
		line := s[0] + " " + s[1]
		if strings.HasPrefix(s[0], "mad") {
			line += ", $c"
		}
		lines = append(lines, line+";")
	}
	k.form = form{text: strings.Join(names, "+")}
	k.code = strings.Join(lines, "\n")
	return k
}

// carries is the carry arithmetic of the GPU in math/big. A subtraction adds the
// complement and 1, or the carry flag.
type carries struct {
	bits   int
	signed bool
	carry  int64
}

// step returns the result of one instruction, and sets the carry flag.
func (a *carries) step(op string, x, y, z uint64) uint64 {
	one := big.NewInt(1)
	modulus := new(big.Int).Lsh(one, uint(a.bits))
	value := func(v uint64) *big.Int {
		n := new(big.Int).SetUint64(v)
		if a.signed && v>>(a.bits-1) == 1 {
			n.Sub(n, modulus)
		}
		return n
	}
	l, r := new(big.Int).SetUint64(x), new(big.Int).SetUint64(y)
	switch {
	case strings.HasPrefix(op, "mad"):
		l = new(big.Int).Mul(value(x), value(y))
		if strings.Contains(op, ".hi") {
			l.Rsh(l, uint(a.bits))
		}
		l.Mod(l, modulus)
		r.SetUint64(z)
	case strings.HasPrefix(op, "sub"):
		r.Sub(new(big.Int).Sub(modulus, one), r)
	}
	in := a.carry
	switch op, _, _ = strings.Cut(op, "."); op {
	case "add", "mad":
		in = 0
	case "sub":
		in = 1
	}
	l.Add(l, r).Add(l, big.NewInt(in))
	a.carry = new(big.Int).Rsh(l, uint(a.bits)).Int64()
	return l.Mod(l, modulus).Uint64()
}

// chainResult returns the value of %d in a thread.
func chainResult(k *kernel, i int) uint64 {
	var v [3]uint64
	for j, o := range k.in {
		v[j] = input(o.class, j, 0, i)
	}
	ops := strings.Split(k.form.text, "+")
	a := &carries{bits: k.out[0].bits, signed: strings.Contains(ops[0], ".s")}
	sources := [][2]int{{0, 1}, {1, 2}, {2, 0}}
	if len(ops) == 2 {
		sources = slices.Delete(sources, 1, 2)
	}
	var out uint64
	for n, op := range ops {
		out = a.step(op, v[sources[n][0]], v[sources[n][1]], v[2])
	}
	return out
}

// TestMixedChains compares all chains with exact arithmetic and with the results of the
// GPU.
func TestMixedChains(t *testing.T) {
	recorded := readGoldens(t, carryFile)
	for _, k := range mixedChains() {
		out, err := runSoft(k)
		if err != nil {
			t.Errorf("%s: %v", k.form.text, err)
			continue
		}
		switch want := recorded[k.form.text]; want {
		case "":
			t.Errorf("%s: not recorded", k.form.text)
		case hash(out), refusedByCompiler:
		default:
			t.Errorf("%s: the result differs from the GPU", k.form.text)
		}
		for i := range threads {
			if got, want := word64(out[i*outBytes:], k.out[0].bits/8), chainResult(k, i); got != want {
				t.Errorf("%s: thread %d: got %#x, want %#x", k.form.text, i, got, want)
				break
			}
		}
	}
}

// TestBorrowOfHardware checks the values that an H200 gave for chains of constants.
func TestBorrowOfHardware(t *testing.T) {
	for _, c := range []struct {
		code string
		want uint64
	}{
		{"add.cc.u32 %e, 0, 0;\nsubc.u32 %d, 0, 0;", 0xffffffff},
		{"sub.cc.u32 %e, 1, 2;\naddc.u32 %d, 0, 0;", 0},
		{"sub.cc.u32 %e, 2, 1;\naddc.u32 %d, 0, 0;", 1},
		{"sub.cc.u32 %e, 1, 2;\nsubc.u32 %d, 0, 0;", 0xffffffff},
	} {
		k := &kernel{form: form{text: "constants"}, code: c.code, out: []word{{"%d", 32}, {"%e", 32}}}
		out, err := runSoft(k)
		if err != nil {
			t.Fatal(err)
		}
		if got := word64(out, 4); got != c.want {
			t.Errorf("%q: got %#x, the GPU %#x", c.code, got, c.want)
		}
	}
}

// TestHardwareCarry runs the chains on a GPU and on the software GPU, and compares.
func TestHardwareCarry(t *testing.T) { compareOnGPU(t, mixedChains(), carryFile) }
