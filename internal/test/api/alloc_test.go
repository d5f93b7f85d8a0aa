package api

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/internal/bridge"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestAllocRefused: sizes that are impossible, types with Go pointers, and a nil GPU.
func TestAllocRefused(t *testing.T) {
	g := openTest(t)
	_, total, err := g.MemInfo()
	check(t, err)

	_, err = ferry.Alloc[float32](g, -1)
	wantError(t, err, cu.ErrorInvalidValue, "-1 elements of float32")
	_, err = ferry.Alloc[[1 << 20]float64](g, math.MaxInt)
	wantError(t, err, cu.ErrorOutOfMemory, "more bytes than an address can count")
	_, err = ferry.AllocHost[int](g, math.MinInt, nil)
	wantError(t, err, cu.ErrorInvalidValue, "cannot be negative")
	_, err = ferry.Alloc[byte](g, total+1)
	wantError(t, err, cu.ErrorOutOfMemory, "allocate", "of device memory on "+gpuName(g), "are free", "larger than the device")
	_, err = ferry.Alloc[byte](g, math.MaxInt)
	wantError(t, err, cu.ErrorOutOfMemory, "8388608.0 TiB of device memory")

	_, err = ferry.Alloc[string](g, 1)
	wantError(t, err, cu.ErrorInvalidValue, "type string hold Go pointers")
	_, err = ferry.AllocHost[struct{ A struct{ B [2]*int } }](g, 1, nil)
	wantError(t, err, cu.ErrorInvalidValue, ".A.B[0] is *int")
	_, err = ferry.Register(g, []any{1}, nil)
	wantError(t, err, cu.ErrorInvalidValue, "Go pointers")
	_, err = ferry.AllocManaged[[]byte](g, 1, nil)
	wantError(t, err, cu.ErrorInvalidValue, "Go pointers")

	_, err = ferry.Alloc[byte](nil, 1)
	wantError(t, err, cu.ErrorInvalidValue, "no GPU given")
	_, err = ferry.AllocHost[byte](nil, 1, nil)
	wantError(t, err, cu.ErrorInvalidValue, "no GPU given")
	_, err = ferry.AllocManaged[byte](nil, 1, nil)
	wantError(t, err, cu.ErrorInvalidValue, "no GPU given")
	_, err = ferry.Register(nil, []byte{1}, nil)
	wantError(t, err, cu.ErrorInvalidValue, "no GPU given")
}

// TestBoolElements: a bool that is neither 0 nor 1 lets Go code reach memory behind an array.
// So nothing that a kernel, a copy or a reader writes has bool elements. The error says where
// the bool is.
func TestBoolElements(t *testing.T) {
	type vec = struct {
		N     uint32
		Flags [2]struct{ On bool }
	}
	x := newBoolScene(t)
	g, s := x.g, x.s
	for name, call := range map[string]func() error{
		"Alloc":         func() error { return last(ferry.Alloc[vec](g, 4)) },
		"AllocPitched":  func() error { _, _, err := ferry.AllocPitched[vec](g, 2, 2); return err },
		"AllocVirtual":  func() error { return last(ferry.AllocVirtual[vec](g, 2, nil)) },
		"AllocHost":     func() error { return last(ferry.AllocHost[vec](g, 4, nil)) },
		"Host.Alloc":    func() error { return new(ferry.Host[vec]).Alloc(x.pool, 4) },
		"AllocManaged":  func() error { return last(ferry.AllocManaged[vec](g, 4, nil)) },
		"AllocAsync":    func() error { return last(ferry.AllocAsync[vec](s, 4, nil)) },
		"Register":      func() error { return last(ferry.Register(g, make([]vec, 4), nil)) },
		"Upload":        func() error { return last(ferry.Upload(g, make([]vec, 4))) },
		"Global":        func() error { return last(ferry.Global[vec](x.module, "v")) },
		"ManagedGlobal": func() error { return last(ferry.ManagedGlobal[vec](x.module, "v")) },
		"Copy":          func() error { return ferry.Copy(s, pageable[vec](4), pageable[vec](4)) },
		"CopyAll": func() error {
			return ferry.CopyAll(s, []ferry.Pair[vec]{{Dst: pageable[vec](4), Src: pageable[vec](4)}})
		},
		"CopyRect": func() error {
			r := ferry.Rect[vec]{Memory: pageable[vec](4), Width: 2, Height: 2}
			return ferry.CopyRect(s, r, r)
		},
		"CopyFrom": func() error { return last(ferry.CopyFrom(t.Context(), s, pageable[vec](4), rand.Reader)) },
		"CopyTo":   func() error { return last(ferry.CopyTo(t.Context(), s, io.Discard, pageable[vec](4))) },
		"Download": func() error { return last(ferry.Download(pageable[vec](4))) },
	} {
		t.Run(name, func(t *testing.T) { wantError(t, call(), cu.ErrorInvalidValue, "hold a bool (.Flags[0].On is bool)") })
	}
}

