package ferry

import (
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/hint"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/kernelargs"
	"github.com/ferrygpu/ferry/internal/leak"
	"github.com/ferrygpu/ferry/internal/oplog"
)

// LeaksVariable is the environment variable that makes Ferry report leaks on standard
// error when it is 1: see [OnLeak].
const LeaksVariable = "FERRY_LEAKS"

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
func OnLeak(report func(text string)) { leak.SetReporter(report) }

// Log sets a logger for events that an operator should know. It is for the whole process. nil, the
// default, ends it, and then each event costs one atomic load. The messages are constant:
//
//	message                                attributes
//	slow page-locking                      bytes, duration, gpu
//	fallback                               reason, bytes, gpu
//	copy waits for pageable memory         bytes, gpu
//	leak                                   object
//	limit of page-locked memory reached    reason, bytes, gpu
//
// Each record also has place, the line of the program such as "main.go:62", and count. Of the events
// with the same message, reason and place, the first is logged, and then the 10th, the 100th and so on,
// with the number of them in count. So no hot path fills a log.
//
// Page-locking is slow if it takes more than 100 ms, or 1 MiB and more take longer than at 500 MB/s. A
// fallback is a copy that the driver makes because the staging ring has no slot, memory that the driver
// page-locks because the device refuses to register it, and small pages instead of huge ones. A copy
// waits for pageable memory where [Copy] or [CopyAll] would return at once for page-locked memory: its
// level is slog.LevelInfo, that of the others slog.LevelWarn. A leak is as for [OnLeak]: objects
// made after the call of Log are watched.
//
// The handler runs on a goroutine of its own, so a record can come late, and records in another order.
// A panic of it ends the process. Log is safe for concurrent use.
func Log(l *slog.Logger) { oplog.Set(l) }

// hostWatcher is a driver that checks what the host uses, such as that of package check.
type hostWatcher interface {
	Issued() uint64
	WatchHost(p cu.HostPtr, bytes uintptr, write bool, issued uint64)
	WatchType(kernel string, param int, want, buffer string)
	// WatchWritten says that a library writes memory, by calls that the driver does not see.
	WatchWritten(p cu.DevicePtr)
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

// slowClose is how long a Close waits before it says so.
const slowClose = time.Second

// sayClose prints that a Close waits. Tests replace it.
var sayClose atomic.Pointer[func(text string)]

// sayIfBusy is sayIfSlow, or returns nil at once if no operation is in flight: none that
// tracker knows, and none in a stream of the GPU, for which the driver may wait, too.
func sayIfBusy(g *GPU, closed fmt.Stringer, tracker *inflight.Tracker) *time.Timer {
	for range tracker.Pending(inflight.Write) {
		return sayIfSlow(g, closed)
	}
	if g.idle() {
		return nil
	}
	return sayIfSlow(g, closed)
}

// sayIfSlow says once in the process that a Close waits, and for what, unless the timer that
// it returns is stopped before slowClose has passed.
func sayIfSlow(g *GPU, closed fmt.Stringer) *time.Timer {
	return time.AfterFunc(slowClose, func() {
		text := fmt.Sprintf("Close of %v has waited for %v for %s", closed, slowClose, workInFlight(g))
		if say := sayClose.Load(); say != nil {
			(*say)(text)
			return
		}
		hint.Say(hint.SlowClose, "%s", text)
	})
}

// workInFlight describes the operations in flight, and what ends an endless kernel.
func workInFlight(g *GPU) string {
	text := "work in flight"
	for _, st := range g.openStreams() {
		if kernel := st.lastLaunch.Load(); kernel != nil && !st.Idle() {
			text += fmt.Sprintf("; kernel %s was the last kernel of %v", *kernel, st)
		}
		if st.Shared() {
			text += fmt.Sprintf("; another library has the handle of %v", st)
		}
	}
	text += "; a kernel or a host function that never ends can be the reason"
	if g.emulated != nil {
		text += ": FERRY_KERNEL_LIMIT=10s ends longer kernels of the software GPU"
	}
	return text
}

// stopTimer stops a timer, which may be nil.
func stopTimer(t *time.Timer) {
	if t != nil {
		t.Stop()
	}
}
