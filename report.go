package ferry

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/callsite"
	"github.com/ferrygpu/ferry/internal/kernelargs"
)

// LeaksVariable is the environment variable that makes Ferry report leaks on standard
// error when it is 1: see [OnLeak].
const LeaksVariable = "FERRY_LEAKS"

var leakReport atomic.Pointer[func(string)]

func init() {
	if os.Getenv(LeaksVariable) == "1" {
		OnLeak(func(text string) { fmt.Fprintln(os.Stderr, "ferry: "+text) })
	}
}

// OnLeak sets the function that reports leaks. A leak is a buffer, stream, event, module,
// graph, [PinnedPool], [MemPool] or GPU that the garbage collector finds unused although it
// was not closed. Only objects made after the call are watched. text names the object and the
// call stack that made it. With nil, the default, leaks are not reported, and watching
// costs nothing. A leaked object is reported but never freed, because a slice of its
// memory may still be in use.
//
// report runs on a goroutine of its own, several at the same time if several leaks are found. A
// panic of report ends the process. OnLeak is safe for concurrent use.
func OnLeak(report func(text string)) {
	if report == nil {
		leakReport.Store(nil)
		return
	}
	leakReport.Store(&report)
}

// leak is what the report about an object says, if it is never closed.
type leak struct {
	what  string
	stack []uintptr
}

// watchLeak reports p if the garbage collector finds it unused before the cleanup is
// stopped.
func watchLeak[T any](p *T, what func() string) runtime.Cleanup {
	if leakReport.Load() == nil {
		return runtime.Cleanup{}
	}
	stack := make([]uintptr, 16)
	stack = stack[:runtime.Callers(2, stack)]
	return runtime.AddCleanup(p, reportLeak, leak{what(), stack})
}

// reportLeak reports a leak, unless reports were disabled in the meantime.
func reportLeak(l leak) {
	report := leakReport.Load()
	if report == nil {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "leaked: %s was not closed; made by", l.what)
	for f := range callsite.Foreign(l.stack) {
		fmt.Fprintf(&b, "\n\t%s\n\t\t%s:%d", f.Function, f.File, f.Line)
	}
	go (*report)(b.String()) // the runtime's goroutine runs all cleanups of the process: report must not end it
}

// hostWatcher is a driver that checks what the host uses, such as that of package check.
type hostWatcher interface {
	Issued() uint64
	WatchHost(p cu.HostPtr, bytes uintptr, write bool, issued uint64)
	WatchType(kernel string, param int, want, buffer string)
}

// watchType reports a buffer whose elements have another size than those that a kernel's
// mangled name says.
func watchType(w hostWatcher, kernel string, param int, buffer string) {
	if want := kernelargs.Mismatch(kernel, param, buffer); want != "" {
		w.WatchType(kernel, param, want, buffer)
	}
}

// watcherIn returns the hostWatcher in d, nil if there is none.
func watcherIn(d cu.Driver) hostWatcher {
	w, _ := cu.As[hostWatcher](d)
	return w
}