// boolScene is what TestBoolElements needs to call everything.
type boolScene struct {
	g      *ferry.GPU
	s      *ferry.Stream
	pool   *ferry.PinnedPool
	module *ferry.Module
}

func newBoolScene(t *testing.T) *boolScene {
	g := openTest(t)
	x := &boolScene{g, must(ferry.NewStream(g, nil))(t), must(ferry.NewPinnedPool(g, nil))(t), must(ferry.Load(g, []byte(kernels.PTX), nil))(t)}
	t.Cleanup(func() { closeAll(t, x.s, x.pool, x.module) })
	return x
}

func pageable[T any](n int) ferry.Memory[T] { return ferry.Pageable(make([]T, n)) }

// TestNoConversion: Go converts no buffer of one element type to one of another. Such a
// conversion needs no package unsafe, and its slices would have a wrong size, or pointers.
func TestNoConversion(t *testing.T) {
	for _, c := range []struct{ from, to any }{
		{(*ferry.Device[byte])(nil), (*ferry.Device[uint64])(nil)},
		{(*ferry.Host[byte])(nil), (*ferry.Host[bool])(nil)},
		{(*ferry.Host[byte])(nil), (*ferry.Host[*int])(nil)},
		{(*ferry.Host[uint64])(nil), (*ferry.Managed[byte])(nil)},
		{(*ferry.Managed[byte])(nil), (*ferry.Managed[[1024]byte])(nil)},
		{(*ferry.PageableSlice[byte])(nil), (*ferry.PageableSlice[bool])(nil)},
		{ferry.Host[byte]{}, ferry.Host[bool]{}},
	} {
		if reflect.TypeOf(c.from).ConvertibleTo(reflect.TypeOf(c.to)) {
			t.Errorf("a %T can be converted to a %T", c.from, c.to)
		}
	}
}

// TestAllocPitched allocates rows for elements of several sizes and copies to and from them.
func TestAllocPitched(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	pitched(t, g, s, func(i int) uint8 { return uint8(i) })
	pitched(t, g, s, func(i int) float32 { return float32(i) / 4 })
	pitched(t, g, s, func(i int) [3]uint32 { return [3]uint32{uint32(i), ^uint32(i), 7} })
	pitched(t, g, s, func(i int) [1000]uint64 { return [1000]uint64{0: uint64(i), 999: ^uint64(i)} })
	for _, empty := range [][2]int{{0, 5}, {5, 0}} {
		d, pitch, err := ferry.AllocPitched[int](g, empty[0], empty[1])
		check(t, err)
		if d.Len() != 0 || pitch != empty[0] {
			t.Errorf("%v: %d elements, pitch %d; want none, pitch %d", empty, d.Len(), pitch, empty[0])
		}
		closeAll(t, d)
	}
	for _, bad := range [][2]int{{-1, 1}, {1, -1}} {
		_, _, err := ferry.AllocPitched[int](g, bad[0], bad[1])
		wantError(t, err, cu.ErrorInvalidValue, "cannot be negative")
	}
	for huge, want := range map[[2]int]cu.Result{{math.MaxInt, 1}: cu.ErrorOutOfMemory, {1 << 20, 1 << 30}: cu.ErrorOutOfMemory,
		{1, math.MaxInt}: cu.ErrorInvalidValue, {math.MaxInt / 8, math.MaxInt / 8}: cu.ErrorInvalidValue} {
		_, _, err := ferry.AllocPitched[[3]int](g, huge[0], huge[1])
		wantError(t, err, want, "allocate")
	}
	_, _, err := ferry.AllocPitched[string](g, 1, 1)
	wantError(t, err, cu.ErrorInvalidValue, "Go pointers")
	_, _, err = ferry.AllocPitched[int](nil, 1, 1)
	wantError(t, err, cu.ErrorInvalidValue, "no GPU given")
	closeAll(t, s)
}

