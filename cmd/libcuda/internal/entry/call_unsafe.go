package entry

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ferrygpu/ferry/cmd/libcuda/internal/lines"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/callsite"
	"github.com/ferrygpu/ferry/internal/stdout"
	"github.com/ferrygpu/ferry/internal/thread"
)

// Unsafe: Functions and data of the program are named by their addresses alone, and only C uses them.

// call is a function that C can call.
type call struct {
	name string
	run  func(d cu.Driver, f *Frame) error
}

// Host is the program, as far as only C can reach it.
type Host interface {
	// Thread returns the number of the calling thread. No two threads of a process have the
	// same.
	Thread() uint64
	// Caller returns the return address of the call that this thread serves, 0 if it serves none.
	Caller() uintptr
	// HostFunc calls a function of cuLaunchHostFunc. Data of the program are numbers in Go: they need not
	// be addresses.
	HostFunc(fn, data uintptr)
	// StreamCallback calls a function of cuStreamAddCallback.
	StreamCallback(fn, stream uintptr, status uint32, data uintptr)
	// BlockSize calls a function that says how much dynamic shared memory a block needs.
	BlockSize(fn unsafe.Pointer, block int32) uintptr
	// Print writes a text to the program's standard output, after what the program has written.
	Print(text string)
	// Environment returns the environment of the program as it is now, "NAME=VALUE".
	Environment() []string
}

var host Host

// Use says how to reach the program. It must be called before Call.
func Use(h Host) {
	host = h
	thread.Use(h.Thread)
	stdout.Use(h.Print)
	callsite.SetCaller(h.Caller, new(lines.Process).Place)
}

// driver opens the driver once. The process keeps it.
var driver = sync.OnceValues(func() (*opened, error) {
	d, end, err := open()
	o := &opened{Driver: d, end: end}
	if err == nil {
		ready.Store(o)
	}
	return o, err
})

// ready is the driver once it is open. A call finds it faster here.
var ready atomic.Pointer[opened]

type opened struct {
	cu.Driver
	end func()

	mu   sync.Mutex
	lent cu.Context // see lend
}

// End closes the driver: recordings and reports are complete then.
func End() {
	returned := false
	defer func() {
		if !returned {
			survived("the end of the process", recover())
		}
	}()
	if d, err := driver(); err == nil {
		d.takeBack()
		d.end()
	}
	returned = true
}

// Call makes the call of a frame and returns its CUresult.
func Call(f *Frame) (code int32) {
	if f.Call >= uint64(len(calls)) {
		return int32(cu.ErrorNotSupported)
	}
	c := &calls[f.Call]
	debug.SetPanicOnFault(true) // the goroutine belongs to this call
	returned := false
	defer func() {
		if !returned {
			code = survived(c.name, recover())
		}
	}()
	d, err := ready.Load(), error(nil)
	if d == nil {
		d, err = driver()
	}
	if err == nil && f.Ctx == 0 {
		err = d.findContext(c, f)
	}
	if err == nil {
		err = c.run(d.Driver, f)
	}
	if err != nil {
		code = resultOf(d, f, err)
	}
	returned = true
	return code
}

// resultOf returns the CUresult of an error.
func resultOf(d *opened, f *Frame, err error) int32 {
	logError(calls[f.Call].name, err)
	code, ok := err.(cu.Result)
	if !ok {
		if code, ok = errors.AsType[cu.Result](err); !ok {
			fmt.Fprintf(os.Stderr, "ferry: %s: %v\n", calls[f.Call].name, err)
			code = cu.ErrorUnknown
		}
	}
	if code == cu.ErrorInvalidContext && f.Ctx != 0 {
		// The current context may have been destroyed by another thread.
		if _, err := d.CtxGetFlags(cu.Context(f.Ctx)); errors.Is(err, cu.ErrorInvalidContext) {
			code = cu.ErrorContextIsDestroyed
		}
	}
	return int32(code)
}

// survived turns a panic into an error of the call, so that the program goes on. A fault is a wrong
// address of the program's.
func survived(name string, v any) int32 {
	if fault, ok := v.(interface {
		runtime.Error
		Addr() uintptr
	}); ok {
		addr := fault.Addr()
		if addr < 2*page {
			addr -= page // see isSmall
		}
		fmt.Fprintf(os.Stderr, "ferry: %s: CUDA_ERROR_INVALID_VALUE: host address %#x cannot be used\n", name, addr)
		return int32(cu.ErrorInvalidValue)
	}
	fmt.Fprintf(os.Stderr, "ferry: BUG: %s: %v\n%s", name, v, debug.Stack())
	return int32(cu.ErrorUnknown)
}
