package ferry_test

import (
	"runtime"
	"testing"
	"weak"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// numbers returns a slice of from, from+1, ...
func numbers(n int, from float32) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = from + float32(i)
	}
	return s
}

// TestLaunchPageable: where kernels have access to pageable memory, a slice is an argument
// of a launch, whole, in part, in a batch, and as a slice of a buffer's memory.
func TestLaunchPageable(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the software GPU finds ordinary memory only on Linux")
	}
	const n = 3001
	for _, schedule := range []softgpu.Schedule{softgpu.Eager, softgpu.Lazy, softgpu.Random} {
		g := openSoft(t, "gh200", schedule)
		s := must(ferry.NewStream(g, nil))(t)
		m, k := load(t, g, "increment")
		defer closeAll(t, m, s)
		words := numbers(n, 1)
		all := ferry.Pageable(words)
		check(t, s.Launch(k, ferry.Grid(n, 256), all, uint64(n)))
		check(t, s.Launch(k, ferry.Grid(10, 256), all.Range(100, 110), uint64(10)))
		check(t, s.Launch(k, ferry.Grid(1, 256), all.Range(5, 5), uint64(0)))
		var b ferry.Batch
		check(t, b.Launch(k, ferry.Grid(n, 256), all, uint64(n)))
		for range 2 {
			check(t, s.Submit(&b))
		}
		check(t, s.Wait(t.Context()))
		for i, got := range words {
			want := float32(i + 4)
			if i >= 100 && i < 110 {
				want++
			}
			if got != want {
				t.Fatalf("%v: element %d is %v, want %v", schedule, i, got, want)
			}
		}
	}
}

// TestLaunchPageableOfBuffer: a slice of registered memory is in flight on its buffer.
func TestLaunchPageableOfBuffer(t *testing.T) {
	g := openSoft(t, "gh200", softgpu.Eager)
	s := must(ferry.NewStream(g, nil))(t)
	m, k := load(t, g, "increment")
	words := numbers(4096, 1)
	for name, part := range map[string][]float32{"all": words, "across its edge": words[:4000]} {
		h := must(ferry.Register(g, part[:3000], nil))(t)
		open := gate(t, s)
		check(t, s.Launch(k, ferry.Grid(len(part), 256), ferry.Pageable(part), uint64(len(part))))
		waits(t, name+": Slice", open, func() { h.Slice() })
		closeAll(t, h)
	}
	check(t, s.Wait(t.Context()))
	if words[2999] != 3002 {
		t.Errorf("element 2999 is %v", words[2999])
	}
	closeAll(t, m, s)
}

// TestLaunchPageableKeepsSlice: a slice stays alive until the launch that uses it is done,
// and not longer.
func TestLaunchPageableKeepsSlice(t *testing.T) {
	g := openSoft(t, "gh200", softgpu.Eager)
	s := must(ferry.NewStream(g, nil))(t)
	m, k := load(t, g, "increment")
	open := gate(t, s)
	pointer := func() weak.Pointer[float32] {
		words := numbers(1<<16, 1)
		check(t, s.Launch(k, ferry.Grid(len(words), 256), ferry.Pageable(words), uint64(len(words))))
		return weak.Make(&words[0])
	}()
	check(t, ferry.Fill(s, must(ferry.Alloc[byte](g, 8))(t), 0)) // the stream's own memory has other arguments now
	for range 5 {
		runtime.GC()
	}
	if pointer.Value() == nil {
		t.Error("the slice was collected while the launch was in flight")
	}
	open()
	check(t, s.Wait(t.Context()))
	eventually(t, "collected", func() bool { runtime.GC(); return pointer.Value() == nil })
	closeAll(t, m, s)
}

// TestLaunchPageableRefused: an error says why a kernel cannot use a slice.
func TestLaunchPageableRefused(t *testing.T) {
	for name, part := range map[string]string{"h200": "CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS is 0", "gh200": "a graph cannot keep"} {
		g := openSoft(t, name, softgpu.Eager)
		s := must(ferry.NewStream(g, nil))(t)
		m, k := load(t, g, "increment")
		launch := func(s *ferry.Stream) error {
			return s.Launch(k, ferry.Grid(8, 8), ferry.Pageable(make([]float32, 8)), uint64(8))
		}
		if name == "h200" {
			wantError(t, launch(s), cu.ErrorInvalidValue, part, "parameter 0", "Register")
		} else {
			_, err := s.Capture(launch)
			wantError(t, err, cu.ErrorStreamCaptureUnsupported, part, "parameter 0", "Register")
		}
		closeAll(t, m, s)
	}
}
