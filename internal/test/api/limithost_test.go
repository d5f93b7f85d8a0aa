package api

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/pipeline"
	"github.com/ferrygpu/ferry/softgpu"
)

// openLimited opens a GPU with a limit of page-locked memory. At the end no more may have been
// page-locked than that and what is beyond it.
func openLimited(t *testing.T, bytes int, beyond *int) *ferry.GPU {
	t.Helper()
	g := openSoft(t, "h200", softgpu.Eager)
	check(t, g.LimitHost(bytes))
	t.Cleanup(func() {
		if u := must(ferry.HostStats(g))(t); u.MostLocked > bytes+*beyond || u.Limit != bytes {
			t.Errorf("with a limit of %d: %+v", bytes, u)
		}
	})
	return g
}

// TestLimitHost: AllocHost and Register beyond the limit are refused, and the error says what has the
// memory. Closed memory gives room, and memory that is page-locked already needs none.
func TestLimitHost(t *testing.T) {
	g := openLimited(t, 3<<20, new(int))
	memory := make([]byte, 2<<20)
	h := must(ferry.AllocHost[byte](g, 1<<20, nil))(t)
	r := must(ferry.Register(g, memory, nil))(t)
	for name, f := range map[string]func() error{
		"AllocHost": func() error { return last(ferry.AllocHost[byte](g, 1, nil)) },
		"Register":  func() error { return last(ferry.Register(g, make([]byte, 5000), nil)) },
	} {
		err := f()
		wantError(t, err, cu.ErrorOutOfMemory, "the limit of page-locked memory is 3.0 MiB (GPU.LimitHost)", "1.0 MiB by buffers of AllocHost, 2.0 MiB by registered memory", "close buffers", "soft:h200")
		if _, ok := errors.AsType[*ferry.PinError](err); !ok {
			t.Errorf("%s: %v is no *PinError", name, err)
		}
	}
	wantError(t, last(ferry.AllocHost[byte](g, 4<<20, nil)), cu.ErrorOutOfMemory, "take less, or raise the limit")
	again := must(ferry.Register(g, memory[100:], nil))(t)
	closeAll(t, h)
	closeAll(t, must(ferry.AllocHost[byte](g, 1<<20, nil))(t), again, r)
	closeAll(t, must(ferry.AllocHost[byte](g, 3<<20, nil))(t))
	wantError(t, g.LimitHost(-1), cu.ErrorInvalidValue, "-1 bytes: it cannot be negative")
	if u := must(ferry.HostStats(g))(t); u.Locked != 0 || u.Limit != 3<<20 {
		t.Errorf("in the end: %+v", u)
	}
}

// TestLimitHostPool: at the limit a pool frees its unused memory for a buffer of another size. Without
// unused memory the error says what has it.
func TestLimitHostPool(t *testing.T) {
	g := openLimited(t, 40<<20, new(int))
	p := newPinnedPool(t, g, nil)
	var small, large ferry.Host[byte]
	check(t, small.Alloc(p, 1000)) // the pool takes a quarter
	wantError(t, large.Alloc(p, 36<<20), cu.ErrorOutOfMemory, "10.0 MiB by pools", "allocate 36.0 MiB from a pool")
	closeAll(t, &small)
	check(t, large.Alloc(p, 36<<20))
	wantError(t, small.Alloc(p, 5<<20), cu.ErrorOutOfMemory, "GPU.LimitHost")
	check(t, small.Alloc(p, 1<<20)) // less than a segment is left
	closeAll(t, &large, &small)
}

