package simt

import (
	"context"
	"errors"
	"math"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
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
// Registers as parameters, as PTX had it before the stack.
.func (.reg .b32 %out) plus(.reg .b32 %x, .reg .b32 %y) {
	add.u32 %out, %x, %y;
	ret;
}
// Some threads end in here.
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

func TestStackOverflow(t *testing.T) {
	eachWay(t, callSource, func(t *testing.T, m *module) {
		if f := mustFault(t, m.launch(t, "overflow", 1, 32, uint64(0))); f.Result != cu.ErrorHardwareStackError {
			t.Errorf("got %+v", *f)
		}
	})
}

const spaceSource = `.version 8.0
.target sm_80
.address_size 64

// A generic pointer goes around: to shared, local and the arguments.
.visible .entry windows(.param .u64 out, .param .align 4 .b8 s[16]) {
	.local .align 4 .b8 l[16];
	.shared .align 4 .b8 sh[256];
	.reg .b32 %r<9>;
	.reg .b64 %rd<20>;
	.reg .pred %p<9>;
	ld.param.u64 %rd1, [out];
	mov.u32 %r1, %tid.x;
	shl.b32 %r2, %r1, 2;
	cvt.u64.u32 %rd2, %r2;
	mov.u64 %rd3, sh;
	cvta.shared.u64 %rd4, %rd3;
	add.u64 %rd4, %rd4, %rd2;
	st.u32 [%rd4], %r1;
	ld.shared.u32 %r3, [sh+4];
	mov.u64 %rd5, l;
	cvta.local.u64 %rd6, %rd5;
	st.u32 [%rd6+4], %r1;
	ld.local.u32 %r4, [l+4];
	mov.b64 %rd7, s;
	cvta.param.u64 %rd8, %rd7;
	and.b32 %r5, %r1, 3;
	mul.wide.u32 %rd9, %r5, 4;
	add.u64 %rd8, %rd8, %rd9;
	ld.u32 %r6, [%rd8];
	isspacep.shared %p1, %rd4;
	isspacep.local %p2, %rd6;
	isspacep.global %p3, %rd1;
	isspacep.global %p4, %rd4;
	and.pred %p1, %p1, %p2;
	and.pred %p1, %p1, %p3;
	not.pred %p4, %p4;
	and.pred %p1, %p1, %p4;
	selp.u32 %r7, 1, 0, %p1;
	mul.wide.u32 %rd10, %r1, 16;
	add.u64 %rd11, %rd1, %rd10;
	bar.sync 0;
	ld.u32 %r3, [%rd4];
	st.global.v4.u32 [%rd11], {%r3, %r4, %r6, %r7};
	ret;
}

// Sub-words extend into wider registers.
.visible .entry narrow(.param .u64 p, .param .u64 out) {
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	.reg .b16 %h<9>;
	ld.param.u64 %rd1, [p];
	ld.param.u64 %rd2, [out];
	ld.global.s8 %r1, [%rd1];
	ld.global.u8 %r2, [%rd1];
	ld.global.s16 %rd3, [%rd1+2];
	ld.global.s32 %rd4, [%rd1+4];
	ld.global.v4.u8 {%h1, %h2, %h3, %h4}, [%rd1];
	st.global.u32 [%rd2], %r1;
	st.global.u32 [%rd2+4], %r2;
	st.global.u64 [%rd2+8], %rd3;
	st.global.u64 [%rd2+16], %rd4;
	st.global.v4.u8 [%rd2+24], {%h4, %h3, %h2, %h1};
	st.global.v2.b16 [%rd2+28], {%h4, %h1};
	ret;
}

// A copy that does not wait, of which the last two threads' is cut short.
.visible .entry async(.param .u64 in, .param .u64 out) {
	.shared .align 16 .b8 sh[512];
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	.reg .pred %p<3>;
	ld.param.u64 %rd1, [in];
	ld.param.u64 %rd2, [out];
	mov.u32 %r1, %tid.x;
	shl.b32 %r2, %r1, 4;
	mov.u32 %r3, sh;
	add.u32 %r4, %r3, %r2;
	cvt.u64.u32 %rd3, %r2;
	add.u64 %rd4, %rd1, %rd3;
	setp.lt.u32 %p1, %r1, 30;
	selp.u32 %r5, 16, 12, %p1;
	setp.eq.u32 %p2, %r1, 31;
	selp.u32 %r5, 0, %r5, %p2;
	cp.async.cg.shared.global [%r4], [%rd4], 16, %r5;
	cp.async.commit_group;
	cp.async.wait_group 0;
	bar.sync 0;
	ld.shared.v4.u32 {%r5, %r6, %r7, %r8}, [%r4];
	add.u64 %rd5, %rd2, %rd3;
	st.global.v4.u32 [%rd5], {%r5, %r6, %r7, %r8};
	ret;
}
`

func TestWindows(t *testing.T) {
	eachWay(t, spaceSource, func(t *testing.T, m *module) {
		out := put(m.mem, make([]int32, 4*64))
		args := []int32{11, 22, 33, 44}
		mustRun(t, m.launch(t, "windows", 1, 64, out, bytesOf(args)))
		for i, v := range slices.Collect(slices.Chunk(valuesOf[int32](out.Data), 4)) {
			if want := []int32{int32(i), int32(i), args[i&3], 1}; !slices.Equal(v, want) {
				t.Fatalf("thread %d: got %v, want %v", i, v, want)
			}
		}
	})
}

func TestNarrowAccess(t *testing.T) {
	eachWay(t, spaceSource, func(t *testing.T, m *module) {
		in := m.mem.alloc([]byte{0x80, 2, 0x34, 0xf2, 0, 0, 0, 0xff})
		out := m.mem.alloc(make([]byte, 32))
		mustRun(t, m.launch(t, "narrow", 1, 1, in, out))
		got := valuesOf[uint32](out.Data)
		want := []uint32{0xffffff80, 0x80, 0xfffff234, 0xffffffff, 0xff000000, 0xffffffff, 0x800234f2, 0x008000f2}
		check(t, "words", got, want)
	})
}

func TestAsyncCopy(t *testing.T) {
	eachWay(t, spaceSource, func(t *testing.T, m *module) {
		v := make([]uint32, 128)
		for i := range v {
			v[i] = rng.Uint32() | 1
		}
		in := put(m.mem, v[:124]) // thread 31 must not read
		out := put(m.mem, make([]uint32, 128))
		mustRun(t, m.launch(t, "async", 1, 32, in, out))
		want := slices.Clone(v)
		want[123] = 0
		clear(want[124:])
		check(t, "copied", valuesOf[uint32](out.Data), want)
	})
}

func TestWarpInstructions(t *testing.T) {
	const head = `.version 8.0
.target sm_80
.address_size 64
.visible .entry op(.param .u64 in, .param .u64 out) {
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	.reg .pred %p<5>;
	ld.param.u64 %rd1, [in];
	ld.param.u64 %rd2, [out];
	mov.u32 %r1, %laneid;
	mul.wide.u32 %rd3, %r1, 4;
	add.u64 %rd4, %rd1, %rd3;
	add.u64 %rd5, %rd2, %rd3;
	ld.global.u32 %r2, [%rd4];
	and.b32 %r3, %r1, 1;
	setp.eq.u32 %p1, %r3, 0;
	selp.b32 %r4, 0x55555555, 0xaaaaaaaa, %p1;
	setp.ne.u32 %p2, %r2, 0;
`
	const tail = `
	st.global.u32 [%rd5], %r5;
	ret;
}
`
	type lane struct {
		i   int
		in  []uint32
		own uint32 // the mask of the lanes of its parity
	}
	each := func(l lane, f func(j int)) {
		for m := l.own; m != 0; m &= m - 1 {
			f(bits.TrailingZeros32(m))
		}
	}
	for text, want := range map[string]func(l lane) uint32{
		"redux.sync.add.s32 %r5, %r2, %r4;": func(l lane) (v uint32) {
			each(l, func(j int) { v += l.in[j] })
			return v
		},
		"redux.sync.max.u32 %r5, %r2, 0xffffffff;": func(l lane) uint32 { return slices.Max(l.in) },
		"redux.sync.min.s32 %r5, %r2, %r4;": func(l lane) uint32 {
			v := int32(math.MaxInt32)
			each(l, func(j int) { v = min(v, int32(l.in[j])) })
			return uint32(v)
		},
		"match.any.sync.b32 %r5, %r2, %r4;": func(l lane) (v uint32) {
			each(l, func(j int) { v |= bit(l.in[j] == l.in[l.i]) << j })
			return v
		},
		"match.all.sync.b32 %r5|%p3, %r3, %r4;\n\t@!%p3 mov.u32 %r5, 1;": func(l lane) uint32 { return l.own },
		"vote.sync.ballot.b32 %r5, %p2, %r4;": func(l lane) (v uint32) {
			each(l, func(j int) { v |= bit(l.in[j] != 0) << j })
			return v
		},
		"vote.sync.any.pred %p3, %p2, %r4;\n\tselp.u32 %r5, 1, 0, %p3;": func(l lane) (v uint32) {
			each(l, func(j int) { v |= bit(l.in[j] != 0) })
			return v
		},
		"vote.all.pred %p3, %p2;\n\tselp.u32 %r5, 1, 0, %p3;":           func(l lane) uint32 { return bit(slices.Min(l.in) != 0) },
		"vote.sync.uni.pred %p3, %p1, %r4;\n\tselp.u32 %r5, 1, 0, %p3;": func(lane) uint32 { return 1 },
		"elect.sync %r5|%p3, %r4;\n\t@%p3 add.u32 %r5, %r5, 100;": func(l lane) uint32 {
			v := uint32(l.i & 1)
			if l.i < 2 {
				v += 100
			}
			return v
		},
		"activemask.b32 %r5;\n\t@%p1 activemask.b32 %r5;": func(l lane) uint32 {
			if l.i&1 == 0 {
				return 0x55555555
			}
			return 0xffffffff
		},
		"shfl.sync.up.b32 %r5|%p3, %r2, 3, 0x1800, 0xffffffff;\n\t@!%p3 mov.u32 %r5, 7;": func(l lane) uint32 {
			if l.i&7 < 3 {
				return 7
			}
			return l.in[l.i-3]
		},
		"shfl.sync.down.b32 %r5, %r2, 5, 0x181f, 0xffffffff;": func(l lane) uint32 {
			if l.i&7 > 2 {
				return l.in[l.i]
			}
			return l.in[l.i+5]
		},
		"shfl.idx.b32 %r5, %r2, 2, 0x1c1f;": func(l lane) uint32 { return l.in[l.i&^3|2] },
		"mov.u32 %r5, %lanemask_gt;":        func(l lane) uint32 { return ^(2<<l.i - 1) },
	} {
		t.Run(text, func(t *testing.T) {
			eachWay(t, head+"\t"+text+tail, func(t *testing.T, m *module) {
				for range 20 {
					in := make([]uint32, 32)
					for i := range in {
						in[i] = uint32(int32(rng.IntN(5)) - 1)
					}
					out := put(m.mem, make([]uint32, 32))
					mustRun(t, m.launch(t, "op", 1, 32, put(m.mem, in), out))
					for i, got := range valuesOf[uint32](out.Data) {
						if w := want(lane{i, in, 0x55555555 << (i & 1)}); got != w {
							t.Fatalf("lane %d of %v: got %#x, want %#x", i, in, got, w)
						}
					}
				}
			})
		})
	}
}

func TestAtomicTypes(t *testing.T) {
	const head = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry op(.param .u64 p) {\n" +
		"\t.reg .b16 %h<4>;\n\t.reg .b32 %r<4>;\n\t.reg .b64 %rd<4>;\n\t.reg .f64 %fd<3>;\n\tld.param.u64 %rd1, [p];\n"
	for text, c := range map[string]struct{ before, after uint64 }{
		"red.global.add.f64 [%rd1], 0d3FE0000000000000;":                            {math.Float64bits(1), math.Float64bits(17)},
		"mov.b16 %h1, 0x3c00;\n\tatom.global.add.noftz.f16 %h2, [%rd1], %h1;":       {0x77774000, 0x77775040},
		"mov.b32 %r1, 0x3c004000;\n\tatom.global.add.noftz.f16x2 %r2, [%rd1], %r1;": {0, 0x50005400},
		"atom.global.cas.b16 %h1, [%rd1+2], 5, 9;":                                  {0x0005_0005, 0x0009_0005},
		"red.global.min.s64 [%rd1], -4;":                                            {3, 0xfffffffffffffffc},
		"atom.global.exch.b64 %rd2, [%rd1], 77;":                                    {1, 77},
		"atom.global.inc.u32 %r1, [%rd1], 20;":                                      {0, 11},
		"red.global.xor.b32 [%rd1], 3;":                                             {9, 9},
	} {
		t.Run(text, func(t *testing.T) {
			eachWay(t, head+"\t"+text+"\n\tret;\n}\n", func(t *testing.T, m *module) {
				p := put(m.mem, []uint64{c.before})
				mustRun(t, m.launch(t, "op", 1, 32, p))
				if got := valuesOf[uint64](p.Data)[0]; got != c.after {
					t.Errorf("got %#x, want %#x", got, c.after)
				}
			})
		})
	}
}

// TestLinkRefusesNothing links what cannot run, and says why at the launch.
func TestUnknownCallee(t *testing.T) {
	const source = ".version 8.0\n.target sm_80\n.address_size 64\n.extern .func (.param .b64 r) malloc(.param .b64 n);\n" +
		".visible .entry k() {\n\t.reg .b64 %rd<2>;\n\t{\n\t.param .b64 n;\n\t.param .b64 r;\n\tst.param.b64 [n], 8;\n" +
		"\tcall (r), malloc, (n);\n\tld.param.b64 %rd1, [r];\n\t}\n\tret;\n}\n"
	m := load(t, newSpace(), "malloc.ptx", source)
	_, err := Run(context.Background(), m.launch(t, "k", 1, 1))
	u, ok := errors.AsType[*UnsupportedError](err)
	if !ok || u.Line != 11 || !strings.Contains(err.Error(), "malloc") {
		t.Errorf("got %v", err)
	}
}
