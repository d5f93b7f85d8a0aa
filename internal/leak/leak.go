package leak

import (
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/ferrygpu/ferry/internal/callsite"
	"github.com/ferrygpu/ferry/internal/oplog"
)

var reporter atomic.Pointer[func(string)]

// SetReporter sets the function that reports leaks. With nil, the default, nothing is
// watched. A report runs on a goroutine of its own.
func SetReporter(report func(text string)) {
	if report == nil {
		reporter.Store(nil)
		return
	}
	reporter.Store(&report)
}

// Watching reports whether leaks are reported, or logged.
func Watching() bool { return reporter.Load() != nil || oplog.On() }

// leaked is what the report about an object says, if it is never closed.
type leaked struct {
	what  string
	stack []uintptr
}

// Watch reports p if the garbage collector finds it unused before the caller stops the cleanup
// that Watch returns. The function what describes p. Watch calls it at once and does not keep
// it, because it refers to p.
func Watch[T any](p *T, what func() string) runtime.Cleanup {
	if !Watching() {
		return runtime.Cleanup{}
	}
	stack := make([]uintptr, 16)
	stack = stack[:runtime.Callers(2, stack)]
	return runtime.AddCleanup(p, tell, leaked{what(), stack})
}

// tell reports a leak, unless reports were disabled in the meantime.
func tell(l leaked) {
	oplog.SayAt(l.stack, slog.LevelWarn, oplog.Leak, "", slog.String("object", l.what))
	report := reporter.Load()
	if report == nil {
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "leaked: %s was not closed; made by", l.what)
	for f := range callsite.Foreign(l.stack) {
		fmt.Fprintf(&b, "\n\t%s in %s", callsite.Line(f.File, f.Line), f.Function)
	}
	go (*report)(b.String()) // the runtime's goroutine runs all cleanups of the process: report must not end it
}
