package simt

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/ptx"
)

// randomProgram returns a kernel of random integer instructions. Some have a
// predicate, some are skipped by a branch. The kernel stores all its registers.
func randomProgram(r *rand.Rand) string {
	const n32, n64 = 8, 6
	var s strings.Builder
	s.WriteString(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 out, .param .u32 x, .param .u32 y) {\n")
	fmt.Fprintf(&s, "\t.reg .b32 %%r<%d>;\n\t.reg .b64 %%d<%d>;\n\t.reg .pred %%p<4>;\n\t.reg .b64 %%o<4>;\n\t.reg .b32 %%i<9>;\n", n32, n64)
	w := func() string { return fmt.Sprintf("%%r%d", r.IntN(n32)) }
	d := func() string { return fmt.Sprintf("%%d%d", r.IntN(n64)) }
	c := func() string {
		return fmt.Sprint([]int32{0, 1, -1, 2, 4, 31, 32, 1 << 30, -1 << 31, 1<<31 - 1, 12345, r.Int32()}[r.IntN(12)])
	}
	src := func() string {
		if r.IntN(3) == 0 {
			return c()
		}
		return w()
	}
	s.WriteString("\tmov.u32 %r0, %tid.x;\n\tld.param.u32 %r1, [x];\n\tmov.u32 %r2, %ctaid.x;\n\tld.param.u32 %r3, [y];\n\tmov.u32 %r4, %laneid;\n")
	s.WriteString("\tcvt.u64.u32 %d0, %r0;\n\tmul.wide.s32 %d1, %r0, -4;\n\tsetp.lt.u32 %p1, %r0, 17;\n\tsetp.eq.u32 %p2, %r2, 1;\n")
	label, open := 0, false
	for range 12 + r.IntN(30) {
		if r.IntN(4) == 0 {
			fmt.Fprintf(&s, "\t@%s%%p%d ", []string{"", "!"}[r.IntN(2)], 1+r.IntN(3))
		} else {
			s.WriteString("\t")
		}
		switch r.IntN(19) {
		case 0, 1:
			fmt.Fprintf(&s, "add.s32 %s, %s, %s;\n", w(), w(), src())
		case 2:
			fmt.Fprintf(&s, "sub.s32 %s, %s, %s;\n", w(), w(), src())
		case 3:
			fmt.Fprintf(&s, "mul.lo.s32 %s, %s, %s;\n", w(), w(), src())
		case 4:
			fmt.Fprintf(&s, "mad.lo.s32 %s, %s, %s, %s;\n", w(), w(), src(), w())
		case 5:
			fmt.Fprintf(&s, "shl.b32 %s, %s, %s;\n", w(), w(), src())
		case 6:
			fmt.Fprintf(&s, "mul.wide.%s32 %s, %s, %s;\n", []string{"s", "u"}[r.IntN(2)], d(), w(), src())
		case 7:
			fmt.Fprintf(&s, "mad.wide.%s32 %s, %s, %s, %s;\n", []string{"s", "u"}[r.IntN(2)], d(), w(), src(), d())
		case 8:
			fmt.Fprintf(&s, "cvt.%s %s, %s;\n", []string{"s64.s32", "u64.u32"}[r.IntN(2)], d(), w())
		case 9:
			fmt.Fprintf(&s, "cvt.u32.u64 %s, %s;\n", w(), d())
		case 10:
			fmt.Fprintf(&s, "add.s64 %s, %s, %s;\n", d(), d(), d())
		case 11:
			fmt.Fprintf(&s, "mul.lo.s64 %s, %s, %s;\n", d(), d(), c())
		case 12, 13:
			fmt.Fprintf(&s, "setp.%s.%s32 %%p%d, %s, %s;\n", []string{"lt", "le", "gt", "ge", "eq", "ne"}[r.IntN(6)], []string{"s", "u"}[r.IntN(2)], 1+r.IntN(3), w(), src())
		case 14:
			fmt.Fprintf(&s, "selp.b32 %s, %s, %s, %%p%d;\n", w(), w(), src(), 1+r.IntN(3))
		case 15:
			fmt.Fprintf(&s, "mov.u32 %s, %s;\n", w(), src())
		case 16:
			fmt.Fprintf(&s, "neg.s64 %s, %s;\n", d(), d())
		case 17:
			fmt.Fprintf(&s, "shl.b64 %s, %s, %s;\n", d(), d(), src())
		case 18:
			if open {
				fmt.Fprintf(&s, "add.u32 %s, %s, 1;\nL%d:\n", w(), w(), label)
			} else {
				label++
				fmt.Fprintf(&s, "bra L%d;\n", label)
			}
			open = !open
		}
	}
	if open {
		fmt.Fprintf(&s, "L%d:\n", label)
	}
	fmt.Fprintf(&s, "\tld.param.u64 %%o1, [out];\n\tmov.u32 %%i1, %%ctaid.x;\n\tmov.u32 %%i2, %%ntid.x;\n\tmov.u32 %%i3, %%tid.x;\n\tmad.lo.u32 %%i4, %%i1, %%i2, %%i3;\n\tmul.wide.u32 %%o2, %%i4, %d;\n\tadd.u64 %%o3, %%o1, %%o2;\n", 4*n32+8*n64)
	for i := range n64 {
		fmt.Fprintf(&s, "\tst.global.u64 [%%o3+%d], %%d%d;\n", 8*i, i)
	}
	for i := range n32 {
		fmt.Fprintf(&s, "\tst.global.u32 [%%o3+%d], %%r%d;\n", 8*n64+4*i, i)
	}
	s.WriteString("\tret;\n}\n")
	return s.String()
}

// TestAffineIsLanewise runs random programs with uniform and affine registers and
// without them. The results and the traffic must be the same.
func TestAffineIsLanewise(t *testing.T) {
	defer lanewiseForTests.Store(false)
	n := 800
	if testing.Short() {
		n = 100
	}
	for seed := range n {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		source := randomProgram(r)
		x, y := int(r.Int32()>>r.IntN(31)), int(int32(r.Uint32()))
		block := []int{32, 64, 50, 7}[r.IntN(4)]
		var first []byte
		var stats Stats
		for _, lanewise := range []bool{false, true} {
			lanewiseForTests.Store(lanewise)
			m := load(t, newSpace(), "random.ptx", source)
			out := m.mem.alloc(make([]byte, 2*block*(4*8+8*6)))
			s := mustRun(t, m.launch(t, "k", 2, block, out, x, y))
			if !lanewise {
				first, stats = out.Data, s
				continue
			}
			if !slices.Equal(first, out.Data) {
				t.Fatalf("seed %d, block %d: registers differ\n%s", seed, block, source)
			}
			if s.Traffic[0] != stats.Traffic[0] || s.WarpInstructions != stats.WarpInstructions {
				t.Fatalf("seed %d: got %+v with affine registers, %+v without", seed, stats, s)
			}
		}
	}
}

// TestDamagedPrograms links and runs programs that no compiler would write. Their
// result is undefined, but the process must survive.
func TestDamagedPrograms(t *testing.T) {
	n := 300
	if testing.Short() {
		n = 50
	}
	names := append(slices.Clone(corpora), "../../../ptx/testdata/features.ptx")
	for seed := range n {
		r := rand.New(rand.NewPCG(uint64(seed), 9))
		name := names[r.IntN(len(names))]
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Skip(err)
		}
		m, err := ptx.Parse(name, string(b))
		if err != nil {
			t.Fatal(err)
		}
		for range 1 + r.IntN(20) {
			damage(r, m)
		}
		mem := newSpace()
		buf := mem.alloc(make([]byte, 1<<12))
		p, err := Link(m, func(string) (uint64, bool) { return buf.Base, true })
		if err != nil {
			continue
		}
		for _, k := range p.kernels {
			if k.Unsupported != nil || r.IntN(4) > 0 {
				continue
			}
			params := make([]byte, k.ParamBytes)
			for i := 0; i+8 <= len(params); i += 8 {
				storeBytes(params[i:i+8], buf.Base+uint64(r.IntN(3))*1024)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Millisecond)
			_, _ = Run(ctx, &Launch{Kernel: k, Grid: cu.Dim3{X: 2, Y: 1, Z: 1}, Block: cu.Dim3{X: 40, Y: 1, Z: 1}, Params: params, Memory: mem, Counters: 1, SharedBytes: 100})
			cancel()
		}
	}
}

