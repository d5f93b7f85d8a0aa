package ferry_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestHostFlags: Flags returns how the driver page-locked the memory, also of a range.
func TestHostFlags(t *testing.T) {
	g := openTest(t)
	for _, o := range []*ferry.HostOptions{nil, {Mapped: true}, {WriteCombined: true}, {Mapped: true, WriteCombined: true, NotPortable: true}} {
		h := must(ferry.AllocHost[byte](g, 5000, o))(t)
		for _, part := range []*ferry.Host[byte]{h, h.Range(4097, 5000)} {
			flags := must(part.Flags())(t)
			if want := o != nil && o.WriteCombined; flags&cu.MemHostAllocWriteCombined != 0 != want {
				t.Errorf("%+v: flags %#x", o, flags)
			}
			if o != nil && o.Mapped && flags&cu.MemHostAllocDeviceMap == 0 {
				t.Errorf("%+v: flags %#x", o, flags)
			}
		}
		closeAll(t, h)
		_, err := h.Flags()
		wantError(t, err, ferry.ErrClosed, "read flags")
	}
	empty := must(ferry.AllocHost[byte](g, 0, nil))(t)
	if flags := must(empty.Flags())(t); flags != 0 {
		t.Errorf("flags of an empty buffer are %#x", flags)
	}
	closeAll(t, empty)
}

// TestHostUnmapped: without unified addressing, memory that is not mapped has no address in
// kernels.
func TestHostUnmapped(t *testing.T) {
	g := openSoft(t, "fermi-c2050", softgpu.Eager)
	s := must(ferry.NewStream(g, nil))(t)
	code, k := load(t, g, "increment")
	h := must(ferry.AllocHost[float32](g, 10, nil))(t)
	defer closeAll(t, s, code, h)
	if h.Pointer() != 0 {
		t.Errorf("the address is %#x", h.Pointer())
	}
	wantError(t, s.Launch(k, ferry.Grid(10, 32), h, uint64(10)), cu.ErrorInvalidValue, "parameter 0", "no address on the device", "Mapped")
	wantError(t, ferry.Fill(s, h, 1), cu.ErrorInvalidValue, "no address on the device")
	m := must(ferry.AllocHost[float32](g, 10, &ferry.HostOptions{Mapped: true}))(t)
	defer closeAll(t, m)
	clear(m.Slice())
	check(t, s.Launch(k, ferry.Grid(10, 32), m, uint64(10)))
	if got := m.Slice()[9]; got != 1 {
		t.Errorf("got %v, want 1", got)
	}
}

// noHostMemoryDriver cannot allocate page-locked memory.
type noHostMemoryDriver struct{ *fakeDriver }

func (noHostMemoryDriver) MemHostAlloc(cu.Context, uintptr, cu.MemHostAllocFlags) (cu.HostPtr, error) {
	return nil, cu.ErrorOutOfMemory
}

// TestAllocHostNoMemory: the error of the driver comes with the memory that the machine has.
func TestAllocHostNoMemory(t *testing.T) {
	g := openDriver(t, noHostMemoryDriver{newFake()})
	_, err := ferry.AllocHost[byte](g, 1<<20, nil)
	wantError(t, err, cu.ErrorOutOfMemory, "allocate 1.0 MiB of page-locked memory")
	if runtime.GOOS == "linux" {
		wantError(t, err, cu.ErrorOutOfMemory, "of host memory are available")
	}
}

// openPinEngine opens a GPU and counts its registrations. It skips where Ferry does not
// page-lock memory by itself.
func openPinEngine(t *testing.T) (*ferry.GPU, *registerDriver) {
	t.Helper()
	d := &registerDriver{Driver: openTest(t).Driver()}
	g := openDriver(t, d)
	closeAll(t, must(ferry.AllocHost[byte](g, 1<<20, nil))(t))
	if d.most == 0 {
		t.Skip("the driver page-locks memory here")
	}
	return g, d
}

// refuseSecond refuses registrations while there is one.
func refuseSecond(err error) func(now int) error {
	return func(now int) error {
		if now == 1 {
			return err
		}
		return nil
	}
}

// registrationLimit is the most bytes of one registration: there the next one begins.
const registrationLimit = 256 << 20

// copyAcrossBoundary copies host memory around a boundary of registrations to the device and
// back, and fills it.
func copyAcrossBoundary(t *testing.T, g *ferry.GPU, h *ferry.Host[byte], at int) {
	t.Helper()
	s := must(ferry.NewStream(g, nil))(t)
	const n = 10_000
	d := must(ferry.Alloc[byte](g, n))(t)
	part := h.Range(at-n/3, at-n/3+n)
	want := make([]byte, n)
	fillRandom(want)
	copy(part.Slice(), want)
	check(t, ferry.Copy(s, d, part))
	clear(part.Slice())
	check(t, ferry.Copy(s, part, d))
	if !slices.Equal(part.Slice(), want) {
		t.Error("the bytes around the boundary differ")
	}
	check(t, ferry.Fill(s, part, 7))
	for i, b := range h.Range(at-n, at+n).Slice() {
		if inside := i >= n-n/3 && i < 2*n-n/3; inside != (b == 7) {
			t.Fatalf("byte %d from the boundary is %d after the fill", i-n, b)
		}
	}
	closeAll(t, d, s)
}

