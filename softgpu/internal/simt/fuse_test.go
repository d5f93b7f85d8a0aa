package simt

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/ptx"
	"github.com/ferrygpu/ferry/softgpu/internal/softfloat"
)

// pairKernel returns a kernel with the instructions of body between loads of x, y, z, w and a
// store of the registers out. f32 is the type of instructions that end in T.
func pairKernel(body string, out ...string) string {
	var s strings.Builder
	s.WriteString(".version 8.0\n.target sm_90\n.address_size 64\n.func (.reg .f32 r) other(.reg .f32 a) { mov.f32 r,a; ret; }\n")
	s.WriteString(".visible .entry k(.param .u64 pin, .param .u64 pout) {\n .reg .u64 in,out; .reg .b32 i; .reg .pred m; .reg .f32 x,y,z,w,p,q,r,s,t; .reg .v2 .f32 v;\n")
	s.WriteString(" ld.param.u64 in,[pin]; ld.param.u64 out,[pout]; mov.u32 i,%tid.x; setp.gt.u32 m,i,15;\n .reg .u64 at; mul.wide.u32 at,i,4; add.u64 in,in,at; add.u64 out,out,at;\n")
	for i, r := range []string{"x", "y", "z", "w"} {
		fmt.Fprintf(&s, " ld.global.f32 %s,[in+%d];", r, 128*i)
	}
	s.WriteString("\n " + strings.ReplaceAll(body, "T ", "f32 ") + "\n")
	for i, r := range out {
		fmt.Fprintf(&s, " st.global.f32 [out+%d],%s;", 128*i, r)
	}
	s.WriteString(" ret;\n}\n")
	return s.String()
}

// joinedIn returns which product each addition of a kernel is joined with: "q=p" if q is the
// addition's and p the product's register, "q" if it is joined with none.
func joinedIn(t *testing.T, text string) string {
	t.Helper()
	return joinedInFunction(t, text, "k")
}