// damage changes one instruction: its operands, modifiers or opcode.
func damage(r *rand.Rand, m *ptx.Module) {
	f := m.Funcs[r.IntN(len(m.Funcs))]
	if len(f.Body) == 0 {
		return
	}
	in := &f.Body[r.IntN(len(f.Body))]
	other := &f.Body[r.IntN(len(f.Body))]
	in.Operands = slices.Clone(in.Operands)
	in.Mods = slices.Clone(in.Mods)
	switch r.IntN(8) {
	case 0:
		if n := len(in.Operands); n > 0 {
			in.Operands = in.Operands[:n-1]
		}
	case 1:
		in.Operands = append(in.Operands, other.Operands...)
	case 2:
		if len(in.Operands) > 0 && len(other.Operands) > 0 {
			in.Operands[r.IntN(len(in.Operands))] = other.Operands[r.IntN(len(other.Operands))]
		}
	case 3:
		if n := len(in.Mods); n > 0 {
			i := r.IntN(n)
			in.Mods = slices.Delete(in.Mods, i, i+1)
		}
	case 4:
		if len(in.Mods) > 0 && len(other.Mods) > 0 {
			in.Mods[r.IntN(len(in.Mods))] = other.Mods[r.IntN(len(other.Mods))]
		}
	case 5:
		in.Op = other.Op
	case 6:
		in.Guard, in.Negate = other.Guard, other.Negate
	case 7:
		in.Operands = append(in.Operands, ptx.Imm{Value: r.Uint64()}, ptx.Sink{}, ptx.Vec{})
		if len(in.Operands) > 3 {
			r.Shuffle(len(in.Operands), func(i, j int) { in.Operands[i], in.Operands[j] = in.Operands[j], in.Operands[i] })
		}
	}
}
