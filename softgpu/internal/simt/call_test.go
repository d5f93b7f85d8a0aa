package simt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/ptx"
)

const callSource = `.version 8.0
.target sm_80
.address_size 64

.global .align 1 .b8 text[64] = {105,61,37,100,32,117,61,37,117,32,120,61,37,48,52,120,32,102,61,37,46,50,102,32,108,61,37,108,108,100,32,115,61,37,115,32,99,61,37,99,37,37,10,0};
.global .align 1 .b8 word[4] = {104,105,33,0};
.global .align 1 .b8 what[6] = {120,32,62,32,48,0};

.extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);
.extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s);

.func (.param .b32 r) twice(.param .b32 x) {
	.reg .b32 %r<3>;
	ld.param.u32 %r1, [x];
	add.u32 %r2, %r1, %r1;
	st.param.b32 [r], %r2;
	ret;
}
.func (.param .b32 r) square(.param .b32 x) {
	.reg .b32 %r<3>;
	ld.param.u32 %r1, [x];
	mul.lo.u32 %r2, %r1, %r1;
	st.param.b32 [r], %r2;
	ret;
}
// Parameters in registers, as PTX had them before the stack.
.func (.reg .b32 %out) plus(.reg .b32 %x, .reg .b32 %y) {
	add.u32 %out, %x, %y;
	ret;
}
// Some threads exit in this function.
.func ending(.param .b32 x) {
	.reg .b32 %r<3>;
	.reg .pred %p;
	ld.param.u32 %r1, [x];
	and.b32 %r2, %r1, 3;
	setp.eq.u32 %p, %r2, 0;
	@%p exit;
	ret;
}

.visible .entry print(.param .u32 n) {
	.local .align 8 .b8 depot[48];
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	.reg .f64 %fd<3>;
	.reg .pred %p;
	ld.param.u32 %r1, [n];
	mov.u32 %r2, %tid.x;
	setp.ge.u32 %p, %r2, %r1;
	@%p bra done;
	mov.u64 %rd1, depot;
	cvta.local.u64 %rd2, %rd1;
	neg.s32 %r3, %r2;
	st.local.v2.u32 [%rd1], {%r3, %r2};
	st.local.u32 [%rd1+8], 255;
	cvt.rn.f64.u32 %fd1, %r2;
	mul.f64 %fd1, %fd1, 0d3FF8000000000000;
	st.local.f64 [%rd1+16], %fd1;
	mov.u64 %rd3, -5000000000;
	st.local.u64 [%rd1+24], %rd3;
	mov.u64 %rd4, word;
	cvta.global.u64 %rd5, %rd4;
	st.local.u64 [%rd1+32], %rd5;
	st.local.u32 [%rd1+40], 65;
	mov.u64 %rd6, text;
	cvta.global.u64 %rd7, %rd6;
	{
	.param .b64 f;
	.param .b64 a;
	.param .b32 r;
	st.param.b64 [f], %rd7;
	st.param.b64 [a], %rd2;
	call (r), vprintf, (f, a);
	ld.param.b32 %r5, [r];
	}
done:
	ret;
}

.visible .entry assertion(.param .u32 n) {
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	.reg .pred %p;
	ld.param.u32 %r1, [n];
	mov.u32 %r2, %tid.x;
	setp.ne.u32 %p, %r2, %r1;
	@%p bra done;
	mov.u64 %rd1, what;
	mov.u64 %rd2, word;
	{
	.param .b64 m;
	.param .b64 f;
	.param .b32 l;
	.param .b64 w;
	.param .b64 s;
	st.param.b64 [m], %rd1;
	st.param.b64 [f], %rd2;
	st.param.b32 [l], 17;
	st.param.b64 [w], %rd2;
	st.param.b64 [s], 1;
	call __assertfail, (m, f, l, w, s);
	}
done:
	ret;
}

.visible .entry by_address(.param .u64 out) {
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	.reg .pred %p;
	ld.param.u64 %rd1, [out];
	mov.u32 %r1, %tid.x;
	and.b32 %r2, %r1, 1;
	setp.eq.u32 %p, %r2, 1;
	mov.u64 %rd2, twice;
	mov.u64 %rd3, square;
	selp.u64 %rd4, %rd2, %rd3, %p;
	{
	.param .b32 x;
	.param .b32 r;
	st.param.b32 [x], %r1;
	proto: .callprototype (.param .b32 _) _ (.param .b32 _);
	call (r), %rd4, (x), proto;
	ld.param.b32 %r3, [r];
	}
	mul.wide.u32 %rd5, %r1, 4;
	add.u64 %rd6, %rd1, %rd5;
	st.global.u32 [%rd6], %r3;
	ret;
}

.visible .entry registers(.param .u64 out) {
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	ld.param.u64 %rd1, [out];
	mov.u32 %r1, %tid.x;
	call (%r2), plus, (%r1, 1000);
	mul.wide.u32 %rd5, %r1, 4;
	add.u64 %rd6, %rd1, %rd5;
	st.global.u32 [%rd6], %r2;
	ret;
}

.visible .entry leave(.param .u64 out) {
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	ld.param.u64 %rd1, [out];
	mov.u32 %r1, %tid.x;
	{
	.param .b32 x;
	st.param.b32 [x], %r1;
	call ending, (x);
	}
	bar.sync 0;
	mul.wide.u32 %rd5, %r1, 4;
	add.u64 %rd6, %rd1, %rd5;
	st.global.u32 [%rd6], 1;
	ret;
}

.visible .entry indexed(.param .u64 out) {
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	ld.param.u64 %rd1, [out];
	mov.u32 %r1, %tid.x;
	rem.u32 %r2, %r1, 3;
	mov.u32 %r3, 0;
	targets: .branchtargets zero, one, two;
	brx.idx %r2, targets;
two:
	add.u32 %r3, %r3, 200;
	bra.uni end;
one:
	add.u32 %r3, %r3, 1;
zero:
	add.u32 %r3, %r3, 10;
end:
	mul.wide.u32 %rd5, %r1, 4;
	add.u64 %rd6, %rd1, %rd5;
	st.global.u32 [%rd6], %r3;
	ret;
}

.func forever(.param .b32 x) {
	.reg .b32 %r<3>;
	ld.param.u32 %r1, [x];
	{
	.param .b32 y;
	st.param.b32 [y], %r1;
	call forever, (y);
	}
	ret;
}
.visible .entry overflow(.param .u64 out) {
	{
	.param .b32 y;
	st.param.b32 [y], 1;
	call forever, (y);
	}
	ret;
}
`

