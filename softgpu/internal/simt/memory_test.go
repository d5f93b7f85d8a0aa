package simt

import (
	"math"
	"slices"
	"testing"
)

const spaceSource = `.version 8.0
.target sm_80
.address_size 64

// Generic pointers to shared memory, local memory and the arguments.
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

// Values smaller than their register are extended.
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

// An asynchronous copy, which is shorter in the last two threads.
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
