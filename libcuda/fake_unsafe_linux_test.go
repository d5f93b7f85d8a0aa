//go:build (amd64 || arm64) && !android && !faketime && !ferrysoft

package libcuda

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/ferrygpu/ferry/cu"
)

// fakeCUDA is a fake driver library. Its C functions are Go callbacks, so that a call
// goes all the way through C and back.
type fakeCUDA struct {
	mu       sync.Mutex
	calls    []fakeCall
	asked    map[string]int // versions that cuGetProcAddress was asked for
	lacks    map[string]bool
	handlers map[string]func(args []uintptr) cu.Result
}

// fakeCall is a call that arrived. Arguments beyond those of the function are noise.
type fakeCall struct {
	symbol string
	args   []uintptr
}

// Callbacks are never freed, so all tests share one for each symbol.
var fakes struct {
	mu      sync.Mutex
	current *fakeCUDA
	procs   map[string]uintptr
}

// newFake makes a driver on a fake library that has every function. Tests that use it
// do not run in parallel.
func newFake(t *testing.T) (*fakeCUDA, *Driver) {
	t.Helper()
	f := &fakeCUDA{
		asked:    make(map[string]int),
		lacks:    map[string]bool{"cuLogsDumpToMemory": true}, // newFakeLog has it
		handlers: make(map[string]func([]uintptr) cu.Result),
	}
	f.on("cuDriverGetVersion", func(a []uintptr) cu.Result {
		store(a[0], uint32(12040))
		return cu.Success
	})
	f.on("cuGetProcAddress_v2", func(a []uintptr) cu.Result {
		name := text(a[0])
		f.mu.Lock()
		f.asked[name] = int(a[2])
		f.mu.Unlock()
		if f.lacks[name] {
			store(a[1], uintptr(0))
			return cu.Success
		}
		store(a[1], fakeProc(name))
		return cu.Success
	})
	fakes.mu.Lock()
	fakes.current = f
	fakes.mu.Unlock()
	d := newDriver(f.library())
	f.calls = nil
	return f, d
}

func (f *fakeCUDA) on(symbol string, handler func(args []uintptr) cu.Result) {
	f.handlers[symbol] = handler
}

// library exports every symbol that is not among those that f lacks.
func (f *fakeCUDA) library() library {
	return library{path: "/fake/libcuda.so.1", symbol: func(name string) (uintptr, error) {
		if f.lacks[name] {
			return 0, purego.Dlerror{}
		}
		return fakeProc(name), nil
	}}
}

// take returns the calls since the last take, without those of cuGetProcAddress.
func (f *fakeCUDA) take() []fakeCall {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := slices.DeleteFunc(f.calls, func(c fakeCall) bool { return c.symbol == "cuGetProcAddress_v2" })
	f.calls = nil
	return calls
}

func (f *fakeCUDA) arrive(symbol string, args []uintptr) uintptr {
	f.mu.Lock()
	f.calls = append(f.calls, fakeCall{symbol, args})
	handler := f.handlers[symbol]
	f.mu.Unlock()
	code := cu.Success
	if handler != nil {
		code = handler(args)
	}
	return uintptr(code) | 0xdead<<32 // only the lower 32 bits are the result
}

// fakeProc returns the address of the C function of a symbol.
func fakeProc(symbol string) uintptr {
	fakes.mu.Lock()
	defer fakes.mu.Unlock()
	if fakes.procs == nil {
		fakes.procs = make(map[string]uintptr)
	}
	fn := fakes.procs[symbol]
	if fn == 0 {
		fn = purego.NewCallback(func(a, b, c, d, e, f, g, h, i, j, k, l, m, n uintptr) uintptr {
			fakes.mu.Lock()
			current := fakes.current
			fakes.mu.Unlock()
			args := []uintptr{a, b, c, d, e, f, g, h, i, j, k, l, m, n}
			if !strings.HasPrefix(symbol, "cuIpcOpen") { // whose handle is on the stack
				args = args[:maxArgs]
			}
			return current.arrive(symbol, args)
		})
		fakes.procs[symbol] = fn
	}
	return fn
}

// store writes through an address that is a number, as C does.
func store[T any](addr uintptr, value T) { *at[T](addr) = value }

// at converts a number to a pointer. The detour is for go vet, which cannot know that
// the caller of the C function keeps the memory alive.
func at[T any](addr uintptr) *T { return *(**T)(unsafe.Pointer(&addr)) }

// text returns the C string at an address.
func text(addr uintptr) string {
	var b []byte
	for ; *at[byte](addr) != 0; addr++ {
		b = append(b, *at[byte](addr))
	}
	return string(b)
}
