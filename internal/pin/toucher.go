package pin

import (
	"context"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
)

// pageBytes is the size of a small page.
var pageBytes = uintptr(os.Getpagesize())

// toucher is goroutines that touch memory, in strides of a huge page. They are not a
// workers.Pool: they may have to run on the processors of a NUMA node, and they end with
// the request.
//
// The fields do not change once the goroutines have started; next and left are atomic.
type toucher struct {
	ctx    context.Context // whose end stops the goroutines
	m      *Memory
	huge   bool
	stride uintptr
	next   atomic.Uint64 // stride
	parts  []progress    // one for each registration
	all    sync.WaitGroup
}

// progress is how far the memory of one registration is touched.
type progress struct {
	left atomic.Int64  // strides
	done chan struct{} // closed when none is left
}

// touch starts goroutines that touch the memory, from the start on, until ctx ends.
func (m *Memory) touch(ctx context.Context, machine *Machine, r Request, huge bool) *toucher {
	t := &toucher{ctx: ctx, m: m, huge: huge && machine.Huge, stride: uintptr(machine.HugeBytes)}
	t.parts = make([]progress, (m.bytes+m.part-1)/m.part)
	for i := range t.parts {
		t.parts[i].done = make(chan struct{})
		t.parts[i].left.Store(int64((min(m.part, m.bytes-uintptr(i)*m.part) + t.stride - 1) / t.stride))
	}
	if !m.e.touches {
		return t
	}
	set := &m.e.set
	n := min(max(1, runtime.GOMAXPROCS(0)-set.SpareProcessors), set.MaxTouchers, int((m.bytes+t.stride-1)/t.stride))
	var cpus []int
	if node, ok := machine.Node(r.Node); ok && len(machine.Nodes) > 1 && len(node.CPUs) > 0 {
		cpus = node.CPUs
		n = min(n, len(cpus))
	}
	for range n {
		t.all.Go(func() { t.work(cpus) })
	}
	return t
}

// work touches strides until there are no more.
func (t *toucher) work(cpus []int) {
	if len(cpus) > 0 {
		defer t.m.e.sys.runOn(cpus)()
	}
	for t.ctx.Err() == nil {
		off := (uintptr(t.next.Add(1)) - 1) * t.stride
		if off >= t.m.bytes {
			return
		}
		t.touchStride(at(t.m.start, off), min(t.stride, t.m.bytes-off))
		if p := &t.parts[off/t.m.part]; p.left.Add(-1) == 0 {
			close(p.done)
		}
	}
}

// touchStride touches n bytes. If the first touch gives it a huge page, that is enough.
// Otherwise it touches each small page.
func (t *toucher) touchStride(p address, n uintptr) {
	touch(p)
	if t.huge && n == t.stride && t.m.e.sys.resident(at(p, pageBytes)) {
		return
	}
	for off := pageBytes; off < n; off += pageBytes {
		touch(at(p, off))
	}
}

// waitUntil waits until the memory is touched up to off, the end of a registration.
func (t *toucher) waitUntil(ctx context.Context, off uintptr) error {
	if err := ctx.Err(); err != nil || !t.m.e.touches {
		return err
	}
	select {
	case <-t.parts[(off-1)/t.m.part].done:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wait waits until all goroutines have ended.
func (t *toucher) wait() { t.all.Wait() }
