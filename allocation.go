package ferry

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/pin"
)

// kind is where memory lives and who owns it.
type kind uint8

const (
	plainMemory      kind = iota // ordinary Go memory
	deviceMemory                 // cuMemAlloc
	hostMemory                   // cuMemHostAlloc, or made by Ferry
	registeredMemory             // cuMemHostRegister
	managedMemory                // cuMemAllocManaged
)

func (k kind) String() string {
	return [...]string{"plain", "device", "page-locked", "registered", "managed"}[k]
}

// onHost says that copies address the memory as the host does.
func (k kind) onHost() bool { return k == plainMemory || k == hostMemory || k == registeredMemory }

// allocation is a piece of memory that the driver gave or registered. Buffers
// and their ranges refer to it; it knows what is in flight on any of them.
type allocation struct {
	g        *GPU
	kind     kind
	only     bool // page-locked for one device's context only
	readOnly bool // registered for the device to read
	direct   bool // nothing stands between it and an operation of its GPU
	flight        // what a copy looks at is above, and at the beginning of this

	number int64  // to tell buffers apart
	name   string // of the elements; of a variable its own
	count  int
	bytes  uintptr
	host   cu.HostPtr
	dev    cu.DevicePtr
	leak   runtime.Cleanup

	made *pin.Memory // page-locked by Ferry, nil if by the driver
	cuts []uintptr   // where one registration borders on the next, in bytes from host

	// Of memory of a pool: its block, what Close does, and what stands for the
	// operations in flight then.
	block *pin.Block
	pool  *HostPool
	back  func() error
	marks []mark

	// Of registered memory: what it is made of, and whether other buffers may have
	// the same bytes.
	pieces     []*piece
	overlapped atomic.Bool

	attached atomic.Pointer[attachment] // of managed memory, nil for cu.MemAttachGlobal
	module   *Module                    // of a variable
}

// newAllocation describes count elements of T, not yet allocated. The GPU is
// entered: leave it if the allocation fails.
func newAllocation[T any](g *GPU, k kind, count int) (*allocation, error) {
	verb := "allocate"
	if k == registeredMemory {
		verb = "register"
	}
	e, err := elementOf[T]()
	if err != nil {
		return nil, fmt.Errorf("%s %v memory: %w", verb, k, err)
	}
	a := &allocation{g: g, kind: k, count: count, name: e.name}
	a.init()
	if a.bytes, err = e.bytes(count); err != nil {
		return nil, fmt.Errorf("%s %v memory: %w", verb, k, err)
	}
	if err := g.enter(fmt.Sprintf("%s %s of %v memory", verb, sizeText(a.bytes), k)); err != nil {
		return nil, err
	}
	a.number = g.buffers.Add(1)
	g.tidy()
	return a, nil
}

// route notes what operations need not look at again.
func (a *allocation) route() {
	a.direct = a.order == nil && (a.kind != managedMemory || a.g.caps.concurrentManaged)
}

// ways are those of copies to and from the memory that can be one call of the driver.
func (a *allocation) ways() (into, outOf way) {
	switch {
	case a.kind == deviceMemory && a.direct:
		return toDevice, toHost
	case a.kind != hostMemory && a.kind != registeredMemory || len(a.cuts) > 0:
		return 0, 0
	case a.readOnly:
		return 0, toDevice
	}
	return toHost, toDevice
}

// start finishes the making of an allocation.
func (a *allocation) start() {
	a.route()
	a.enlist()
	a.leak = watchLeak(a, a.String)
}

func (a *allocation) String() string {
	if a.module != nil {
		return fmt.Sprintf("%v variable %s (%s) on %s", a.kind, a.name, sizeText(a.bytes), a.g.label)
	}
	if a.block != nil {
		return fmt.Sprintf("%v buffer %d of a pool (up to %s) on %s", a.kind, a.number, sizeText(a.bytes), a.g.label)
	}
	return fmt.Sprintf("%v buffer %d (%d %s, %s) on %s", a.kind, a.number, a.count, a.name, sizeText(a.bytes), a.g.label)
}

// errClosed is the error for a use after Close.
func (a *allocation) errClosed() error { return fmt.Errorf("%v: %w", a, ErrClosed) }

// close waits for the hardware and frees. Inside a host function, where neither
// is allowed, it leaves that for later; what a graph will use, for the graph.
func (a *allocation) close() error {
	if !a.shut() {
		return nil
	}
	a.leak.Stop()
	return a.dismiss(func() error { return a.g.soon(a.dispose) })
}

// dispose waits for what is in flight, frees, and lets go of the GPU.
func (a *allocation) dispose() error {
	a.delist()
	if a.order != nil {
		if freed, err := a.freeInOrder(); freed || inCallback(err) {
			return err
		}
	}
	err := a.wait(context.Background(), writes)
	if inCallback(err) || err != nil && !sticky(err) {
		return fmt.Errorf("close %v: it may be in use and is not freed: %w", a, err)
	}
	if freeErr := a.free(); freeErr != nil {
		if inCallback(freeErr) {
			return freeErr
		}
		err = freeErr
	}
	a.g.leave()
	if err != nil {
		return fmt.Errorf("close %v: %w", a, err)
	}
	return nil
}

// free is the driver's part.
func (a *allocation) free() error {
	if a.module != nil {
		return a.module.forget(a)
	}
	if a.bytes == 0 {
		return nil
	}
	d, ctx := a.g.driver, a.g.ctx
	switch {
	case a.kind == hostMemory:
		return locked{a.made, a.host}.free(a.g)
	case a.kind == registeredMemory:
		return a.unlock()
	}
	if a.order != nil {
		return d.MemFreeAsync(ctx, a.dev, 0)
	}
	return d.MemFree(ctx, a.dev)
}

// fail leaves the GPU and says what could not be allocated and why.
func (a *allocation) fail(what string, err error, hint string) error {
	a.g.leave()
	if hint != "" {
		hint = ": " + hint
	}
	return fmt.Errorf("%s %s of %v memory on %s: %w%s", what, sizeText(a.bytes), a.kind, a.g.label, err, hint)
}