// TestLimitHostRing: with no room for a slot the driver copies pageable memory, and readers and writers
// go on with one slot beyond the limit. The ring grows again when there is room.
func TestLimitHostRing(t *testing.T) {
	beyond := 0
	g := openLimited(t, 1<<20, &beyond)
	beyond = must(g.Staging().Stats())(t).SlotBytes
	s := must(ferry.NewStream(g, nil))(t)
	h := must(ferry.AllocHost[byte](g, 1<<20, nil))(t)
	want, got := make([]byte, 20<<20), make([]byte, 20<<20)
	fillRandom(want)
	d := must(ferry.Alloc[byte](g, len(want)))(t)
	check(t, ferry.Copy(s, d, ferry.Pageable(want)))
	check(t, ferry.Copy(s, ferry.Pageable(got), d))
	wantBytes(t, got, want)
	if u := must(ferry.HostStats(g))(t); u.Staging != 0 {
		t.Errorf("there was no room: %+v", u)
	}
	fillRandom(want)
	must(ferry.CopyFrom(t.Context(), s, d, bytes.NewReader(want)))(t)
	var out bytes.Buffer
	must(ferry.CopyTo(t.Context(), s, &out, d))(t)
	wantBytes(t, out.Bytes(), want)
	if u := must(ferry.HostStats(g))(t); u.Staging != beyond {
		t.Errorf("a reader and a writer: %+v, want one slot of %d", u, beyond)
	}
	if u := must(ferry.HostStats(g))(t); u.MostLocked > u.Limit+beyond {
		t.Errorf("at most %+v, want one slot of %d beyond the limit", u, beyond)
	}
	var refused *ferry.PinError
	if err := g.Staging().Warm(t.Context()); !errors.As(err, &refused) {
		t.Errorf("Warm beyond the limit: %v, want a *PinError", err)
	}
	check(t, g.LimitHost(0))
	check(t, ferry.Copy(s, ferry.Pageable(got), d))
	wantBytes(t, got, want)
	if u := must(ferry.HostStats(g))(t); u.Staging <= beyond {
		t.Errorf("without a limit: %+v", u)
	}
	closeAll(t, h, d, s)
	beyond = 1 << 30 // the limit has ended
	check(t, g.LimitHost(1<<20))
}

// TestLimitHostPipeline: a pipeline takes chunks that fit, also in its next run, and is refused if they
// would be very small.
func TestLimitHostPipeline(t *testing.T) {
	g := openLimited(t, 4<<20, new(int))
	in, out := make([]byte, 32<<20), make([]byte, 32<<20)
	run := pipeline.Pipeline{GPU: g, In: []pipeline.End{ferry.Pageable(in)}, Out: []pipeline.End{ferry.Pageable(out)},
		Step: func(s *ferry.Stream, c *pipeline.Chunk) error { return ferry.Copy(s, c.Out[0], c.In[0]) }}
	for range 2 {
		fillRandom(in)
		must(run.Run(t.Context()))(t)
		wantBytes(t, out, in)
		if u := must(ferry.HostStats(g))(t); u.Pipelines < 1<<20 || u.MostLocked != u.Pipelines {
			t.Errorf("%+v", u)
		}
	}
	if s := countAllocs(t, g, func() { must(run.Run(t.Context()))(t) }); s != 0 {
		t.Errorf("a third run page-locked %d bytes: it has memory from the second", s)
	}
	closeAll(t, &run)
	h := must(ferry.AllocHost[byte](g, 4<<20-4096, nil))(t)
	wantError(t, last(run.Run(t.Context())), cu.ErrorOutOfMemory, "GPU.LimitHost", "buffers of AllocHost")
	closeAll(t, h)
	must(run.Run(t.Context()))(t)
	closeAll(t, &run)
}

// countAllocs returns how many bytes f page-locks.
func countAllocs(t *testing.T, g *ferry.GPU, f func()) (bytes int64) {
	t.Helper()
	g.RecordPlaces(true)
	defer g.RecordPlaces(false)
	f()
	for _, at := range must(ferry.MemoryPlaces(g))(t) {
		bytes += at.AllBytes
	}
	return bytes
}

