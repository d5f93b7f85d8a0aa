package ferry_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// fullDriver has no page-locked memory to give.
type fullDriver struct{ *fakeDriver }

func (fullDriver) MemHostAlloc(cu.Context, uintptr, cu.MemHostAllocFlags) (cu.HostPtr, error) {
	return nil, cu.ErrorOutOfMemory
}

// TestNoHostMemory: an error of the driver comes with what the machine has.
func TestNoHostMemory(t *testing.T) {
	g := openFake(t, fullDriver{newFake()})
	_, err := ferry.AllocHost[byte](g, 1<<20, nil)
	wantError(t, err, cu.ErrorOutOfMemory, "allocate 1.0 MiB of page-locked memory")
	if runtime.GOOS == "linux" {
		wantError(t, err, cu.ErrorOutOfMemory, "of host memory are available")
	}
}

// registering counts what is registered of another driver, and refuses one.
type registering struct {
	cu.Driver
	now, most atomic.Int64
	refuse    error // of the second registration
}

func (d *registering) MemHostRegister(ctx cu.Context, p cu.HostPtr, n uintptr, flags cu.MemHostRegisterFlags) error {
	if d.refuse != nil && d.now.Load() == 1 {
		return d.refuse
	}
	err := d.Driver.MemHostRegister(ctx, p, n, flags)
	if err == nil {
		d.most.Store(max(d.most.Load(), d.now.Add(1)))
	}
	return err
}

func (d *registering) MemHostUnregister(ctx cu.Context, p cu.HostPtr) error {
	err := d.Driver.MemHostUnregister(ctx, p)
	if err == nil {
		d.now.Add(-1)
	}
	return err
}

func (d *registering) Unwrap() cu.Driver { return d.Driver }

// openRegistering opens a device whose driver is counted. It skips where Ferry
// does not page-lock by itself.
func openRegistering(t *testing.T) (*ferry.GPU, *registering) {
	t.Helper()
	g := openTest(t)
	d := &registering{Driver: g.Driver()}
	g = must(ferry.OpenDriver(d, 0))(t)
	t.Cleanup(func() { closeAll(t, g) })
	h := must(ferry.AllocHost[byte](g, 1<<20, nil))(t)
	closeAll(t, h)
	if d.most.Load() == 0 {
		t.Skip("page-locked memory is the driver's here")
	}
	return g, d
}

// edge is where two pieces of a large buffer meet.
const edge = 256 << 20

// copyAcross writes around an edge of host memory, and copies that to the device and back.
func copyAcross(t *testing.T, g *ferry.GPU, h *ferry.Host[byte], at int) {
	t.Helper()
	s := must(ferry.NewStream(g, nil))(t)
	const n = 10_000
	d := must(ferry.Alloc[byte](g, n))(t)
	part := h.Range(at-n/3, at-n/3+n)
	want := make([]byte, n)
	random(want)
	copy(part.Slice(), want)
	check(t, ferry.Copy(s, d, part))
	clear(part.Slice())
	check(t, ferry.Copy(s, part, d))
	if !slices.Equal(part.Slice(), want) {
		t.Error("the bytes around the edge differ")
	}
	check(t, ferry.Fill(s, part, 7))
	for i, b := range h.Range(at-n, at+n).Slice() {
		if inside := i >= n-n/3 && i < 2*n-n/3; inside != (b == 7) {
			t.Fatalf("byte %d of the edge is %d after the fill", i-n, b)
		}
	}
	closeAll(t, d, s)
}

// TestAllocHostInPieces: a large buffer is of several registrations, of which
// copies and fills tell nothing.
func TestAllocHostInPieces(t *testing.T) {
	g, d := openRegistering(t)
	var told []int
	const n = edge + 1<<20
	h := must(ferry.AllocHost[byte](g, n, &ferry.HostOptions{Progress: func(done, total int) { told = append(told, done, total) }}))(t)
	if want := []int{edge, n, n, n}; !slices.Equal(told, want) || d.now.Load() != 2 {
		t.Errorf("progress %v, %d registrations, want %v and 2", told, d.now.Load(), want)
	}
	copyAcross(t, g, h, edge)
	closeAll(t, h)
	if d.now.Load() != 0 {
		t.Errorf("%d registrations are left", d.now.Load())
	}
}

