package softgpu

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// betweenPTX has kernels that use one word, or byte, for each thread of a block of 32.
const betweenPTX = `.version 7.0
.target sm_80
.address_size 64
.visible .global .align 4 .b32 table[32];

.visible .entry put(.param .u64 p) {
	.reg .b32 %r<2>;
	.reg .b64 %d<4>;
	ld.param.u64 %d1, [p];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %d2, %r1, 4;
	add.s64 %d3, %d1, %d2;
	st.global.u32 [%d3], %r1;
	ret;
}

.visible .entry get(.param .u64 p) {
	.reg .b32 %r<3>;
	.reg .b64 %d<4>;
	ld.param.u64 %d1, [p];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %d2, %r1, 4;
	add.s64 %d3, %d1, %d2;
	ld.global.u32 %r2, [%d3];
	ret;
}

.visible .entry bytes(.param .u64 p) {
	.reg .b32 %r<2>;
	.reg .b64 %d<4>;
	ld.param.u64 %d1, [p];
	mov.u32 %r1, %tid.x;
	cvt.u64.u32 %d2, %r1;
	add.s64 %d3, %d1, %d2;
	st.global.u8 [%d3], %r1;
	ret;
}

.visible .entry add_gpu(.param .u64 p) {
	.reg .b64 %d<2>;
	ld.param.u64 %d1, [p];
	red.relaxed.gpu.global.add.u32 [%d1], 1;
	ret;
}

.visible .entry add_cta(.param .u64 p) {
	.reg .b64 %d<2>;
	ld.param.u64 %d1, [p];
	red.relaxed.cta.global.add.u32 [%d1], 1;
	ret;
}

.visible .entry add_sys(.param .u64 p) {
	.reg .b64 %d<2>;
	ld.param.u64 %d1, [p];
	red.relaxed.sys.global.add.u32 [%d1], 1;
	ret;
}

.visible .entry release(.param .u64 flag, .param .u64 data) {
	.reg .b64 %d<3>;
	ld.param.u64 %d1, [flag];
	ld.param.u64 %d2, [data];
	st.global.u32 [%d2], 7;
	fence.acq_rel.sys;
	st.volatile.global.u32 [%d1], 1;
	ret;
}

.visible .entry forgets_fence(.param .u64 flag, .param .u64 data) {
	.reg .b64 %d<3>;
	ld.param.u64 %d1, [flag];
	ld.param.u64 %d2, [data];
	st.global.u32 [%d2], 7;
	st.volatile.global.u32 [%d1], 1;
	ret;
}

.visible .entry acquire(.param .u64 flag, .param .u64 data) {
	.reg .b32 %r<3>;
	.reg .b64 %d<3>;
	.reg .pred %p;
	ld.param.u64 %d1, [flag];
	ld.param.u64 %d2, [data];
	ld.volatile.global.u32 %r1, [%d1];
	fence.acq_rel.sys;
	setp.eq.u32 %p, %r1, 0;
	@%p bra end;
	ld.global.u32 %r2, [%d2];
end:
	ret;
}

.visible .entry early(.param .u64 flag, .param .u64 data) {
	.reg .b32 %r<3>;
	.reg .b64 %d<3>;
	ld.param.u64 %d1, [flag];
	ld.param.u64 %d2, [data];
	ld.global.u32 %r2, [%d2];
	ld.volatile.global.u32 %r1, [%d1];
	fence.acq_rel.sys;
	ret;
}

.visible .entry hold(.param .u64 flag, .param .u64 data) {
	.reg .b32 %r<3>;
	.reg .b64 %d<3>;
	.reg .pred %p;
	ld.param.u64 %d1, [flag];
	ld.param.u64 %d2, [data];
again:
	ld.acquire.sys.global.u32 %r1, [%d1];
	setp.eq.u32 %p, %r1, 0;
	@%p bra again;
	ld.global.u32 %r2, [%d2];
	ret;
}

// Each thread writes three bytes.
.visible .entry pixels(.param .u64 p) {
	.reg .b32 %r<2>;
	.reg .b64 %d<4>;
	ld.param.u64 %d1, [p];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %d2, %r1, 3;
	add.s64 %d3, %d1, %d2;
	st.global.u8 [%d3], %r1;
	st.global.u8 [%d3+1], %r1;
	st.global.u8 [%d3+2], %r1;
	ret;
}

// Waits for one word and releases another.
.visible .entry relay(.param .u64 from, .param .u64 to) {
	.reg .b32 %r<2>;
	.reg .b64 %d<3>;
	.reg .pred %p;
	ld.param.u64 %d1, [from];
	ld.param.u64 %d2, [to];
again:
	ld.acquire.sys.global.u32 %r1, [%d1];
	setp.eq.u32 %p, %r1, 0;
	@%p bra again;
	fence.acq_rel.sys;
	st.volatile.global.u32 [%d2], 1;
	ret;
}

// Each block writes its word of scratch. The last one reads all.
.visible .entry last(.param .u64 scratch, .param .u64 counter) {
	.reg .b32 %r<8>;
	.reg .b64 %d<5>;
	.reg .pred %p;
	ld.param.u64 %d1, [scratch];
	ld.param.u64 %d2, [counter];
	mov.u32 %r1, %ctaid.x;
	mul.wide.u32 %d3, %r1, 4;
	add.s64 %d4, %d1, %d3;
	st.global.u32 [%d4], %r1;
	membar.gl;
	atom.global.inc.u32 %r2, [%d2], 3;
	membar.gl;
	setp.ne.u32 %p, %r2, 3;
	@%p bra end;
	ld.global.u32 %r3, [%d1];
	ld.global.u32 %r4, [%d1+12];
end:
	ret;
}
`

