//go:build (amd64 || arm64) && !android && !faketime && !ferrysoft

package libcuda

import (
	"bytes"
	"os"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/dl"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
)

// openLibc opens the C library.
func openLibc() (library, error) {
	l, err := (&dl.Search{Names: []string{"libc.so.6"}, LoaderFirst: true}).Find()
	if err != nil {
		return library{}, err
	}
	return library{path: l.Path(), symbol: l.Symbol}, nil
}

// libcDriver makes a driver whose functions are functions of the C library, by symbol.
// All others, and cuCtxSetCurrent, are isalpha, which returns 0 for the small numbers
// that the tests pass as the first argument.
func libcDriver(tb testing.TB, functions map[string]string) *Driver {
	tb.Helper()
	libc, err := openLibc()
	if err != nil {
		tb.Fatal(err)
	}
	return &Driver{lib: library{path: libc.path, symbol: func(name string) (uintptr, error) {
		if name == "cuGetProcAddress" || name == "cuGetProcAddress_v2" || name == "cuLogsDumpToMemory" {
			return 0, os.ErrNotExist
		}
		if function := functions[name]; function != "" {
			return libc.symbol(function)
		}
		return libc.symbol("isalpha")
	}}}
}

// TestResultIs32Bits calls a function that returns an address instead of a result.
func TestResultIs32Bits(t *testing.T) {
	d := libcDriver(t, map[string]string{"cuMemcpyDtoH_v2": "memcpy", "cuCtxSynchronize": "getpid"})
	if got, want := d.CtxSynchronize(1), cu.Result(os.Getpid()); got != want {
		t.Errorf("result %v, want %v", got, want)
	}
	src, dst := bytes.Repeat([]byte("ferry"), 1000), make([]byte, 5000)
	err := d.MemcpyDtoH(1, cu.HostPtr(&dst[0]), cu.DevicePtr(uintptr(unsafe.Pointer(&src[0]))), 5000)
	if want := cu.Result(uint32(uintptr(unsafe.Pointer(&dst[0])))); err != want {
		t.Errorf("result %v, want the lower half of memcpy's", err)
	}
	if !bytes.Equal(src, dst) {
		t.Error("memcpy did not copy")
	}
}

// TestGrowingStacks makes calls from goroutines whose stacks move all the time. Results
// and arguments are Go variables.
func TestGrowingStacks(t *testing.T) {
	d := libcDriver(t, map[string]string{"cuMemcpyDtoH_v2": "memcpy", "cuCtxGetLimit": "time"})
	start := uintptr(time.Now().Unix())
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for depth := range 300 {
				if !callAtDepth(d, depth, g, start) {
					t.Errorf("wrong answer at depth %d", depth)
				}
			}
		})
	}
	wg.Wait()
}

func callAtDepth(d *Driver, depth, i int, start uintptr) bool {
	if depth > 0 {
		var pad [512]byte
		pad[depth%len(pad)] = 1
		return callAtDepth(d, depth-1, i, start) && pad[depth%len(pad)] == 1
	}
	var dst byte
	_ = d.MemcpyDtoH(1, cu.HostPtr(&dst), cu.DevicePtr(uintptr(unsafe.Pointer(&letters[i]))), 1)
	seconds, _ := d.CtxGetLimit(1, 0)
	return dst == letters[i] && seconds+1-start < 600 // time of libc can lag behind Go's by a tick
}

var letters = [8]byte([]byte("abcdefgh"))

// hotCalls lists the calls that programs make most often.
var hotCalls = []struct {
	name string
	call func(d *Driver) error
}{
	{"EventRecord", func(d *Driver) error { return d.EventRecord(1, 2, 3) }},
	{"EventQuery", func(d *Driver) error { return d.EventQuery(1, 2) }},
	{"EventSynchronize", func(d *Driver) error { return d.EventSynchronize(1, 2) }},
	{"StreamQuery", func(d *Driver) error { return d.StreamQuery(1, 2) }},
	{"StreamSynchronize", func(d *Driver) error { return d.StreamSynchronize(1, 2) }},
	{"StreamWaitEvent", func(d *Driver) error { return d.StreamWaitEvent(1, 2, 3, 0) }},
	{"MemcpyAsync", func(d *Driver) error { return d.MemcpyAsync(1, 2, 3, 4, 5) }},
	{"MemcpyHtoDAsync", func(d *Driver) error { return d.MemcpyHtoDAsync(1, 2, cu.HostPtr(&hotBytes[0]), 64, 5) }},
	{"MemcpyDtoHAsync", func(d *Driver) error { return d.MemcpyDtoHAsync(1, cu.HostPtr(&hotBytes[0]), 2, 64, 5) }},
	{"MemcpyDtoDAsync", func(d *Driver) error { return d.MemcpyDtoDAsync(1, 2, 3, 4, 5) }},
	{"MemsetD8Async", func(d *Driver) error { return d.MemsetD8Async(1, 2, 3, 4, 5) }},
	{"GraphLaunch", func(d *Driver) error { return d.GraphLaunch(1, 2, 3) }},
	{"ThreadExchangeStreamCaptureMode", func(d *Driver) error {
		_, err := d.ThreadExchangeStreamCaptureMode(cu.StreamCaptureModeRelaxed)
		return err
	}},
	{"LaunchKernel", func(d *Driver) error {
		return d.LaunchKernel(1, 2, cu.Dim3{X: 1, Y: 1, Z: 1}, cu.Dim3{X: 1, Y: 1, Z: 1}, 0, 3, hotBytes[:24])
	}},
}

var hotBytes = make([]byte, 64)

func TestHotCallsDoNotAllocate(t *testing.T) {
	d := libcDriver(t, map[string]string{"cuMemcpyDtoHAsync_v2": "sched_yield", "cuThreadExchangeStreamCaptureMode": "sched_yield"})
	for _, c := range hotCalls {
		if n := testing.AllocsPerRun(200, func() {
			if err := c.call(d); err != nil {
				t.Fatal(err)
			}
		}); n != 0 && !racebuild.Instrumented {
			t.Errorf("%s allocates %v times", c.name, n)
		}
	}
}

// TestPollingDoesNotAllocate polls with CUDA_ERROR_NOT_READY as the result.
func TestPollingDoesNotAllocate(t *testing.T) {
	var err error
	if n := testing.AllocsPerRun(200, func() { err = result(cu.ErrorNotReady) }); n != 0 || err != cu.ErrorNotReady {
		t.Errorf("%v, %v allocations", err, n)
	}
}

// BenchmarkCall measures the way to C and back, without a context and with one.
func BenchmarkCall(b *testing.B) {
	b.Run("call=Nothing", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			Nothing()
		}
	})
	d := libcDriver(b, nil)
	for _, c := range hotCalls {
		if c.name != "EventRecord" && c.name != "LaunchKernel" {
			continue
		}
		b.Run("call="+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = c.call(d)
			}
		})
	}
}