func pitched[T comparable](t *testing.T, g *ferry.GPU, s *ferry.Stream, value func(int) T) {
	t.Helper()
	const w, h = 13, 9
	d, pitch, err := ferry.AllocPitched[T](g, w, h)
	check(t, err)
	if pitch < w || d.Len() != pitch*h || d.Size()/d.Len()*d.Len() != d.Size() {
		t.Errorf("pitch %d, %d elements, %d bytes", pitch, d.Len(), d.Size())
	}
	values := make([]T, w*h)
	for i := range values {
		values[i] = value(i)
	}
	there := ferry.Rect[T]{Memory: d, Width: w, Height: h, Pitch: pitch}
	check(t, ferry.CopyRect(s, there, ferry.Rect[T]{Memory: ferry.Pageable(values), Width: w, Height: h}))
	// the same elements as 3 layers of 3 rows
	back := make([]T, w*h)
	there.Height, there.Depth, there.Rows = 3, 3, 3
	check(t, ferry.CopyRect(s, ferry.Rect[T]{Memory: ferry.Pageable(back), Width: w, Height: 3, Depth: 3}, there))
	for i := range values {
		if back[i] != values[i] {
			t.Errorf("%T: element %d differs", values[0], i)
			break
		}
	}
	closeAll(t, d)
}

// TestHostFlags: Flags returns how the driver page-locked the memory, also of a range.
func TestHostFlags(t *testing.T) {
	g := openTest(t)
	for _, o := range []*ferry.HostOptions{nil, {Mapped: true}, {WriteCombined: true}, {Mapped: true, WriteCombined: true, NotPortable: true}} {
		h := must(ferry.AllocHost[byte](g, 5000, o))(t)
		for _, part := range []*ferry.Host[byte]{h, h.Range(4097, 5000)} {
			flags := must(part.Flags())(t)
			if want := o != nil && o.WriteCombined; flags&cu.MemHostAllocWriteCombined != 0 != want {
				t.Errorf("%+v: flags %v", o, flags)
			}
			if o != nil && o.Mapped && flags&cu.MemHostAllocDeviceMap == 0 {
				t.Errorf("%+v: flags %v", o, flags)
			}
		}
		closeAll(t, h)
		_, err := h.Flags()
		wantError(t, err, ferry.ErrClosed, "read flags")
	}
	empty := must(ferry.AllocHost[byte](g, 0, nil))(t)
	if flags := must(empty.Flags())(t); flags != 0 {
		t.Errorf("flags of an empty buffer are %v", flags)
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
	wantError(t, s.Launch(k, ferry.Cover(10, 32), h, uint64(10)), cu.ErrorInvalidValue, "parameter 0", "no address on the device", "Mapped")
	wantError(t, ferry.Fill(s, h, 1), cu.ErrorInvalidValue, "no address on the device")
	m := must(ferry.AllocHost[float32](g, 10, &ferry.HostOptions{Mapped: true}))(t)
	defer closeAll(t, m)
	clear(m.Slice())
	check(t, s.Launch(k, ferry.Cover(10, 32), m, uint64(10)))
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
	sample.SkipRace(t)
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
	p, err := bridge.PredictPin(g, 1<<20, &ferry.HostOptions{NUMANode: new(1023)})
	check(t, err)
	wantError(t, p.Err, cu.ErrorInvalidValue, "no NUMA node 1023")
}

// TestSoftNUMANode: each software GPU has the node that its profile names, or node 0, for
// buffers of all sizes. Others are refused with that node.
func TestSoftNUMANode(t *testing.T) {
	sample.SkipRace(t)
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
				p := must(bridge.PredictPin(g, n, &o))(t)
				check(t, p.Err)
				for _, other := range []int{node + 1, 99, 1 << 20} {
					o := ferry.HostOptions{NUMANode: &other, WriteCombined: combined}
					if _, err := ferry.AllocHost[byte](g, n, &o); n > 0 {
						want := fmt.Sprintf("no NUMA node %d (there are: %d)", other, node)
						wantError(t, err, cu.ErrorInvalidValue, want)
						p := must(bridge.PredictPin(g, n, &o))(t)
						wantError(t, p.Err, cu.ErrorInvalidValue, want)
					}
				}
			}
		}
		pool := must(ferry.NewPinnedPool(g, &ferry.PinnedPoolOptions{NUMANode: &node}))(t)
		h := must(fromPool[byte](pool, 5000))(t)
		closeAll(t, h, pool)
	}
}

