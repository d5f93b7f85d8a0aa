package dlpack_test

import (
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/dlpack"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/softgpu"
)

// Types of elements of the tests, as DLPack has them.
const (
	float32Type dlpack.Type = 2 | 32<<8 | 1<<16
	int64Type   dlpack.Type = 64<<8 | 1<<16
)

// Places of memory, as DLPack has them.
const (
	onCPU     = 1
	onCUDA    = 2
	onHost    = 3
	onManaged = 13
)

// counting counts what its owner has freed.
type counting struct {
	cu.Driver
	frees atomic.Int64
}

func (d *counting) Unwrap() cu.Driver { return d.Driver }

func (d *counting) MemFree(ctx cu.Context, p cu.DevicePtr) error {
	d.frees.Add(1)
	return d.Driver.MemFree(ctx, p)
}

func (d *counting) MemFreeHost(ctx cu.Context, p cu.HostPtr) error {
	d.frees.Add(1)
	return d.Driver.MemFreeHost(ctx, p)
}

func (d *counting) MemFreeAsync(ctx cu.Context, p cu.DevicePtr, s cu.Stream) error {
	d.frees.Add(1)
	return d.Driver.MemFreeAsync(ctx, p, s)
}

func (d *counting) MemUnmap(ctx cu.Context, p cu.DevicePtr, n uintptr) error {
	d.frees.Add(1)
	return d.Driver.MemUnmap(ctx, p, n)
}

func (d *counting) MemHostUnregister(ctx cu.Context, p cu.HostPtr) error {
	d.frees.Add(1)
	return d.Driver.MemHostUnregister(ctx, p)
}

// openTest opens the device to test: FERRY_DEVICE, else the software GPU. With FERRY_REQUIRE_GPU=1
// it is a real GPU or a failure.
func openTest(t testing.TB) (*ferry.GPU, *counting) {
	t.Helper()
	d := &counting{}
	switch name := os.Getenv(ferry.SpecVariable); {
	case os.Getenv(gputest.RequireVariable) == "1" || name == "cuda":
		d.Driver = gputest.Driver(t)
	case name == "":
		d.Driver = must(softgpu.Open(softgpu.Options{Profile: gputest.H200(t), Devices: 2}))(t)
	default:
		t.Skip("the test counts calls of a driver that it opens itself")
	}
	g := must(ferry.OpenDriver(d, 0))(t)
	t.Cleanup(func() { check(t, g.Close()) })
	return g, d
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		check(t, err)
		return v
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually polls until ok is true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not %s after 30 s", what)
		}
	}
}

// rig is a stream with the kernel that adds 1.
type rig struct {
	t         testing.TB
	g         *ferry.GPU
	s         *ferry.Stream
	increment *ferry.Kernel
}

func newRig(t testing.TB, g *ferry.GPU) *rig {
	t.Helper()
	r := &rig{t: t, g: g, s: must(ferry.NewStream(g, nil))(t)}
	m := must(ferry.Load(g, []byte(kernels.PTX), nil))(t)
	r.increment = must(m.Kernel("increment"))(t)
	t.Cleanup(func() { gputest.CloseAll(t, m, r.s) })
	return r
}

// add1 runs the kernel on memory, and waits for it.
func (r *rig) add1(m ferry.Memory[float32]) {
	r.t.Helper()
	check(r.t, r.s.Launch(r.increment, ferry.Cover(m.Len(), 256), m, uint64(m.Len())))
	check(r.t, r.s.Wait(r.t.Context()))
}

// fill writes i at element i.
func (r *rig) fill(m ferry.Memory[float32]) {
	r.t.Helper()
	x := make([]float32, m.Len())
	for i := range x {
		x[i] = float32(i)
	}
	check(r.t, ferry.Copy(r.s, m, ferry.Pageable(x)))
	check(r.t, r.s.Wait(r.t.Context()))
}

// want checks that element i is i*a + b.
func (r *rig) want(what string, m ferry.Memory[float32], a, b float32) {
	r.t.Helper()
	x := make([]float32, m.Len())
	check(r.t, ferry.Copy(r.s, ferry.Pageable(x), m))
	check(r.t, r.s.Wait(r.t.Context()))
	wantNumbers(r.t, what, x, a, b)
}

func wantNumbers(t testing.TB, what string, x []float32, a, b float32) {
	t.Helper()
	for i, got := range x {
		if want := float32(i)*a + b; got != want {
			t.Fatalf("%s: element %d of %d is %v, want %v", what, i, len(x), got, want)
		}
	}
}