func joinedInFunction(t *testing.T, text, name string) string {
	t.Helper()
	m, err := ptx.Parse("", text)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	p, err := Decode(m)
	if err != nil {
		t.Fatal(err)
	}
	f := p.funcs[name]
	if len(f.bad) > 0 {
		t.Fatalf("%s: %s", f.bad[0].op, f.bad[0].what)
	}
	j := newFlow(f).findJoins()
	var all []string
	for i := range f.src.Body {
		in := &f.src.Body[i]
		if !slices.Contains(in.Mods, "f32") || in.Op != "add" && in.Op != "sub" {
			continue
		}
		text := in.Operands[0].(ptx.Reg).Name
		if s, ok := j.sums[i]; ok {
			text += "=" + f.src.Body[s.at].Operands[0].(ptx.Reg).Name
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// TestJoins checks the rules one by one.
func TestJoins(t *testing.T) {
	for _, c := range []struct{ body, out, want string }{
		{"mul.T p,x,y; add.T q,p,z;", "q", "q=p"},
		{"mul.T p,x,y; sub.T q,z,p;", "q", "q=p"},
		{"mul.rn.T p,x,y; add.T q,p,z;", "q", "q"},
		{"mul.T p,x,y; add.rn.T q,p,z;", "q", "q"},
		{"mul.rz.T p,x,y; add.T q,p,z;", "q", "q"},
		{"mul.sat.T p,x,y; add.T q,p,z;", "q", "q"},
		{"mul.T p,x,y; add.sat.T q,p,z;", "q", "q=p"},
		{"mul.ftz.T p,x,y; add.T q,p,z;", "q", "q"},
		{"mul.T p,x,y; add.ftz.T q,p,z;", "q", "q"},
		{"mul.ftz.T p,x,y; add.ftz.T q,p,z;", "q", "q=p"},
		{"div.full.T p,x,y; add.T q,p,z;", "q", "q=p"},
		{"div.approx.T p,x,y; add.T q,p,z;", "q", "q=p"},
		{"div.rn.T p,x,y; add.T q,p,z;", "q", "q"},
		{"fma.rn.T p,x,y,w; add.T q,p,z;", "q", "q"},
		// copies
		{"mul.T p,x,y; mov.T r,p; mov.b32 s,r; add.T q,s,z;", "q", "q=p"},
		{"mul.T p,x,y; neg.T r,p; sub.T q,z,r;", "q", "q=p"},
		{"mul.ftz.T p,x,y; neg.ftz.T r,p; add.ftz.T q,r,z;", "q", "q=p"},
		{"mul.ftz.T p,x,y; neg.ftz.T r,p; sub.ftz.T q,z,r;", "q", "q"},
		{"mul.T p,x,y; abs.T r,p; add.T q,r,z;", "q", "q"},
		{"mul.T p,x,y; max.T r,p,p; add.T q,r,z;", "q", "q=p"},
		{"mul.T p,x,y; max.T r,p,w; add.T q,r,z;", "q", "q"},
		{"mul.T p,x,y; selp.T r,p,w,m; add.T q,r,z;", "q", "q"},
		{"mul.T p,x,y; mov.T r,w; @m mov.T r,p; add.T q,r,z;", "q", "q"},
		// other uses
		{"mul.T p,x,y; add.T q,p,z;", "q p", "q"},
		{"mul.T p,x,y; add.T q,p,z; sub.T r,w,p;", "q r", "q=p r=p"},
		{"mul.T p,x,y; add.T q,p,z; max.T r,p,w;", "q r", "q"},
		{"mul.T p,x,y; add.T q,p,z; max.T r,p,w;", "q", "q=p"},                             // r is not used
		{"mul.T p,x,y; add.T q,p,z; add.T r,p,w; max.T s,r,r; mul.T s,s,p;", "q", "q=p r"}, // nor are r and s
		{"mul.T p,x,y; add.T q,p,z; max.T r,p,w; st.global.f32 [out+256],r;", "q", "q"},
		{"mul.T p,x,y; add.T q,p,p;", "q", "q"},
		{"mul.T p,x,y; add.T q,p,z; @m mov.T p,w;", "q p", "q"},
		{"mul.T p,x,y; add.T q,p,z; mov.T p,w;", "q p", "q=p"},
		{"@m mul.T p,x,y; add.T q,p,z;", "q", "q"},
		{"mov.T q,w; mul.T p,x,y; @m add.T q,p,z;", "q", "q=p"},
		// two products
		{"mul.T p,x,y; mul.T r,z,w; add.T q,p,r;", "q", "q=p"},
		{"mul.T p,x,y; mul.T r,z,w; add.T q,r,p;", "q", "q=r"},
		{"mul.T p,x,y; mul.T r,z,w; add.T q,p,r;", "q p", "q=r"},
		{"mul.T p,x,y; mul.T r,z,w; add.T q,p,r; add.T s,p,x;", "q s", "q=r s"},
		{"mul.T p,x,y; mul.T r,z,w; add.T q,p,r; sub.T s,r,p;", "q s", "q=p s=p"},
		{"mul.T p,x,y; mul.T r,z,w; sub.T q,z,r; sub.T s,q,p; add.T t,p,r; add.T r,r,s;", "q s t r", "q=r s=p t=p r"},
		{"mul.T p,x,x; mul.T r,w,z; sub.T q,w,p; add.T s,p,y; add.T t,r,p;", "q s t", "q s t=r"},
		// constants
		{"mov.T r,0f40490FDB; mul.T p,r,0f3FB00003; add.T q,p,z;", "q", "q"},
		{"mul.T p,x,0f3FB00003; add.T q,p,z;", "q", "q=p"},
		{"mov.T r,0f40490FDB; @m mov.T r,x; mul.T p,r,0f3FB00003; add.T q,p,z;", "q", "q=p"},
		// what separates
		{"mul.T p,x,y; membar.gl; add.T q,p,z;", "q", "q"},
		{"mul.T p,x,y; fence.acq_rel.gpu; add.T q,p,z;", "q", "q"},
		{"mul.T p,x,y; call (r),other,(z); add.T q,p,r;", "q", "q"},
		{"mul.T p,x,y; bar.sync 0; add.T q,p,z;", "q", "q=p"},
		{"mul.T p,x,y; div.rn.T r,x,y; add.T q,p,z;", "q r", "q"},
		{"mul.T p,x,y; div.rn.T r,x,y; add.T q,p,z;", "q", "q=p"}, // the division is not needed
		{"mul.T p,x,y; div.full.T r,x,y; add.T q,p,z;", "q r", "q=p"},
		{"mul.T p,x,y; sqrt.rn.T r,x; add.T q,p,z;", "q r", "q"},
		{"mul.T p,x,y; rcp.approx.T r,x; add.T q,p,z;", "q r", "q=p"},
		{"mul.T p,x,y; div.s32 i,i,i; st.global.u32 [out+512],i; add.T q,p,z;", "q", "q"},
		{"mul.T p,x,y; div.u32 i,i,i; st.global.u32 [out+512],i; add.T q,p,z;", "q", "q=p"},
		{"mul.T p,x,y; @m exit; add.T q,p,z;", "q", "q"},
		// blocks
		{"mul.T p,x,y; @m bra L; mov.T z,w; L: add.T q,p,z;", "q", "q"},
		{"mul.T p,x,y; mov.T q,z; @m bra L; add.T q,p,z; L:", "q", "q"},
		{"mov.T p,w; L: max.T s,p,z; mul.T p,x,y; add.T q,p,z; setp.lt.f32 m,q,s; @m bra L;", "q s", "q"},
		{"mul.T p,x,y; L: add.T q,p,z;", "q", "q=p"},
		{"mul.T p,x,y; @m bra L; L: add.T q,p,z;", "q", "q=p"},
		{"bra B; A: add.T q,p,z; bra C; B: mul.T p,x,y; mul.T r,z,w; add.T s,r,x; bra A; C:", "q s", "q s=r"},
		{"mov.T p,x; L: add.T q,p,z; mul.T p,q,y; setp.lt.f32 m,q,w; @m bra L;", "q", "q"},
		{"L: mul.T p,x,y; add.T x,p,z; setp.lt.f32 m,x,w; @m bra L;", "x", "x=p"},
		{"L: mul.T p,x,y; add.T x,p,z; setp.lt.f32 m,x,w; @m bra L;", "x p", "x"},
		{"T: .branchtargets A,B; mul.T p,x,y; add.T q,p,z; brx.idx i,T; A: mov.T q,p; B:", "q", "q"},
		{"T: .branchtargets A,B; mul.T p,x,y; add.T q,p,z; brx.idx i,T; B: mov.T q,z; A:", "q", "q=p"},
		{"T: .branchtargets A,B; mul.T p,x,y; add.T q,p,z; @m brx.idx i,T; mov.T q,p; A: B:", "q", "q"},
		{"T: .branchtargets A,B; mul.T p,x,y; brx.idx i,T; mov.T p,w; A: add.T q,p,z; B:", "q", "q"},
		// parts of a register
		{"mul.T v.x,x,y; add.T q,v.x,z;", "q", "q"},
		{"mul.T p,x,y; mov.T v.x,p; add.T q,p,z; mov.v2.f32 {r,s},v;", "q r", "q"},
	} {
		if got := joinedIn(t, pairKernel(c.body, strings.Fields(c.out)...)); got != c.want {
			t.Errorf("%s -> %s: got %s, want %s", c.body, c.out, got, c.want)
		}
	}
}

// TestJoinedResults runs joined pairs whose factors or results are overwritten, negated,
// guarded or rounded as well.
func TestJoinedResults(t *testing.T) {
	fma := exactFMA
	full := func(a, b float32) (x, y float32) {
		p, q := softfloat.DivFactors32("full", false)(f32bits(a), f32bits(b))
		return f32from(p), f32from(q)
	}
	for _, c := range []struct {
		body string
		want func(i int, x, y, z, w float32) []float32
		out  string
	}{
		{"mul.T p,x,y; add.T q,p,z;", func(_ int, x, y, z, w float32) []float32 { return []float32{fma(x, y, z)} }, "q"},
		{"mul.T p,x,y; sub.T q,p,z;", func(_ int, x, y, z, w float32) []float32 { return []float32{fma(x, y, -z)} }, "q"},
		{"mul.T p,x,y; sub.T q,z,p;", func(_ int, x, y, z, w float32) []float32 { return []float32{fma(-x, y, z)} }, "q"},
		{"mul.T p,x,y; neg.T p,p; sub.T q,p,z;", func(_ int, x, y, z, w float32) []float32 { return []float32{fma(-x, y, -z)} }, "q"},
		{"mul.T p,x,y; mov.T x,w; add.T q,p,x;", func(_ int, x, y, z, w float32) []float32 { return []float32{fma(x, y, w)} }, "q"},
		{"mul.T p,x,y; mov.T x,w; mov.T y,w; add.T q,p,z; add.T r,p,x;", func(_ int, x, y, z, w float32) []float32 { return []float32{fma(x, y, z), fma(x, y, w)} }, "q r"},
		{"mul.T x,x,y; add.T x,x,z; mul.T x,x,w; add.T x,x,y;", func(_ int, x, y, z, w float32) []float32 { return []float32{fma(fma(x, y, z), w, y)} }, "x"},
		{"mov.T q,w; mul.T p,x,y; @m add.T q,p,z;", func(i int, x, y, z, w float32) []float32 {
			if i > 15 {
				return []float32{fma(x, y, z)}
			}
			return []float32{w}
		}, "q"},
		{"mul.T r,z,w; mul.T x,x,y; sub.T q,z,x; sub.T s,q,r; add.T t,r,x; add.T x,x,s;", func(_ int, x, y, z, w float32) []float32 {
			q := fma(-x, y, z)
			s := fma(-z, w, q)
			p := float32(x * y)
			return []float32{q, s, fma(z, w, p), float32(p + s)}
		}, "q s t x"},
		{"div.full.T p,x,y; add.T q,p,z;", func(_ int, x, y, z, w float32) []float32 {
			a, b := full(x, y)
			return []float32{fma(a, b, z)}
		}, "q"},
		{"div.full.T x,x,y; mul.T r,z,w; sub.T q,z,x; sub.T s,q,r; add.T t,r,x; add.T x,x,s;", func(_ int, x, y, z, w float32) []float32 {
			a, b := full(x, y)
			q := fma(-a, b, z)
			s := fma(-z, w, q)
			p := float32(a * b)
			return []float32{q, s, fma(z, w, p), float32(p + s)}
		}, "q s t x"},
	} {
		out := strings.Fields(c.out)
		mem := newSpace()
		m := load(t, mem, "", pairKernel(c.body, out...))
		in, res := make([]float32, 4*32), put(mem, make([]float32, 4*32))
		for i := range in {
			in[i] = 0.5 + rng.Float32()
		}
		plain, err := DecodePlain(m.Program.module)
		if err != nil {
			t.Fatal(err)
		}
		l := m.launch(t, "k", 1, 32, put(mem, in), res)
		l.Kernel = plain.Bind(nil).Kernel("k")
		want := mustRun(t, l).WarpInstructions
		if stats := mustRun(t, m.launch(t, "k", 1, 32, put(mem, in), res)); stats.WarpInstructions != want {
			t.Errorf("%s: %d instructions, want %d as without optimisation", c.body, stats.WarpInstructions, want)
		}
		got := valuesOf[float32](res.Data)
		for i := range 32 {
			for k, want := range c.want(i, in[i], in[32+i], in[64+i], in[96+i]) {
				if !same32(got[32*k+i], want) {
					t.Errorf("%s: %s of thread %d is %v, want %v", c.body, out[k], i, got[32*k+i], want)
				}
			}
		}
	}
}

// TestJoinsOfResults checks that a return uses a result of its function that is a register.
func TestJoinsOfResults(t *testing.T) {
	const text = ".version 8.0\n.target sm_90\n.address_size 64\n.func (.reg .f32 r) f(.reg .f32 x, .reg .f32 y, .reg .f32 z, .reg .u64 out) { .reg .f32 p, q;\n%s\n}\n" +
		".visible .entry k(.param .u64 pout) { .reg .u64 out; .reg .f32 v,x,z; ld.param.u64 out,[pout]; mov.f32 x,0f3F800001; mov.f32 z,0fBF800000; call (v),f,(x,x,z,out); st.global.f32 [out+4],v; ret; }\n"
	x := math.Float32frombits(0x3f800001)
	joined, apart, product := exactFMA(x, x, -1), float32(x*x)-1, float32(x*x)
	for _, c := range []struct {
		body, want string
		out        []float32
	}{
		{"mul.f32 p,x,y; add.f32 r,p,z; st.global.f32 [out],r; ret;", "r=p", []float32{joined, joined}},
		{"mul.f32 p,x,y; add.f32 r,p,z; st.global.f32 [out],x;", "r=p", []float32{x, joined}},
		{"mul.f32 r,x,y; add.f32 q,r,z; st.global.f32 [out],q; ret;", "q", []float32{apart, product}},
		{"mul.f32 r,x,y; add.f32 q,r,z; st.global.f32 [out],q;", "q", []float32{apart, product}},
		{"mul.f32 r,x,y; add.f32 q,r,z; st.global.f32 [out],q; mov.f32 r,z; ret;", "q=r", []float32{joined, -1}},
	} {
		text := fmt.Sprintf(text, c.body)
		if got := joinedInFunction(t, text, "f"); got != c.want {
			t.Errorf("%s: got %s, want %s", c.body, got, c.want)
		}
		mem := newSpace()
		out := put(mem, make([]float32, 2))
		mustRun(t, load(t, mem, "", text).launch(t, "k", 1, 1, out))
		if got := valuesOf[float32](out.Data); !slices.Equal(got, c.out) {
			t.Errorf("%s: stores and returns %v, want %v", c.body, got, c.out)
		}
	}
}

// TestPlain checks that nothing is joined without optimisation.
func TestPlain(t *testing.T) {
	text := pairKernel("mul.T p,x,y; add.T q,p,z;", "q")
	for _, debug := range []bool{false, true} {
		decode := DecodePlain
		if debug {
			text, decode = strings.Replace(text, ".target sm_90", ".target sm_90, debug", 1), Decode
		}
		m, err := ptx.Parse("", text)
		if err != nil {
			t.Fatal(err)
		}
		p, err := decode(m)
		if err != nil {
			t.Fatal(err)
		}
		if j := newFlow(p.funcs["k"]).findJoins(); len(j.sums) > 0 {
			t.Errorf("with .target debug %v: %d additions are joined", debug, len(j.sums))
		}
	}
}

// TestJoinsLarge checks that a function with very many blocks and registers is decoded in a
// moment, without joins, and that products far from their additions are joined.
func TestJoinsLarge(t *testing.T) {
	sample.SkipRace(t)
	var s strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&s, ".reg .f32 a%d; mov.T a%d,x; @m bra L%d; mov.T y,z; L%d: ", i, i, i, i)
	}
	if got := joinedIn(t, pairKernel(s.String()+"mul.T p,x,y; add.T q,p,z;", "q")); got != "q" {
		t.Errorf("a large function: got %s, want q", got)
	}
	far := "mul.T p,x,y; " + strings.Repeat("mov.T s,w; ", 2*farApart) + "mov.T x,w; add.T q,p,z;"
	if got := joinedIn(t, pairKernel(far, "q")); got != "q=p" {
		t.Errorf("far apart: got %s, want q=p", got)
	}
}

// TestJoinsOfDropped checks products whose rounded value only a load uses that a compiler drops:
// they are joined as if it was not there, its address is right, and no instruction is counted more.
func TestJoinsOfDropped(t *testing.T) {
	const dropped = " .reg .u64 o,b; .reg .f32 l; cvt.u64.u32 o,i; sub.u64 o,o,0x3F800002; add.u64 b,in,o; ld.global.f32 l,[b];"
	x := math.Float32frombits(0x3f800001)
	joined := exactFMA(x, x, -1)
	for _, c := range []struct {
		body, join string
		want       float32
	}{
		{"mul.T p,x,y; add.T q,p,z; mov.b32 i,p;" + dropped, "q=p", joined},
		{"mul.T p,x,y; mov.b32 i,p;" + dropped + " add.T q,p,z;", "q=p", joined},
		{"mul.T p,x,y; mov.T r,p; mov.T s,r; add.T q,r,z; mov.b32 i,s;" + dropped, "q=p", joined},
		{"mul.T p,x,y; mov.T r,p; add.T q,r,z; mov.b32 i,r;" + dropped, "q=p", joined},
		{"mul.T p,x,y; neg.T r,p; sub.T q,z,r; xor.b32 i,r,0x80000000;" + dropped, "q=p", joined},
		{"mul.T p,x,y; add.T q,p,z; @m bra L; mov.T y,w; L: mov.b32 i,p;" + dropped, "q=p", joined},
		{"mul.T x,x,y; add.T q,x,z; mov.b32 i,x;" + dropped, "q=x", joined},
		{"mov.T y,0f3F800000; div.full.T p,x,y; add.T q,p,z; mov.b32 i,p; add.u32 i,i,1;" + dropped, "q=p", x - 1},
	} {
		text := pairKernel(c.body, "q")
		if got := joinedIn(t, text); got != c.join {
			t.Errorf("%s: got %s, want %s", c.body, got, c.join)
		}
		mem := newSpace()
		in, res := slices.Repeat([]float32{x, x, -1, -1}, 32), put(mem, make([]float32, 32))
		slices.Sort(in)
		slices.Reverse(in) // x and y are x, z and w are -1
		m := load(t, mem, "", text)
		l := m.launch(t, "k", 1, 32, put(mem, in), res)
		stats, err := Run(t.Context(), l)
		if err != nil {
			t.Errorf("%s: %v", c.body, err)
			continue
		}
		if got := valuesOf[float32](res.Data)[5]; got != c.want {
			t.Errorf("%s: q is %v, want %v", c.body, got, c.want)
		}
		plain, err := DecodePlain(m.Program.module)
		if err != nil {
			t.Fatal(err)
		}
		l.Kernel = plain.Bind(nil).Kernel("k")
		if want := mustRun(t, l).WarpInstructions; stats.WarpInstructions != want {
			t.Errorf("%s: %d instructions, want %d as without optimisation", c.body, stats.WarpInstructions, want)
		}
	}
}