// TestPredictPin: on the software GPU a prediction is within 5 % of the time that it takes.
// The prediction is a line through two trials; the curve of the profile is not a line.
func TestPredictPin(t *testing.T) {
	g, _ := openPinEngine(t)
	for _, o := range []*ferry.HostOptions{nil, {WriteCombined: true}} {
		p := must(bridge.PredictPin(g, 64<<20, o))(t)
		begin := g.Now()
		h := must(ferry.AllocHost[byte](g, 64<<20, o))(t)
		took := g.Now() - begin
		if p.Err != nil || p.Time <= 0 || g.Emulated() && (p.Time-took).Abs() > took/20 {
			t.Errorf("predicted %+v, took %v", p, took)
		}
		closeAll(t, h)
	}
	if p := must(bridge.PredictPin(g, 0, nil))(t); p.Err != nil || p.Time > time.Millisecond {
		t.Errorf("the prediction for no bytes is %+v", p)
	}
	for _, n := range []int{-1, math.MinInt} {
		_, err := bridge.PredictPin(g, n, nil)
		wantError(t, err, cu.ErrorInvalidValue, "cannot be negative")
	}
	_, err := bridge.PredictPin((*ferry.GPU)(nil), 1, nil)
	wantError(t, err, cu.ErrorInvalidValue, "no GPU given")
}

// TestHostMemoryBounds: the software GPU refuses page-locked memory that no machine has, and
// PredictPin says so before.
func TestHostMemoryBounds(t *testing.T) {
	for device, want := range map[string]string{"soft:h200": "h200 can page-lock 2", "soft:fermi-c2050": "fermi-c2050 can page-lock 24", "soft:wsl": "wsl can page-lock 768"} {
		g, err := ferry.Open(device)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range []*ferry.HostOptions{nil, {WriteCombined: true}} {
			check := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, cu.ErrorOutOfMemory) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "of host memory, of which") {
					t.Errorf("%s, %s, %+v: got %v, want %q", device, what, o, err, want)
				}
			}
			_, err := ferry.AllocHost[byte](g, 4<<40, o)
			check("AllocHost", err)
			if p, err := bridge.PredictPin(g, 4<<40, o); err != nil {
				t.Errorf("%s: %v", device, err)
			} else {
				check("PredictPin", p.Err)
			}
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
}

// books is what a program can read about the memory of a GPU.
type books struct {
	d       *fault.Driver
	g       *ferry.GPU
	s       *ferry.Stream
	current *ferry.MemPool
	pool    *ferry.MemPool
	pinned  *ferry.PinnedPool
	memory  []byte // ordinary
}