// betweenRig has what the programs need: two non-blocking streams, two blocking ones, and
// memory that has been written.
type betweenRig struct {
	*rig
	a, b, c, d cu.Stream
	e, f       cu.Event
	p, q, r    cu.DevicePtr
	m          cu.Module
	k          map[string]cu.Function
}

func newBetweenRig(t *testing.T, s Schedule) *betweenRig {
	r := newRig(t, Options{Check: "races", Schedule: s, Seed: 3, Devices: 2, Profile: named(t, "h200")})
	x := &betweenRig{
		rig: r, a: r.stream(cu.StreamNonBlocking), b: r.stream(cu.StreamNonBlocking), c: r.stream(0), d: r.stream(0),
		e: r.event(), f: r.event(), p: r.alloc(8192), q: r.alloc(8192), r: r.alloc(8192), k: map[string]cu.Function{},
	}
	for _, p := range []cu.DevicePtr{x.p, x.q, x.r} {
		r.ok(r.MemsetD8(r.ctx, p, 0, 8192))
	}
	x.load(r.ctx, "")
	r.ok(r.CtxSynchronize(r.ctx))
	return x
}

// load loads the kernels into a context.
func (x *betweenRig) load(ctx cu.Context, suffix string) {
	m, err := x.ModuleLoadData(ctx, []byte(betweenPTX))
	x.ok(err)
	if ctx == x.ctx {
		x.m = m
	}
	for part := range strings.SplitSeq(betweenPTX, ".entry ") {
		if name, _, ok := strings.Cut(part, "("); ok && !strings.HasPrefix(name, ".") {
			x.k[name+suffix], err = x.ModuleGetFunction(ctx, m, name)
			x.ok(err)
		}
	}
}

// launch launches a kernel of 32 threads.
func (x *betweenRig) launch(kernel string, s cu.Stream, args ...any) {
	x.t.Helper()
	x.ok(x.run(x.k[kernel], 1, 32, s, args...))
}

// one launches a kernel of one thread in each block.
func (x *betweenRig) one(kernel string, blocks uint32, s cu.Stream, args ...any) {
	x.t.Helper()
	x.ok(x.run(x.k[kernel], blocks, 1, s, args...))
}

func (x *betweenRig) record(e cu.Event, s cu.Stream) { x.ok(x.EventRecord(x.ctx, e, s)) }
func (x *betweenRig) await(s cu.Stream, e cu.Event)  { x.ok(x.StreamWaitEvent(x.ctx, s, e, 0)) }

// follow lets a stream wait for what another one has now.
func (x *betweenRig) follow(before, after cu.Stream) {
	x.record(x.e, before)
	x.await(after, x.e)
}

// graph launches a graph of the work that f queues in two branches.
func (x *betweenRig) graph(f func(a, b cu.Stream)) {
	x.ok(x.StreamBeginCapture(x.ctx, x.a, cu.StreamCaptureModeRelaxed))
	x.follow(x.a, x.b)
	f(x.a, x.b)
	x.record(x.f, x.b)
	x.await(x.a, x.f)
	g, err := x.StreamEndCapture(x.ctx, x.a)
	x.ok(err)
	gx, err := x.GraphInstantiate(x.ctx, g, 0)
	x.ok(err)
	x.ok(x.GraphLaunch(x.ctx, gx, x.a))
}