// TestAllocHostSeveralRegistrations: a large buffer consists of several registrations.
// Copies and fills across their boundary work like others.
func TestAllocHostSeveralRegistrations(t *testing.T) {
	g, d := openPinEngine(t)
	var progress []int
	const n = registrationLimit + 1<<20
	h := must(ferry.AllocHost[byte](g, n, &ferry.HostOptions{Progress: func(done, total int) { progress = append(progress, done, total) }}))(t)
	if want := []int{registrationLimit, n, n, n}; !slices.Equal(progress, want) {
		t.Errorf("progress is %v, want %v", progress, want)
	}
	wantRegistrations(t, d, 2)
	clear(h.Slice())
	copyAcrossBoundary(t, g, h, registrationLimit)
	closeAll(t, h)
	wantRegistrations(t, d, 0)
}

// TestAllocHostContext: when the context ends, or a later registration fails, no
// registration is left.
func TestAllocHostContext(t *testing.T) {
	g, d := openPinEngine(t)
	ctx, cancel := context.WithCancel(context.Background())
	_, err := ferry.AllocHostContext[byte](ctx, g, registrationLimit+1<<20, &ferry.HostOptions{Progress: func(int, int) { cancel() }})
	wantError(t, err, context.Canceled, "allocate 257.0 MiB of page-locked memory")
	wantRegistrations(t, d, 0)
	_, err = ferry.AllocHostContext[byte](ctx, g, 10, nil)
	wantError(t, err, context.Canceled)
	d.refuse = refuseSecond(cu.ErrorOutOfMemory)
	_, err = ferry.AllocHost[byte](g, registrationLimit+1<<20, nil)
	wantError(t, err, cu.ErrorOutOfMemory, "allocate 257.0 MiB of page-locked memory")
	wantRegistrations(t, d, 0)
}

// TestAllocHostNotRegistrable: where the driver refuses to register memory, although its
// attributes say that it can, it allocates the buffer itself.
func TestAllocHostNotRegistrable(t *testing.T) {
	g, d := openPinEngine(t)
	d.refuse = refuseSecond(cu.ErrorNotSupported)
	h := must(ferry.AllocHost[byte](g, registrationLimit+1<<20, nil))(t)
	wantRegistrations(t, d, 0)
	closeAll(t, h)
}

// TestAllocHostNUMANode: a node that does not exist is an error before anything is tried,
// also for PredictPin.
func TestAllocHostNUMANode(t *testing.T) {
	g, _ := openPinEngine(t)
	_, err := ferry.AllocHost[byte](g, 1<<20, &ferry.HostOptions{NUMANode: new(1023)})
	wantError(t, err, cu.ErrorInvalidValue, "no NUMA node 1023")
	pinErr, ok := errors.AsType[*ferry.PinError](err)
	if !ok || pinErr.Bytes != 1<<20 || pinErr.Node != 1023 {
		t.Errorf("got %+v in %v, want a PinError with 1 MiB and node 1023", pinErr, err)
	}
	if h, err := ferry.AllocHost[byte](g, 1<<20, &ferry.HostOptions{NUMANode: new(0), WriteCombined: true}); err == nil {
		closeAll(t, h)
	} else { // a machine with several nodes
		wantError(t, err, cu.ErrorNotSupported, "cannot be placed")
	}
	p, err := ferry.PredictPin(g, 1<<20, &ferry.HostOptions{NUMANode: new(1023)})
	check(t, err)
	wantError(t, p.Err, cu.ErrorInvalidValue, "no NUMA node 1023")
}

// TestSoftNUMANode: each software GPU has the node that its profile names, or node 0, for
// buffers of all sizes. Others are refused with that node.
func TestSoftNUMANode(t *testing.T) {
	for _, name := range profile.Names() {
		g := openSoft(t, name, softgpu.Eager)
		node := 0
		if named, err := g.Attribute(cu.DeviceAttributeHostNUMAID); err == nil && named > 0 {
			node = int(named)
		}
		for _, n := range []int{0, 1, 5000, 1 << 20, 40 << 20} {
			for _, combined := range []bool{false, true} {
				o := ferry.HostOptions{NUMANode: &node, WriteCombined: combined}
				h := must(ferry.AllocHost[byte](g, n, &o))(t)
				closeAll(t, h)
				p := must(ferry.PredictPin(g, n, &o))(t)
				check(t, p.Err)
				for _, other := range []int{node + 1, 99, 1 << 20} {
					o := ferry.HostOptions{NUMANode: &other, WriteCombined: combined}
					if _, err := ferry.AllocHost[byte](g, n, &o); n > 0 {
						want := fmt.Sprintf("no NUMA node %d (there are: %d)", other, node)
						wantError(t, err, cu.ErrorInvalidValue, want)
						p := must(ferry.PredictPin(g, n, &o))(t)
						wantError(t, p.Err, cu.ErrorInvalidValue, want)
					}
				}
			}
		}
		pool := must(ferry.NewPinnedPool(g, &ferry.PinnedPoolOptions{NUMANode: &node}))(t)
		h := must(ferry.AllocHost[byte](g, 5000, &ferry.HostOptions{Pool: pool}))(t)
		closeAll(t, h, pool)
	}
}

// TestPredictPin: on the software GPU a prediction is within 5 % of the time that it takes.
// The prediction is a line through two trials; the curve of the profile is not a line.
func TestPredictPin(t *testing.T) {
	g, _ := openPinEngine(t)
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
		t.Errorf("the prediction for no bytes is %+v", p)
	}
	_, err := ferry.PredictPin(g, -1, nil)
	wantError(t, err, cu.ErrorInvalidValue, "cannot be negative")
}