// openBooks opens a GPU whose nth call of the driver is refused. Its pools have used and
// unused memory.
func openBooks(t *testing.T, nth uint64) *books {
	t.Helper()
	d := fault.Wrap(softDriver(t, "h200", 1, softgpu.Eager), fault.Options{Nth: nth})
	b := &books{d: d, g: openDriver(t, d), memory: make([]byte, 3<<20)}
	b.s = must(ferry.NewStream(b.g, nil))(t)
	b.current = b.g.DefaultMemPool()
	b.pool = must(ferry.NewMemPool(b.g, &ferry.MemPoolOptions{Keep: 1 << 40}))(t)
	b.pinned = must(ferry.NewPinnedPool(b.g, nil))(t)
	for _, p := range []*ferry.MemPool{b.current, b.pool} {
		must(ferry.AllocAsync[byte](b.s, 1<<20, p))(t)
		closeAll(t, must(ferry.AllocAsync[byte](b.s, 40<<20, p))(t))
	}
	must(fromPool[byte](b.pinned, 4096))(t)
	check(t, b.s.Wait(t.Context()))
	return b
}

// read returns all counters as a text.
func (b *books) read(t *testing.T) string {
	t.Helper()
	free, total, err := b.g.MemInfo()
	check(t, err)
	pinned := must(b.pinned.Stats())(t)
	pinned.DriverCalls, pinned.DriverTime = 0, 0 // a call that fails is a call
	return fmt.Sprintf("%d of %d free, default pool %+v, pool %+v, pinned pool %+v, live: %s", free, total,
		must(b.current.Stats())(t), must(b.pool.Stats())(t), pinned, strings.Join(b.d.Live(), ", "))
}

// TestFailedAllocationsChangeNoCounter refuses each driver call of each function that
// allocates, one after the other. After the error no counter is as if memory was there.
func TestFailedAllocationsChangeNoCounter(t *testing.T) {
	sample.SkipRace(t)
	for what, alloc := range map[string]func(*books) error{
		"Alloc":              func(b *books) error { return last(ferry.Alloc[byte](b.g, 5<<20)) },
		"AllocPitched":       func(b *books) error { return last3(ferry.AllocPitched[[3]byte](b.g, 1000, 1000)) },
		"AllocVirtual":       func(b *books) error { return last(ferry.AllocVirtual[byte](b.g, 5<<20, nil)) },
		"AllocAsync":         func(b *books) error { return last(ferry.AllocAsync[byte](b.s, 50<<20, nil)) },
		"AllocAsync, a pool": func(b *books) error { return last(ferry.AllocAsync[byte](b.s, 50<<20, b.pool)) },
		"AllocManaged":       func(b *books) error { return last(ferry.AllocManaged[byte](b.g, 5<<20, nil)) },
		"AllocHost, small":   func(b *books) error { return last(ferry.AllocHost[byte](b.g, 100, nil)) },
		"AllocHost, large": func(b *books) error {
			return last(ferry.AllocHost[byte](b.g, 300<<20, &ferry.HostOptions{Mapped: true}))
		},
		"AllocHost, a pool": func(b *books) error {
			return last(fromPool[byte](b.pinned, 100<<20))
		},
		"Register": func(b *books) error {
			return last(ferry.Register(b.g, b.memory, &ferry.RegisterOptions{Mapped: true}))
		},
	} {
		t.Run(what, func(t *testing.T) {
			b := openBooks(t, 0)
			b.read(t)
			calls := b.d.Calls()
			check(t, alloc(b))
			refused := 0
			for nth := calls + 1; ; nth++ {
				b := openBooks(t, nth)
				before := b.read(t)
				if b.d.Calls() != calls {
					t.Fatalf("%d calls so far, %d in the run before", b.d.Calls(), calls)
				}
				err := alloc(b)
				if b.d.Failed() == "" {
					break // all its calls have been refused
				}
				refused++
				if err == nil { // it can do without that call
					continue
				}
				if after := b.read(t); after != before {
					t.Errorf("call %d of %s refused, and counters have changed:\nbefore %s\nafter  %s", nth-calls, what, before, after)
				}
			}
			if refused == 0 {
				t.Error("no call was refused")
			}
		})
	}
}
