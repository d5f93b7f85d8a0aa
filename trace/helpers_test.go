package trace_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/kernels"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
	"github.com/ferrygpu/ferry/trace"
)

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// soft opens a software GPU.
func soft(t testing.TB, name string, devices int) *softgpu.Driver {
	t.Helper()
	p := must(profile.Named(name))(t)
	return must(softgpu.Open(softgpu.Options{Profile: p, Devices: devices, Schedule: softgpu.Eager}))(t)
}

// bare is a software GPU that does not report its operations, as hardware does not.
type bare struct{ cu.Driver }

func (b bare) Profile() string    { return cu.AsEmulated(b.Driver).Profile() }
func (b bare) Now() time.Duration { return cu.AsEmulated(b.Driver).Now() }
func (b bare) HostAccess(p cu.HostPtr, bytes uintptr, write bool) error {
	return cu.AsEmulated(b.Driver).HostAccess(p, bytes, write)
}

// recorder starts a recording in a new file.
func recorder(t testing.TB) (r *trace.Recorder, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "recording.json")
	r = must(trace.Start(&trace.Options{Path: path}))(t)
	t.Cleanup(func() { _ = r.Close() })
	return r, path
}

// ended closes a recorder and reads its recording.
func ended(t testing.TB, r *trace.Recorder, path string) *trace.Recording {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	rec := must(trace.ReadFile(path))(t)
	if rec.Cut != "" {
		t.Errorf("the recording is cut: %s", rec.Cut)
	}
	return rec
}

// open opens device 0 of a driver.
func open(t testing.TB, d cu.Driver) *ferry.GPU {
	t.Helper()
	return must(ferry.OpenDriver(d, 0))(t)
}

const elements = 1 << 16

// addVectors adds vectors on g: two copies in, a kernel, a copy out, on one stream.
func addVectors(t testing.TB, g *ferry.GPU) {
	t.Helper()
	s := must(ferry.NewStream(g, nil))(t)
	defer s.Close()
	module := must(ferry.Load(g, []byte(kernels.PTX), nil))(t)
	defer module.Close()
	add := must(module.Kernel("vector_add"))(t)
	a, b := must(ferry.AllocHost[float32](g, elements, nil))(t), make([]float32, elements)
	defer a.Close()
	for i := range a.Slice() {
		a.Slice()[i], b[i] = float32(i), 1
	}
	var on [3]*ferry.Device[float32]
	for i := range on {
		on[i] = must(ferry.Alloc[float32](g, elements))(t)
		defer on[i].Close()
	}
	check(t, ferry.Copy(s, on[0], a))
	check(t, ferry.Copy(s, on[1], ferry.Pageable(b)))
	check(t, s.Launch(add, ferry.Cover(elements, 256), on[0], on[1], on[2], uint64(elements)))
	check(t, ferry.Copy(s, a, on[2]))
	check(t, s.Wait(t.Context()))
	if got := a.Slice()[elements-1]; got != elements {
		t.Errorf("the last sum is %v, want %v", got, elements)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