// betweenCase is a wrong program, with what its only report says, and its corrected twin.
type betweenCase struct {
	name, want   string
	wrong, right func(x *betweenRig)
}

const betweenStreams = "missing: an event or a wait between the two streams"

var betweenCases = []betweenCase{
	{"two writes", "race between launches of kernel put: 128 bytes at offset 0 of a 8192-byte device allocation",
		func(x *betweenRig) { x.launch("put", x.a, x.p); x.launch("put", x.b, x.p) },
		func(x *betweenRig) { x.launch("put", x.a, x.p); x.follow(x.a, x.b); x.launch("put", x.b, x.p) }},
	{"a write and a read", "of kernels put and get: 128 bytes",
		func(x *betweenRig) { x.launch("put", x.a, x.p); x.launch("get", x.b, x.p) },
		func(x *betweenRig) { x.launch("put", x.a, x.p); x.sync(x.a); x.launch("get", x.b, x.p) }},
	{"a read and a write", "of kernels get and put: 128 bytes",
		func(x *betweenRig) { x.launch("get", x.a, x.p); x.launch("put", x.b, x.p) },
		func(x *betweenRig) { x.launch("get", x.a, x.p); x.launch("get", x.b, x.p); x.launch("put", x.b, x.q) }},
	{"a write and a read of a communicator", "pass",
		func(x *betweenRig) { x.launch("put", x.a, x.p); x.exchange(pass(x.rig, x.b, x.p, x.q, 64, nil)) },
		func(x *betweenRig) {
			x.launch("put", x.a, x.p)
			x.follow(x.a, x.b)
			x.exchange(pass(x.rig, x.b, x.p, x.q, 64, nil))
		}},
	{"a read and a write of a communicator", "pass",
		func(x *betweenRig) { x.exchange(pass(x.rig, x.b, x.p, x.q, 64, nil)); x.launch("get", x.a, x.q) },
		func(x *betweenRig) { x.exchange(pass(x.rig, x.b, x.p, x.q, 64, nil)); x.launch("get", x.a, x.p) }},
	{"an event too early", betweenStreams,
		func(x *betweenRig) {
			x.record(x.e, x.a)
			x.launch("put", x.a, x.p)
			x.await(x.b, x.e)
			x.launch("get", x.b, x.p)
		},
		func(x *betweenRig) {
			x.launch("put", x.a, x.p)
			x.record(x.e, x.a)
			x.await(x.b, x.e)
			x.launch("get", x.b, x.p)
		}},
	{"a chain over three streams", betweenStreams,
		func(x *betweenRig) {
			x.launch("put", x.a, x.p)
			x.launch("put", x.b, x.q)
			x.follow(x.b, x.c)
			x.launch("get", x.c, x.p)
		},
		func(x *betweenRig) {
			x.launch("put", x.a, x.p)
			x.follow(x.a, x.b)
			x.launch("put", x.b, x.q)
			x.follow(x.b, x.c)
			x.launch("get", x.c, x.p)
			x.launch("put", x.c, x.q)
		}},
	{"the legacy stream and a non-blocking one", "of put in the legacy stream",
		func(x *betweenRig) { x.launch("put", x.a, x.p); x.launch("put", 0, x.p) },
		func(x *betweenRig) { x.launch("put", x.c, x.p); x.launch("put", 0, x.p); x.launch("put", x.d, x.p) }},
	{"the host waits for another stream", betweenStreams,
		func(x *betweenRig) { x.launch("put", x.a, x.p); x.sync(x.c); x.launch("get", x.b, x.p) },
		func(x *betweenRig) {
			x.launch("put", x.a, x.p)
			x.ok(x.CtxSynchronize(x.ctx))
			x.launch("get", x.b, x.p)
		}},
	{"an event that nobody asks for", betweenStreams,
		func(x *betweenRig) { x.launch("put", x.a, x.p); x.record(x.e, x.a); x.launch("get", x.b, x.p) },
		func(x *betweenRig) {
			x.launch("put", x.a, x.p)
			x.record(x.e, x.a)
			for x.EventQuery(x.ctx, x.e) != nil {
			}
			x.launch("get", x.b, x.p)
		}},
	{"a destroyed stream", "of put in the legacy stream",
		func(x *betweenRig) {
			x.launch("put", x.a, x.p)
			x.ok(x.StreamDestroy(x.ctx, x.a))
			x.launch("put", 0, x.p)
		},
		func(x *betweenRig) {
			x.launch("put", x.c, x.p)
			x.ok(x.StreamDestroy(x.ctx, x.c))
			x.launch("put", 0, x.p)
		}},
	{"many launches between", "of kernels put and get",
		func(x *betweenRig) {
			x.launch("put", x.a, x.p)
			for i := range cu.DevicePtr(300) {
				x.launch("put", x.b, x.q+i%8*128)
			}
			x.launch("get", x.b, x.p)
		},
		func(x *betweenRig) {
			x.launch("put", x.a, x.p)
			x.follow(x.a, x.b)
			for i := range cu.DevicePtr(300) {
				x.launch("put", x.b, x.q+i%8*128)
			}
			x.launch("get", x.b, x.p)
		}},
	{"a later launch beside it", "of kernels put and get: 128 bytes at offset 0",
		func(x *betweenRig) {
			x.launch("put", x.a, x.p)
			x.launch("put", x.a, x.p+256)
			x.launch("get", x.b, x.p)
		},
		func(x *betweenRig) {
			x.launch("put", x.a, x.p)
			x.launch("put", x.a, x.p+256)
			x.launch("get", x.b, x.p+512)
		}},
	{"a host function that waits", "of kernels get and put",
		func(x *betweenRig) {
			open := x.holdStream(x.b)
			x.launch("get", x.b, x.p)
			x.launch("put", x.a, x.p)
			close(open)
			x.sync(x.b) // before the host knows of the other stream: the function could have waited for that
		},
		func(x *betweenRig) {
			open := x.holdStream(x.b)
			x.launch("get", x.b, x.p)
			x.launch("put", x.a, x.p)
			x.sync(x.a)
			close(open)
		}},
	{"branches of a graph", "missing: an edge between the two nodes of the graph",
		func(x *betweenRig) {
			x.graph(func(a, b cu.Stream) { x.launch("put", a, x.p); x.launch("get", b, x.p) })
		},
		func(x *betweenRig) {
			x.graph(func(a, b cu.Stream) { x.launch("put", a, x.p); x.follow(a, b); x.launch("get", b, x.p) })
			x.graph(func(a, b cu.Stream) { x.launch("put", b, x.p); x.launch("put", a, x.q) })
		}},
	{"a graph and a stream", "missing: an event or a wait between the stream and that of the graph",
		func(x *betweenRig) {
			x.graph(func(a, b cu.Stream) { x.launch("put", b, x.p) })
			x.launch("get", x.b, x.p)
		},
		func(x *betweenRig) {
			x.graph(func(a, b cu.Stream) { x.launch("put", b, x.p) })
			x.launch("get", x.a, x.p)
		}},
	{"bytes of one word", "of kernel bytes: 1 bytes at offset 31",
		func(x *betweenRig) { x.launch("bytes", x.a, x.p); x.launch("bytes", x.b, x.p+31) },
		func(x *betweenRig) {
			x.launch("bytes", x.a, x.p)
			x.one("bytes", 1, x.b, x.p+32)
			x.one("bytes", 1, x.c, x.p+33)
		}},
	{"the end of a page", "of kernels put and bytes: 32 bytes at offset 4096",
		func(x *betweenRig) { x.launch("put", x.a, x.p+4096-64); x.launch("bytes", x.b, x.p+4096) },
		func(x *betweenRig) { x.launch("put", x.a, x.p+4096-128); x.launch("bytes", x.b, x.p+4096) }},
	{"an atomic and a plain access", "make both accesses atomic",
		func(x *betweenRig) { x.launch("add_gpu", x.a, x.p); x.one("get", 1, x.b, x.p) },
		func(x *betweenRig) { x.launch("add_gpu", x.a, x.p); x.launch("add_gpu", x.b, x.p) }},
	{"the scope of a block", "missing: the scope .cta does not include another launch: use .gpu",
		func(x *betweenRig) { x.launch("add_cta", x.a, x.p); x.launch("add_gpu", x.b, x.p) },
		func(x *betweenRig) { x.launch("add_sys", x.a, x.p); x.launch("add_gpu", x.b, x.p) }},
	{"two devices", "missing: the scope does not include another device: use .sys",
		func(x *betweenRig) { x.onTwoDevices("add_gpu") },
		func(x *betweenRig) { x.onTwoDevices("add_sys") }},
	{"a variable of a module", "of kernel put: 128 bytes at offset 0 of a 128-byte module variable",
		func(x *betweenRig) { x.launch("put", x.a, x.table()); x.launch("put", x.b, x.table()) },
		func(x *betweenRig) { x.launch("get", x.a, x.table()); x.launch("get", x.b, x.table()) }},
	{"page-locked memory", "of a 4096-byte page-locked host allocation",
		func(x *betweenRig) {
			_, p := x.mappedWords()
			x.launch("put", x.a, p)
			x.launch("get", x.b, p)
		},
		func(x *betweenRig) {
			_, p := x.mappedWords()
			x.launch("put", x.a, p)
			x.follow(x.a, x.b)
			x.launch("get", x.b, p)
		}},
	{"scratch of two reductions", "of kernel last",
		func(x *betweenRig) { x.one("last", 4, x.a, x.p, x.q); x.one("last", 4, x.b, x.p, x.q+4) },
		func(x *betweenRig) { x.one("last", 4, x.a, x.p, x.q); x.one("last", 4, x.b, x.p+16, x.q+4) }},
	{"scratch and counter of two reductions", "of kernel last",
		func(x *betweenRig) { x.one("last", 4, x.a, x.p, x.q); x.one("last", 4, x.b, x.p, x.q) },
		func(x *betweenRig) {
			x.one("last", 4, x.a, x.p, x.q)
			x.follow(x.a, x.b)
			x.one("last", 4, x.b, x.p, x.q)
		}},
	{"a read before the flag", "of kernels release and early",
		func(x *betweenRig) { x.one("release", 1, x.a, x.p, x.q); x.one("early", 1, x.b, x.p, x.q) },
		func(x *betweenRig) {
			x.one("release", 1, x.a, x.p, x.q)
			x.one("acquire", 1, x.b, x.p, x.q)
			x.one("put", 1, x.b, x.r)
		}},
	{"memory that is used again", "of a 4096-byte stream-ordered device allocation",
		func(x *betweenRig) {
			p := x.inNewMemory()
			x.launch("get", x.a, p)
			x.launch("put", x.b, p)
		},
		func(x *betweenRig) {
			p := x.inNewMemory()
			x.launch("put", x.b, p)
		}},
	{"a copy", "race between a launch and a copy, kernel put: 128 bytes at offset 0",
		func(x *betweenRig) { x.launch("put", x.a, x.p); x.ok(x.MemcpyDtoDAsync(x.ctx, x.q, x.p, 4096, x.b)) },
		func(x *betweenRig) {
			x.launch("put", x.a, x.p)
			x.ok(x.MemcpyDtoDAsync(x.ctx, x.q, x.p+128, 4096, x.b))
			x.ok(x.MemcpyDtoDAsync(x.ctx, x.r, x.p, 4096, x.a))
		}},
	{"a fill", "race between a launch and a fill, kernel get: 4 bytes at offset 124",
		func(x *betweenRig) { x.launch("get", x.a, x.p); x.ok(x.MemsetD8Async(x.ctx, x.p+124, 1, 100, x.b)) },
		func(x *betweenRig) {
			x.ok(x.MemsetD8Async(x.ctx, x.p, 1, 256, x.b))
			x.ok(x.MemsetD8Async(x.ctx, x.p+256, 1, 100, x.a))
			x.follow(x.b, x.a)
			x.launch("get", x.a, x.p)
		}},
	{"a written value", "race between a launch and a written value, kernel put: 4 bytes at offset 8",
		func(x *betweenRig) { x.launch("put", x.a, x.p); x.ok(x.StreamWriteValue32(x.ctx, x.b, x.p+8, 1, 0)) },
		func(x *betweenRig) {
			x.launch("put", x.a, x.q)
			x.ok(x.StreamWriteValue32(x.ctx, x.a, x.p, 1, 0))
			x.one("acquire", 1, x.b, x.p, x.q)
		}},
	{"a wait for a value", betweenStreams,
		func(x *betweenRig) { // the value is written before the launch
			x.ok(x.StreamWriteValue32(x.ctx, x.a, x.q, 1, 0))
			x.launch("put", x.a, x.p)
			x.ok(x.StreamWaitValue32(x.ctx, x.b, x.q, 1, cu.StreamWaitValueEQ))
			x.launch("get", x.b, x.p)
		},
		func(x *betweenRig) {
			x.launch("put", x.a, x.p)
			x.ok(x.StreamWriteValue32(x.ctx, x.a, x.q, 1, 0))
			x.ok(x.StreamWaitValue32(x.ctx, x.b, x.q, 1, cu.StreamWaitValueEQ))
			x.launch("get", x.b, x.p)
		}},
	{"a wait for the host", betweenStreams,
		func(x *betweenRig) {
			flags, p := x.mappedWords()
			x.launch("put", x.a, x.p)
			x.ok(x.StreamWaitValue32(x.ctx, x.b, p, 1, cu.StreamWaitValueEQ))
			x.launch("get", x.b, x.p)
			atomic.StoreUint32(&flags[0], 1)
			x.sync(x.b)
		},
		func(x *betweenRig) {
			flags, p := x.mappedWords()
			x.launch("put", x.a, x.p)
			x.ok(x.StreamWaitValue32(x.ctx, x.b, p, 1, cu.StreamWaitValueEQ))
			x.launch("get", x.b, x.p)
			x.sync(x.a)
			atomic.StoreUint32(&flags[0], 1)
			x.sync(x.b)
		}},
	{"a host function", betweenStreams,
		func(x *betweenRig) {
			x.launch("put", x.a, x.p)
			x.launch("get", x.b, x.p)
			x.ok(x.LaunchHostFunc(x.ctx, x.a, func() {}))
		},
		func(x *betweenRig) {
			x.launch("put", x.a, x.p)
			done := make(chan bool)
			x.ok(x.LaunchHostFunc(x.ctx, x.a, func() { close(done) }))
			if x.schedule != Eager {
				x.sync(x.a)
			}
			<-done
			x.launch("get", x.b, x.p)
		}},
	{"a kernel that waits for the host", "of kernels hold and put",
		func(x *betweenRig) {
			flags, p := x.mappedWords()
			x.one("hold", 1, x.b, p, x.p)
			x.launch("put", x.a, x.p)
			atomic.StoreUint32(&flags[0], 1)
			x.sync(x.b)
		},
		func(x *betweenRig) {
			flags, p := x.mappedWords()
			x.one("hold", 1, x.b, p, x.p)
			x.launch("put", x.a, x.p)
			x.sync(x.a)
			atomic.StoreUint32(&flags[0], 1)
			x.sync(x.b)
			x.launch("put", x.a, x.p)
		}},
}

