package trace

import (
	"runtime"
	"slices"
	"strings"
	"sync"
)

// maxDepth is the number of stack frames in which the line of the program is looked for.
const maxDepth = 40

// sites finds the line of the program that made a call. It keeps what it found for each
// stack.
type sites struct {
	mu    sync.RWMutex
	known map[[maxDepth]uintptr]int
	ids   map[place]int
}

// place is a line of the program.
type place struct {
	file string
	line int
	fn   string
}

// maxStacks bounds the stacks that sites keeps.
const maxStacks = 1 << 14

// site returns the number of the line that made the call of d's method. A new number is
// written to the recording.
func (r *Recorder) site() int {
	var stack [maxDepth]uintptr
	n := runtime.Callers(4, stack[:]) // skips Callers, site, begin and the method
	s := &r.sites
	s.mu.RLock()
	id, ok := s.known[stack]
	s.mu.RUnlock()
	if ok {
		return id
	}
	p := foreign(slices.Clone(stack[:n])) // a clone, so that stack itself does not escape
	s.mu.Lock()
	defer s.mu.Unlock()
	id, ok = s.ids[p]
	if !ok {
		id = len(s.ids) + 1
		s.ids[p] = id
		r.addSite(id, p)
	}
	if len(s.known) >= maxStacks {
		clear(s.known)
	}
	s.known[stack] = id
	return id
}

// foreign returns the first frame of a stack outside of Ferry. If there is none, as on a
// goroutine that Ferry has started, it returns the outermost frame.
func foreign(stack []uintptr) place {
	var outermost place
	frames := runtime.CallersFrames(stack)
	for more := len(stack) > 0; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if f.Function == "" || strings.HasPrefix(f.Function, "runtime.") {
			continue
		}
		p := place{f.File, f.Line, f.Function}
		if !own(f) {
			return p
		}
		outermost = p
	}
	return outermost
}

// own reports whether a frame belongs to Ferry's library. Tests, commands and
// measurements of Ferry are programs that use the library.
func own(f runtime.Frame) bool {
	rest, ok := strings.CutPrefix(f.Function, "github.com/ferrygpu/ferry")
	if !ok || strings.HasSuffix(f.File, "_test.go") {
		return strings.HasPrefix(f.Function, "sync.")
	}
	for _, p := range libraries {
		if strings.HasPrefix(rest, p) {
			return true
		}
	}
	return false
}

// libraries are the packages of the library, as prefixes of their functions' names after
// the path of the module.
var libraries = []string{
	".", "/pipeline.", "/trace.", "/cu.", "/libcuda.", "/softgpu.", "/internal/pin.", "/internal/staging.",
	"/internal/workers.", "/internal/await.", "/internal/inflight.", "/internal/hostmap.", "/internal/bridge.",
	"/internal/kernelargs.",
}