// TestRegisterInPieces: so is a large slice that is registered.
func TestRegisterInPieces(t *testing.T) {
	g, d := openRegistering(t)
	memory := make([]byte, edge+1<<20)
	h := must(ferry.Register(g, memory, nil))(t)
	if d.now.Load() < 2 {
		t.Errorf("%d registrations, want 2", d.now.Load())
	}
	start := int(uint64(h.Pointer()) % edge)
	copyAcross(t, g, h, edge-start)
	closeAll(t, h)
	if d.now.Load() != 0 {
		t.Errorf("%d registrations are left", d.now.Load())
	}
}

// TestAllocHostGivesUp: an end of the context, and an error of a later piece, leave
// nothing.
func TestAllocHostGivesUp(t *testing.T) {
	g, d := openRegistering(t)
	ctx, stop := context.WithCancel(context.Background())
	_, err := ferry.AllocHostContext[byte](ctx, g, edge+1<<20, &ferry.HostOptions{Progress: func(int, int) { stop() }})
	wantError(t, err, context.Canceled, "allocate 257.0 MiB of page-locked memory")
	if d.now.Load() != 0 {
		t.Errorf("given up, and %d registrations are left", d.now.Load())
	}
	_, err = ferry.AllocHostContext[byte](ctx, g, 10, nil)
	wantError(t, err, context.Canceled)
	d.refuse = cu.ErrorOutOfMemory
	_, err = ferry.AllocHost[byte](g, edge+1<<20, nil)
	wantError(t, err, cu.ErrorOutOfMemory, "allocate 257.0 MiB of page-locked memory")
	if d.now.Load() != 0 {
		t.Errorf("after an error %d registrations are left", d.now.Load())
	}
}

// TestUnregistrable: where the driver does not register after all, it allocates.
func TestUnregistrable(t *testing.T) {
	g, d := openRegistering(t)
	d.refuse = cu.ErrorNotSupported
	h := must(ferry.AllocHost[byte](g, edge+1<<20, nil))(t)
	if d.now.Load() != 0 {
		t.Errorf("%d registrations are left", d.now.Load())
	}
	closeAll(t, h)
}

func TestPlacedMemory(t *testing.T) {
	g, _ := openRegistering(t)
	_, err := ferry.AllocHost[byte](g, 1<<20, &ferry.HostOptions{NUMANode: new(1023)})
	wantError(t, err, cu.ErrorInvalidValue, "no NUMA node 1023")
	told, ok := errors.AsType[*ferry.PinError](err)
	if !ok || told.Bytes != 1<<20 || told.Node != 1023 {
		t.Errorf("got %+v of %v", told, err)
	}
	_, err = ferry.AllocHost[byte](g, 1<<20, &ferry.HostOptions{NUMANode: new(0), WriteCombined: true})
	wantError(t, err, cu.ErrorNotSupported, "cannot be placed")
	p, err := ferry.PredictPin(g, 1<<20, &ferry.HostOptions{NUMANode: new(1023)})
	check(t, err)
	wantError(t, p.Err, cu.ErrorInvalidValue, "no NUMA node 1023")
}

// TestPredictPin: on the software GPU a prediction is near what it will take. It is a
// line through two trials, and the profile's curve is none.
func TestPredictPin(t *testing.T) {
	g, _ := openRegistering(t)
	for _, o := range []*ferry.HostOptions{nil, {WriteCombined: true}} {
		p := must(ferry.PredictPin(g, 64<<20, o))(t)
		begin := g.Now()
		h := must(ferry.AllocHost[byte](g, 64<<20, o))(t)
		took := g.Now() - begin
		if p.Err != nil || p.Time <= 0 || g.Emulated() && (p.Time-took).Abs() > took/20 {
			t.Errorf("predicted %+v, took %v", p, took)
		}
		closeAll(t, h)
	}
	if p := must(ferry.PredictPin(g, 0, nil))(t); p.Err != nil || p.Time > time.Millisecond {
		t.Errorf("nothing: %+v", p)
	}
	_, err := ferry.PredictPin(g, -1, nil)
	wantError(t, err, cu.ErrorInvalidValue, "cannot be negative")
}