// TestMemoryPlaces: memory of all kinds is recorded with the line of this file that made it, and is gone
// when it is closed. What was made while recording was off is not there.
func TestMemoryPlaces(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Random)
	s := must(ferry.NewStream(g, nil))(t)
	unseen := must(ferry.Alloc[byte](g, 100))(t)
	g.RecordPlaces(true)
	(*ferry.GPU)(nil).RecordPlaces(true)
	p := newPinnedPool(t, g, nil)
	var pooled ferry.Host[byte]
	check(t, pooled.Alloc(p, 1000))
	pitched, pitch, err := ferry.AllocPitched[byte](g, 100, 50)
	check(t, err)
	virtual := must(ferry.AllocVirtual[byte](g, 0, &ferry.VirtualOptions{Max: 4 << 20}))(t)
	must(virtual.Grow(3 << 20))(t)
	run := pipeline.Pipeline{GPU: g, In: []pipeline.End{ferry.Pageable(make([]byte, 1<<20))}, Step: func(*ferry.Stream, *pipeline.Chunk) error { return nil }}
	must(run.Run(t.Context()))(t)
	made := []interface{ Close() error }{must(ferry.Alloc[byte](g, 1001))(t), must(ferry.AllocAsync[byte](s, 1002, nil))(t),
		must(ferry.AllocManaged[byte](g, 1003, nil))(t), must(ferry.AllocHost[byte](g, 1004, nil))(t), must(ferry.Register(g, make([]byte, 1005), nil))(t)}
	check(t, ferry.Copy(s, must(ferry.Alloc[byte](g, 20<<20))(t), ferry.Pageable(make([]byte, 20<<20))))
	use := must(ferry.HostStats(g))(t)
	got := map[string]int{}
	for _, at := range must(ferry.MemoryPlaces(g))(t) {
		got[at.Kind] += at.Bytes
		if at.Buffers < 1 || at.AllBytes < int64(at.Bytes) || at.AllBuffers < int64(at.Buffers) {
			t.Errorf("%+v", at)
		}
		if f, _ := runtime.CallersFrames(at.Stack).Next(); !strings.HasSuffix(f.File, "limithost_test.go") || !strings.Contains(f.Function, "TestMemoryPlaces") {
			t.Errorf("%s of %d bytes was made at %s:%d in %s", at.Kind, at.Bytes, f.File, f.Line, f.Function)
		}
	}
	chunks := use.Pipelines // each chunk has as much device memory
	for kind, want := range map[string]int{"device": 1001 + 1002 + 50*pitch + 3<<20 + 20<<20 + chunks, "managed": 1003, "page-locked": 1004, "registered": 1005,
		"pooled": use.Pooled, "staging": use.Staging, "pipeline": use.Pipelines} {
		if got[kind] != want || want == 0 {
			t.Errorf("%s: %d bytes, want %d", kind, got[kind], want)
		}
	}
	g.RecordPlaces(false)
	later := must(ferry.AllocHost[byte](g, 5000, nil))(t)
	closeAll(t, made...)
	closeAll(t, later, unseen, pitched, virtual, &run, &pooled, p, s)
	for _, at := range must(ferry.MemoryPlaces(g))(t) {
		if at.Bytes != 0 && at.Kind != "staging" && at.Bytes != 20<<20 {
			t.Errorf("all is closed: %+v", at)
		}
	}
}

// TestPoolUnderALimit: under a limit that is smaller than what a pool usually takes at once, requests of
// mixed sizes make few driver calls, and one that waits makes none.
func TestPoolUnderALimit(t *testing.T) {
	g := openLimited(t, 24<<20, new(int))
	p := newPinnedPool(t, g, nil)
	sizes := []int{1 << 20, 3 << 20, 200 << 10, 5 << 20}
	for i := range 200 {
		var a, b ferry.Host[byte]
		check(t, a.Alloc(p, sizes[i%4]))
		check(t, b.Alloc(p, sizes[i/4%4]))
		closeAll(t, &a, &b)
	}
	if s := must(p.Stats())(t); s.DriverCalls > 8 {
		t.Errorf("%d driver calls for 400 buffers: %+v", s.DriverCalls, s)
	}
}