// holdStream queues a host function that waits until the channel is closed.
func (x *betweenRig) holdStream(s cu.Stream) chan bool {
	open := make(chan bool)
	x.ok(x.LaunchHostFunc(x.ctx, s, func() { <-open }))
	return open
}

// inNewMemory uses memory of a pool in a stream, frees it, and waits. It returns the same
// address, allocated again.
func (x *betweenRig) inNewMemory() cu.DevicePtr {
	p, err := x.MemAllocAsync(x.ctx, 4096, x.a)
	x.ok(err)
	x.launch("put", x.a, p)
	x.ok(x.MemFreeAsync(x.ctx, p, x.a))
	q, err := x.MemAllocAsync(x.ctx, 4096, x.a)
	x.ok(err)
	if p != q {
		x.t.Fatalf("the pool gives %#x, then %#x", p, q)
	}
	x.launch("put", x.a, q)
	x.sync(x.a)
	return q
}

func (x *betweenRig) table() cu.DevicePtr {
	p, _, err := x.ModuleGetGlobal(x.ctx, x.m, "table")
	x.ok(err)
	return p
}

// onTwoDevices launches a kernel for the same memory on two devices.
func (x *betweenRig) onTwoDevices(kernel string) {
	second, err := x.DevicePrimaryCtxRetain(1)
	x.ok(err)
	x.ok(x.CtxEnablePeerAccess(second, x.ctx, 0))
	x.load(second, " of 1")
	x.launch(kernel, x.a, x.p)
	x.ok(x.LaunchKernel(second, x.k[kernel+" of 1"], one, one, 0, 0, params(x.p)))
	x.ok(x.CtxSynchronize(second))
}
