package simt

import (
	"math"
	"math/bits"
	"slices"
	"testing"
)

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
		own uint32 // mask of the lanes with the same parity
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
