package ferry

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/ferrygpu/ferry/internal/account"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/bridge"
	"github.com/ferrygpu/ferry/internal/closing"
	"github.com/ferrygpu/ferry/internal/hint"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/profile"
)

// init gives these functions to package bridge. Package pipeline calls them there, to
// copy between memory of any element type, package dlpack, to hand memory to other libraries,
// package ferrybind, to bind kernels, and a benchmark, to predict what it measures.
func init() {
	bridge.Describe = describe
	bridge.Export = export
	bridge.SetReadOnly = setReadOnly
	bridge.WaitInFlight = waitInFlight
	bridge.Label = labelFor
	bridge.Profile = func(gpu any) *profile.Profile { return gpu.(*GPU).tuning.Profile }
	bridge.Bind = func(module any, name string, params []bridge.Param) (any, error) {
		return module.(*Module).bind(name, params)
	}
	bridge.PredictPin = func(gpu any, bytes int, options any) (bridge.PinPrediction, error) {
		o, _ := options.(*HostOptions)
		return predictPin(gpu.(*GPU), bytes, o)
	}
	bridge.Queue = queueWork
	bridge.KeepGPU = func(gpu any, what string) (func(), error) {
		g := gpu.(*GPU)
		if err := g.enter(what); err != nil {
			return nil, err
		}
		return g.leave, nil
	}
	bridge.CloseOrLeave = func(gpu any, close func() error) error { return gpu.(*GPU).closeOrLeave(close) }
	bridge.AllocHost = func(ctx context.Context, gpu any, n int) (any, error) {
		return allocHostOf[byte](ctx, gpu.(*GPU), account.Pipelines, n, &HostOptions{})
	}
	bridge.AllocPooled = func(ctx context.Context, pool any, n int) (any, error) {
		h := new(Host[byte])
		return h, h.alloc(ctx, pool.(*PinnedPool), n, false)
	}
	bridge.HostRoom = func(gpu any) (int, bool) { return gpu.(*GPU).account.Room() }
	bridge.OwnsPool = func(gpu, pool any) bool { return pool.(*PinnedPool).g == gpu.(*GPU) }
}

// untypedMemory is a Memory of any element type. All types of Memory implement it.
type untypedMemory interface {
	// untyped returns the span, and the size of an element in bytes.
	untyped() (*span, int)
}

// describe implements bridge.Describe.
func describe(gpu, memory any, written bool) (bridge.Memory, error) {
	m, ok := memory.(untypedMemory)
	if !ok {
		return bridge.Memory{}, bridge.ErrNotMemory
	}
	r, size := m.untyped()
	if err := r.check(); err != nil {
		return bridge.Memory{}, err
	}
	g := gpu.(*GPU)
	if run, err := runAt(g, r, 0); err != nil {
		return bridge.Memory{}, err
	} else if run.bytes == r.bytes {
		r = &run
	}
	if written && r.a != nil && r.a.readOnly.Load() {
		return bridge.Memory{}, refusal.Invalid("%v is read-only", r)
	}
	d := bridge.Memory{Len: r.n, ElementSize: size, Start: r.address(), Space: bridge.HostSpace, Pageable: r.a == nil}
	onHost := r.a == nil || r.a.kind.onHost()
	if onHost {
		d.Bytes = address.Bytes(r.host, r.bytes)
	}
	if d.Pageable {
		return d, nil
	}
	view := *r
	view.n, view.part = int(r.bytes), true
	d.View = &Device[byte]{span: view}
	if r.host == nil {
		d.Space = r.a.g.device
	}
	d.OnDevice = r.a.kind == deviceMemory && r.a.g.device == g.device
	d.Mapped = onHost && r.dev != 0 && (!r.crossesBoundary() || g.caps.HostPointers())
	return d, r.reachableFrom(g)
}

// export implements bridge.Export.
func export(memory any, onlyReads bool) (bridge.Exported, error) {
	m, ok := memory.(untypedMemory)
	if !ok {
		return bridge.Exported{}, bridge.ErrNotMemory
	}
	r, _ := m.untyped()
	if err := r.enter(); err != nil {
		return bridge.Exported{}, err
	}
	defer r.leave()
	x := bridge.Exported{Address: r.address()}
	if r.a == nil {
		kept := new(runtime.Pinner)
		kept.Pin(r.host)
		x.Release = kept.Unpin
		return x, nil
	}
	a, access := r.a, inflight.Write
	if onlyReads {
		access = inflight.Read
	}
	err := r.waitInFlight(context.Background(), access)
	if err == nil && a.module != nil {
		err = a.module.Wait(context.Background(), inflight.Write)
	}
	if err != nil {
		return bridge.Exported{}, fmt.Errorf("%v: %w", r, err)
	}
	x.Device, x.ReadOnly = a.g.device, a.readOnly.Load()
	x.Kind = map[kind]bridge.Kind{deviceMemory: bridge.DeviceKind, hostMemory: bridge.HostKind, registeredMemory: bridge.HostKind, managedMemory: bridge.ManagedKind}[a.kind]
	a.Own()
	x.Release = func() { endExport(a) }
	return x, nil
}

// endExport ends the ownership of a library. Its work may still be queued. The driver waits for that
// when it frees memory, but not for pools, virtual memory and memory of others. There another
// goroutine waits first.
func endExport(a *allocation) {
	if a.BornOn() != nil || a.pooled != nil || a.virtual != nil || a.wrap != nil {
		go func() {
			waitForAll(a.g)
			sayLateFree(a, a.Disown())
		}()
	} else if task := a.DisownTask(); task != nil {
		go func() { sayLateFree(a, closing.AfterHostFunction(task)) }()
	}
}

// waitForAll waits for all work of the context, after the captures that forbid it. An error of the
// work is kept for another wait. The GPU can be closed, and still has objects.
func waitForAll(g *GPU) {
	for {
		err := g.await(context.Background(), &g.waits, g.synchronize, g.pending.add)
		if errors.Is(err, ErrClosed) {
			err = g.synchronizeContext()
		}
		if ofCapture(err) {
			time.Sleep(time.Millisecond)
			continue
		}
		if err != nil {
			g.pending.add(err)
		}
		return
	}
}

// sayLateFree prints an error of the free of a closed buffer, which no call can return.
func sayLateFree(a *allocation, err error) {
	if err != nil {
		hint.Say(hint.LateFree, "%v was closed before its DLPack tensor was deleted, and is not freed: %v: close it again", a, err)
	}
}

// setReadOnly implements bridge.SetReadOnly.
func setReadOnly(memory any) {
	if m, ok := memory.(untypedMemory); ok {
		if r, _ := m.untyped(); r.a != nil {
			r.a.readOnly.Store(true)
		}
	}
}

// waitInFlight implements bridge.WaitInFlight.
func waitInFlight(ctx context.Context, view any, written bool) error {
	r, a := &view.(*Device[byte]).span, inflight.Read
	if written {
		a = inflight.Write
	}
	if err := r.enter(); err != nil {
		return err
	}
	defer r.leave()
	return r.waitInFlight(ctx, a)
}

// labelFor implements bridge.Label.
func labelFor(gpu any, what string) (string, error) {
	g := gpu.(*GPU)
	if err := g.enter(what); err != nil {
		return "", err
	}
	defer g.leave()
	if err := g.mayWait(); err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	return g.label, nil
}
