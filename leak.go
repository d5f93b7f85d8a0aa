package ferry

import (
	"fmt"
	"iter"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
)

// LeaksVariable is the environment variable that, set to 1, reports leaks on
// standard error.
const LeaksVariable = "FERRY_LEAKS"

var leakReport atomic.Pointer[func(string)]

func init() {
	if os.Getenv(LeaksVariable) == "1" {
		OnLeak(func(text string) { fmt.Fprintln(os.Stderr, "ferry: "+text) })
	}
}

// OnLeak sets who is told when something made from now on, a buffer, stream,
// event, module or GPU, is collected as garbage without having been closed. The
// text says what it was and where it was made. nil, the default, tells nobody,
// and costs nothing. A leak is only reported: what leaked is never freed, as a
// slice of it may be in use.
//
// report is called on a goroutine of the runtime and must not block. OnLeak is
// safe for concurrent use.
func OnLeak(report func(text string)) {
	if report == nil {
		leakReport.Store(nil)
		return
	}
	leakReport.Store(&report)
}

// leak is what there is to tell of something that was not closed.
type leak struct {
	what  string
	stack []uintptr
}

// watchLeak reports p if it becomes garbage before the cleanup is stopped.
func watchLeak[T any](p *T, what func() string) runtime.Cleanup {
	if leakReport.Load() == nil {
		return runtime.Cleanup{}
	}
	stack := make([]uintptr, 16)
	stack = stack[:runtime.Callers(2, stack)]
	return runtime.AddCleanup(p, tellLeak, leak{what(), stack})
}

// tellLeak reports, unless reporting was turned off meanwhile.
func tellLeak(l leak) {
	report := leakReport.Load()
	if report == nil {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "leaked: %s was not closed; made by", l.what)
	for f := range foreignFrames(l.stack) {
		fmt.Fprintf(&b, "\n\t%s\n\t\t%s:%d", f.Function, f.File, f.Line)
	}
	(*report)(b.String())
}

// foreignFrames is the part of a stack that is neither Ferry's nor the runtime's.
func foreignFrames(stack []uintptr) iter.Seq[runtime.Frame] {
	return func(yield func(runtime.Frame) bool) {
		frames := runtime.CallersFrames(stack)
		for more := true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			test := strings.HasSuffix(f.File, "_test.go")
			own := !test && (strings.HasPrefix(f.Function, ownPrefix) || strings.HasPrefix(f.Function, ownPipelinePrefix)) || strings.HasPrefix(f.Function, ownPinPrefix)
			if f.Function == "" || own || strings.HasPrefix(f.Function, "runtime.") {
				continue
			}
			if !yield(f) {
				return
			}
		}
	}
}

// What the names of Ferry's functions begin with, in the packages from which
// memory comes.
const (
	ownPrefix         = "github.com/ferrygpu/ferry."
	ownPipelinePrefix = "github.com/ferrygpu/ferry/pipeline."
	ownPinPrefix      = "github.com/ferrygpu/ferry/internal/pin."
)
