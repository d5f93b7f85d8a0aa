package libcuda

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/printable"
)

// Unsafe: Addresses of Go memory are converted in the argument list of a function with the
// directive uintptrescapes. So the memory stays alive and in place until C returns, and C keeps
// none of them.

// Drivers from CUDA 12.9 on write lines about failed calls into a buffer of the process, such as
//
//	[04:59:44.564][139872426717184][CUDA][E] Null address specified
//	[04:59:44.564][139872426717184][CUDA][E] Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuMemcpyDtoD_v2
//
// The second field is the thread. A call of a goroutine that has failed finds its line "Returning",
// by its function and its result, and takes the lines of the same thread before it. So nothing is
// asked of the driver before a call fails. If two threads fail in the same function with the same
// result at the same time, each gets the lines of one of the two.

const (
	logsVersion  = 12090     // the CUDA version that introduced the calls
	logBytes     = 25600 + 1 // the driver keeps no more, and ends it with a zero
	mostLogLines = 200       // kept of calls that nobody has asked about
	mostLogShown = 4         // lines of one error
)

// logLine is a line of the driver.
type logLine struct{ thread, text string }

// callLog has the lines that were read, and not taken yet.
type callLog struct {
	mu    sync.Mutex
	at    uint32 // the driver's iterator: where the next line will be
	lines []logLine
}

// loggedError is a result with what the driver says about it.
type loggedError struct {
	result cu.Result
	says   string
}

func (e *loggedError) Error() string {
	return fmt.Sprintf("%v; the driver says: %s", e.result.Error(), e.says)
}

func (e *loggedError) Unwrap() error { return e.result }

// failed returns the error of a call that did not succeed, with the driver's lines if it has any.
func (d *Driver) failed(id procID, r cu.Result) error {
	err := result(r)
	if d.version < logsVersion || r == cu.Success || r == cu.ErrorNotReady {
		return err
	}
	switch code, plain := err.(cu.Result); { //nolint:errorlint // faults and the like have texts of their own
	case !plain, code == cu.ErrorDeinitialized, code == cu.ErrorNotInitialized, code == cu.ErrorNotPermitted:
		return err
	}
	d.readLog()
	if says := d.log.take(&procs[id], r); says != "" {
		return &loggedError{r, says}
	}
	return err
}

// readLog reads the lines that the driver has written since the last call. No lock is held while the
// driver is called: if another goroutine has read meanwhile, readLog reads what came after that.
func (d *Driver) readLog() {
	dump, err := d.proc(procLogsDumpToMemory)
	if err != nil {
		return
	}
	buffer := make([]byte, logBytes)
	for range 3 {
		d.log.mu.Lock()
		start := d.log.at
		d.log.mu.Unlock()
		next, n := start, uintptr(len(buffer))
		r := cu.Result(uint32(syscallN(dump, uintptr(unsafe.Pointer(&next)), uintptr(unsafe.Pointer(&buffer[0])), uintptr(unsafe.Pointer(&n)), 0)))
		if r != cu.Success || d.log.add(start, next, string(buffer[:min(n, uintptr(len(buffer)))])) {
			return
		}
	}
}

// add adds a dump from start to next. It adds nothing and returns false if another dump from there
// was added already.
func (l *callLog) add(start, next uint32, dump string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at != start {
		return false
	}
	l.at = next
	for line := range strings.Lines(dump) {
		if x, ok := parseLogLine(line); ok {
			l.lines = append(l.lines, x)
		}
	}
	l.lines = l.lines[max(0, len(l.lines)-mostLogLines):]
	return true
}

// parseLogLine reads "[time][thread][source][severity] text", with more fields in some drivers.
func parseLogLine(line string) (x logLine, ok bool) {
	text := strings.TrimSpace(line)
	for i := 0; strings.HasPrefix(text, "["); i++ {
		field, rest, closed := strings.Cut(text[1:], "]")
		if !closed {
			return x, false
		}
		if text = rest; i == 1 {
			x.thread = field
		}
	}
	x.text = strings.TrimSpace(text)
	return x, x.thread != "" && x.text != ""
}

// returned reports whether the line ends what the driver says about a call.
func (x *logLine) returned() bool { return strings.HasPrefix(x.text, "Returning ") }

// of reports whether the line ends what the driver says about a call of p with a result.
func (x *logLine) of(p *proc, r cu.Result) bool {
	code, name, ok := strings.Cut(strings.TrimPrefix(x.text, "Returning "), " from ")
	return ok && x.returned() && strings.HasPrefix(code, fmt.Sprintf("%d ", uint32(r))) && (name == p.symbol || strings.HasPrefix(name, p.symbol+"_"))
}

// take removes and returns what the driver says about the last call of p with a result. It is "" if
// the driver says nothing but the result.
func (l *callLog) take(p *proc, r cu.Result) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	end := len(l.lines) - 1
	for end >= 0 && !l.lines[end].of(p, r) {
		end--
	}
	if end < 0 {
		return ""
	}
	var says, rest []string
	thread, open := l.lines[end].thread, true
	kept := l.lines[end+1:]
	for i := end - 1; i >= 0; i-- {
		x := l.lines[i]
		open = open && (x.thread != thread || !x.returned())
		if open && x.thread == thread {
			says = append(says, printable.Name(x.text))
		} else {
			kept = append([]logLine{x}, kept...)
		}
	}
	l.lines = kept
	for i := len(says) - 1; i >= 0 && len(rest) < mostLogShown; i-- {
		rest = append(rest, says[i])
	}
	return strings.Join(rest, "; ")
}

// isResult reports whether an error of a call is a result, with lines of the driver or without.
func isResult(err error) (code cu.Result, ok bool) {
	if e, logged := errors.AsType[*loggedError](err); logged {
		return e.result, true
	}
	code, ok = err.(cu.Result) //nolint:errorlint // not what wraps it
	return code, ok
}
