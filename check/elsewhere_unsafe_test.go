package check_test

import (
	"runtime"
	"sync"
	"unsafe"

	"github.com/ferrygpu/ferry/check"
	"github.com/ferrygpu/ferry/cu"
)

// elsewhere is a software GPU that holds no memory of the program, as the driver of a GPU
// does not. The software GPU keeps registered memory alive. So here it gets page-locked memory
// of the same size for each registration, and copies use that.
type elsewhere struct {
	cu.Driver
	mu    sync.Mutex
	there map[uintptr]cu.HostPtr // by the address of the registration
}

func (d *elsewhere) Unwrap() cu.Driver { return d.Driver }

func (d *elsewhere) MemHostRegister(ctx cu.Context, p cu.HostPtr, n uintptr, _ cu.MemHostRegisterFlags) error {
	q, err := d.MemHostAlloc(ctx, n, 0)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.there[uintptr(p)] = q
	return err
}

func (d *elsewhere) MemHostUnregister(ctx cu.Context, p cu.HostPtr) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer delete(d.there, uintptr(p))
	return d.MemFreeHost(ctx, d.there[uintptr(p)])
}

func (d *elsewhere) MemcpyHtoDAsync(ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, s cu.Stream) error {
	d.mu.Lock()
	q := d.there[uintptr(src)]
	d.mu.Unlock()
	if q == nil { // ordinary memory: a copy of it
		q = unsafe.Pointer(unsafe.SliceData(append([]byte(nil), unsafe.Slice((*byte)(src), n)...)))
	}
	return d.Driver.MemcpyHtoDAsync(ctx, dst, q, n, s)
}

func (d *elsewhere) MemcpyAsync(ctx cu.Context, dst, src cu.DevicePtr, n uintptr, s cu.Stream) error {
	d.mu.Lock()
	if q := d.there[uintptr(src)]; q != nil {
		src = cu.DevicePtr(uintptr(q))
	}
	d.mu.Unlock()
	return d.Driver.MemcpyAsync(ctx, dst, src, n, s)
}

// goneMemoryPairs are programs about memory of the program that is gone.
var goneMemoryPairs = []pair{
	{"collected-in-flight", "Go must not free registered memory while a copy uses it.", check.Collected, "cuMemcpyHtoDAsync",
		func(r *rig) { r.up(r.a, r.dev, r.register(size)); runtime.GC(); r.sync(r.a) },
		func(r *rig) {
			p := r.register(size)
			r.up(r.a, r.dev, p)
			runtime.GC()
			r.sync(r.a)
			ok(r.MemHostUnregister(r.ctx, at(p)))
		}},
	{"collected-before-a-copy", "A registration must not outlive memory of Go: its address becomes that of something else.", check.Collected, "cuMemcpyAsync",
		func(r *rig) {
			p := address(r.register(size))
			runtime.GC()
			ok(r.MemcpyAsync(r.ctx, r.dev, p, size, r.a))
			r.sync(r.a)
		},
		func(r *rig) {
			p := r.register(size)
			runtime.GC()
			ok(r.MemcpyAsync(r.ctx, r.dev, address(p), size, r.a))
			r.sync(r.a)
			ok(r.MemHostUnregister(r.ctx, at(p)))
		}},
	{"collected-before-a-graph", "A graph does not keep the ordinary memory that its copies use.", check.Collected, "cuGraphLaunch",
		func(r *rig) {
			x := r.graph(r.a, func() { r.up(r.a, r.dev, make([]byte, size)) })
			runtime.GC()
			ok(r.GraphLaunch(r.ctx, x, r.a))
		},
		func(r *rig) {
			p := make([]byte, size)
			x := r.graph(r.a, func() { r.up(r.a, r.dev, p) })
			runtime.GC()
			ok(r.GraphLaunch(r.ctx, x, r.a))
			r.sync(r.a)
			runtime.KeepAlive(p)
		}},
	{"unmapped-in-flight", "Registered memory must not be unmapped while a copy uses it.", check.Unmapped, "cuMemcpyHtoDAsync",
		func(r *rig) { p := r.mapping(); r.up(r.a, r.dev, p); unmap(p); r.sync(r.a) },
		func(r *rig) {
			p := r.mapping()
			r.up(r.a, r.dev, p)
			r.sync(r.a)
			ok(r.MemHostUnregister(r.ctx, at(p)))
			unmap(p)
		}},
}

// mapping registers memory of its own mapping.
func (r *rig) mapping() []byte {
	p := mapping(size)
	ok(r.MemHostRegister(r.ctx, at(p), size, 0))
	return p
}