func TestPrintf(t *testing.T) {
	eachWay(t, callSource, func(t *testing.T, m *module) {
		var got []string
		l := m.launch(t, "print", 1, 64, 3)
		l.Printf = func(s string) { got = append(got, s) }
		mustRun(t, l)
		want := []string{
			"i=0 u=0 x=00ff f=0.00 l=-5000000000 s=hi! c=A%\n",
			"i=-1 u=1 x=00ff f=1.50 l=-5000000000 s=hi! c=A%\n",
			"i=-2 u=2 x=00ff f=3.00 l=-5000000000 s=hi! c=A%\n",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestBug: a panic of a worker is the error of its launch, with one worker and with several.
func TestBug(t *testing.T) {
	eachWay(t, callSource, func(t *testing.T, m *module) {
		for _, blocks := range []int{1, 8} {
			l := m.launch(t, "print", blocks, 64, 3)
			l.Printf = func(string) { panic("planted by " + t.Name()) }
			if _, err := Run(t.Context(), l); err == nil || !strings.Contains(err.Error(), "BUG: planted by "+t.Name()) {
				t.Errorf("%d blocks: got %v", blocks, err)
			}
		}
	})
}

func TestAssert(t *testing.T) {
	eachWay(t, callSource, func(t *testing.T, m *module) {
		var text string
		l := m.launch(t, "assertion", 1, 64, 37)
		l.Printf = func(s string) { text += s }
		f := mustFault(t, l)
		if f.Result != cu.ErrorAssert || f.Thread.X != 37 || !strings.Contains(f.Op, "x > 0") || !strings.Contains(f.Op, ":17") {
			t.Errorf("got %+v", *f)
		}
		if !strings.Contains(text, "thread: [37,0,0] Assertion `x > 0` failed.") {
			t.Errorf("printed %q", text)
		}
	})
}

func TestCalls(t *testing.T) {
	eachWay(t, callSource, func(t *testing.T, m *module) {
		for kernel, want := range map[string]func(i int32) int32{
			"by_address": func(i int32) int32 {
				if i&1 == 1 {
					return 2 * i
				}
				return i * i
			},
			"registers": func(i int32) int32 { return i + 1000 },
			"leave":     func(i int32) int32 { return int32(bit(i&3 != 0)) },
			"indexed":   func(i int32) int32 { return []int32{10, 11, 200}[i%3] },
		} {
			out := put(m.mem, make([]int32, 80))
			mustRun(t, m.launch(t, kernel, 1, 80, out))
			for i, got := range valuesOf[int32](out.Data) {
				if got != want(int32(i)) {
					t.Fatalf("%s: element %d: got %d, want %d", kernel, i, got, want(int32(i)))
				}
			}
		}
	})
}

// TestLiteralArguments checks that a literal has the type of its parameter, which is a register or
// a variable, of a function that is called by name, by a prototype or from a list.
func TestLiteralArguments(t *testing.T) {
	for _, c := range []struct {
		typ, literal string
		want         uint64
	}{
		{"f32", "0f3F800000", 0x3f800000},
		{"f32", "0d3FF8000000000000", 0x3fc00000},
		{"f32", "1.5", 0x3fc00000},
		{"f64", "0f3F800000", 0x3ff0000000000000},
		{"f64", "0d3FF8000000000000", 0x3ff8000000000000},
		{"f64", "-0.25", 0xbfd0000000000000},
		{"f16", "0f3F800000", 0x3c00},
		{"b32", "0f3F800000", 0x3f800000},
		{"b32", "0d3FF8000000000000", 0x3fc00000},
		{"b64", "0d3FF8000000000000", 0x3ff8000000000000},
		{"s32", "-5", 0xfffffffb},
		{"s64", "-5", 0xfffffffffffffffb},
		{"u64", "0xfedcba9876543210", 0xfedcba9876543210},
		{"u16", "65535", 0xffff},
		{"f32", "1", 0}, // refused
		{"u32", "0f3F800000", 0},
		{"bf16", "0f3F800000", 0},
	} {
		for _, space := range []string{"reg", "param"} {
			for _, call := range []string{"call f,(out,%s);", "mov.u64 p,f; P: .callprototype _ (.param .b64 _,.param .%s _); call p,(out,%s),P;", "mov.u64 p,f; T: .calltargets f; call p,(out,%s),T;"} {
				checkLiteral(t, c.typ, space, call, c.literal, c.want)
			}
		}
	}
}

// checkLiteral calls a function with a literal, and compares the bits that it stores. want is 0 if
// the call is refused.
func checkLiteral(t *testing.T, typ, space, call, literal string, want uint64) {
	t.Helper()
	bits := map[string]string{"f64": "b64", "s64": "b64", "u64": "b64", "b64": "b64", "f16": "b16", "bf16": "b16", "u16": "b16"}[typ]
	if bits == "" {
		bits = "b32"
	}
	if strings.Count(call, "%s") == 2 {
		call = strings.Replace(call, "%s", typ, 1)
	}
	read := "mov.b64 o,a; mov." + bits + " v,x;"
	if space == "param" {
		read = "ld.param.u64 o,[a]; ld.param." + bits + " v,[x];"
	}
	text := fmt.Sprintf(".version 8.0\n.target sm_90\n.address_size 64\n.func f(.%s .b64 a,.%s .%s x) {.reg .b64 o; .reg .%s v; %s st.global.%s [o],v; ret;}\n",
		space, space, typ, bits, read, bits) +
		".visible .entry k(.param .u64 q) {.reg .b64 out,p; ld.param.u64 out,[q];\n" + fmt.Sprintf(call, literal) + "\nret;}\n"
	mem := newSpace()
	out := put(mem, make([]uint64, 1))
	_, err := Run(t.Context(), load(t, mem, "", text).launch(t, "k", 1, 1, out))
	if got := valuesOf[uint64](out.Data)[0]; got != want || (err != nil) != (want == 0) {
		t.Errorf("%s as .%s .%s by %s: got %#x, %v, want %#x", literal, space, typ, call, got, err, want)
	}
}

func TestStackOverflow(t *testing.T) {
	eachWay(t, callSource, func(t *testing.T, m *module) {
		if f := mustFault(t, m.launch(t, "overflow", 1, 32, uint64(0))); f.Result != cu.ErrorHardwareStackError {
			t.Errorf("got %+v", *f)
		}
	})
}

// TestUnknownCallee calls a function that does not exist. Link succeeds, and the
// launch reports the call.
func TestUnknownCallee(t *testing.T) {
	const source = ".version 8.0\n.target sm_80\n.address_size 64\n.extern .func (.param .b64 r) calloc(.param .b64 n);\n" +
		".visible .entry k() {\n\t.reg .b64 %rd<2>;\n\t{\n\t.param .b64 n;\n\t.param .b64 r;\n\tst.param.b64 [n], 8;\n" +
		"\tcall (r), calloc, (n);\n\tld.param.b64 %rd1, [r];\n\t}\n\tret;\n}\n"
	m := load(t, newSpace(), "calloc.ptx", source)
	_, err := Run(context.Background(), m.launch(t, "k", 1, 1))
	u, ok := errors.AsType[*UnsupportedError](err)
	if !ok || u.Line != 11 || !strings.Contains(err.Error(), "calloc") {
		t.Errorf("got %v", err)
	}
}

// TestUnusedRegisters: registers of a range that are never used cost nothing.
func TestUnusedRegisters(t *testing.T) {
	text := ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 out) {\n" +
		"\t.reg .pred %p<1000000000>;\n\t.reg .b32 %r<2000000000>;\n\t.reg .b64 %r1_<9>;\n\t.reg .v4 .f32 %v<1000000000>;\n" +
		"\tld.param.u64 %r1_5, [out];\n\tmov.u32 %r1999999999, 7;\n\tsetp.eq.u32 %p999999999, %r1999999999, 7;\n" +
		"\t@%p999999999 add.u32 %r5, %r1999999999, 1;\n\tmov.f32 %v77.z, 0f3F800000;\n\tst.global.u32 [%r1_5], %r5;\n\tst.global.f32 [%r1_5+4], %v77.z;\n\tret;\n}\n"
	m, err := ptx.Parse("", text)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Decode(m)
	if err != nil {
		t.Fatal(err)
	}
	if f := p.funcs["k"]; f.endReg-f.firstReg != 7 || f.numPreds != 2 {
		t.Errorf("%d registers and %d predicates have a place in the frame, want 7 and 2", f.endReg-f.firstReg, f.numPreds)
	}
	bound := p.Bind(nil)
	out, mem := make([]byte, 8), newSpace()
	_, err = Run(t.Context(), &Launch{
		Kernel: bound.Kernel("k"), Grid: cu.Dim3{X: 1, Y: 1, Z: 1}, Block: cu.Dim3{X: 1, Y: 1, Z: 1}, Workers: 1, Counters: 1,
		Params: binary.LittleEndian.AppendUint64(nil, mem.alloc(out).Base), Memory: mem,
	})
	if want := []byte{8, 0, 0, 0, 0, 0, 0x80, 0x3f}; err != nil || !bytes.Equal(out, want) {
		t.Errorf("got %v, %v, want %v", out, err, want)
	}
}

// TestTooManyRegisters: a kernel that uses more registers than there is memory for cannot
// run; others can.
func TestTooManyRegisters(t *testing.T) {
	sample.SkipRace(t)
	const header = ".version 8.0\n.target sm_80\n.address_size 64\n"
	var many strings.Builder
	for i := range maxRegisters/4 + 1 { // a vector counts as four
		fmt.Fprintf(&many, "mov.f32 %%v%d.x, 0f00000000;\n", i)
	}
	m, err := ptx.Parse("", header+".func f() { .reg .v4 .f32 %v<1000000>; "+many.String()+"ret; }\n"+
		".visible .entry calls() { call f; ret; }\n.visible .entry good() { ret; }\n")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Link(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]bool{"calls": true, "good": false} {
		if err := p.Kernel(name).Unsupported; (err != nil) != bad || bad && !strings.Contains(err.Error(), "registers") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
