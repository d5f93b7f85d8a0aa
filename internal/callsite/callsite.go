// Package callsite finds the line of a program that made a call of Ferry. Reports about the
// program's mistakes name these lines.
package callsite

import (
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// maxDepth is the number of stack frames in which the line of the program is looked for.
const maxDepth = 40

// maxStacks bounds the stacks that a Finder keeps.
const maxStacks = 1 << 14

// Place is a line of the program.
type Place struct {
	File string
	Line int
	Func string
	// Pipeline is whether package pipeline made the call for the line.
	Pipeline bool
}

// String returns "main.go:62".
func (p Place) String() string {
	if p.File == "" {
		return "an unknown place"
	}
	return Line(p.File, p.Line)
}

// Line returns a line of a source in the form in which all texts of Ferry name one: the file's
// name without its folders, as in "main.go:62". Line 0 is none: then it is the name alone.
func Line(file string, line int) string {
	name := file[strings.LastIndexAny(file, `/\`)+1:]
	if line == 0 {
		return name
	}
	return fmt.Sprintf("%s:%d", name, line)
}

// Own reports whether the line belongs to Ferry's library, as on a goroutine that Ferry has started.
func (p Place) Own() bool { return own(runtime.Frame{Function: p.Func, File: p.File}) }

// Finder numbers the lines of a program. It keeps what it found for each stack. The zero Finder
// knows no line. It is safe for concurrent use.
type Finder struct {
	mu      sync.RWMutex
	known   map[[maxDepth]uintptr]int
	outside map[uintptr]int // by the address of a call from another language
	ids     map[Place]int
	places  []found
}

// Find returns the number of the line that made the call of Ferry, from 1. skip is the
// number of frames to leave out, as in runtime.Callers. added, if not nil, is called for a
// line that has no number yet.
func (s *Finder) Find(skip int, added func(id int, p Place)) int {
	if c := callerOf.Load(); c != nil {
		if pc := c.pc(); pc != 0 {
			return s.findOutside(c, pc, added)
		}
	}
	var key [maxDepth]uintptr
	if framePointers(&key) == 0 {
		runtime.Callers(skip+1, key[:])
	}
	s.mu.RLock()
	id, ok := s.known[key]
	s.mu.RUnlock()
	if ok {
		return id
	}
	stack := make([]uintptr, maxDepth)
	p := foreign(stack[:runtime.Callers(skip+1, stack)])
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known = map[[maxDepth]uintptr]int{}
	}
	id = s.number(p, added)
	if len(s.known) >= maxStacks {
		clear(s.known)
	}
	s.known[key] = id
	return id
}

// number returns the number of a line, which it gives to a new one. The caller holds mu.
func (s *Finder) number(p Place, added func(id int, p Place)) int {
	id, ok := s.ids[p]
	if ok {
		return id
	}
	if s.ids == nil {
		s.ids = map[Place]int{}
	}
	s.places = append(s.places, found{Place: p})
	id = len(s.places)
	s.ids[p] = id
	if added != nil {
		added(id, p)
	}
	return id
}

// Place returns the line with a number.
func (s *Finder) Place(id int) Place {
	s.mu.RLock()
	if id < 1 || id > len(s.places) {
		s.mu.RUnlock()
		return Place{}
	}
	f := s.places[id-1]
	s.mu.RUnlock()
	return s.resolve(id, f)
}

// foreign returns the first frame of a stack outside of Ferry. If there is none, as on a
// goroutine that Ferry has started, it returns the outermost frame.
func foreign(stack []uintptr) (p Place) {
	pipeline := false
	for f := range frames(stack) {
		p = Place{File: f.File, Line: f.Line, Func: f.Function, Pipeline: pipeline}
		if !own(f) {
			break
		}
		pipeline = strings.HasPrefix(f.Function, "github.com/ferrygpu/ferry/pipeline.")
	}
	return p
}

// Foreign returns the frames of a stack that belong neither to Ferry nor to the runtime, the
// innermost first.
func Foreign(stack []uintptr) iter.Seq[runtime.Frame] {
	return func(yield func(runtime.Frame) bool) {
		for f := range frames(stack) {
			if !own(f) && !yield(f) {
				return
			}
		}
	}
}

// frames returns the frames of a stack that do not belong to the runtime.
func frames(stack []uintptr) iter.Seq[runtime.Frame] {
	return func(yield func(runtime.Frame) bool) {
		all := runtime.CallersFrames(stack)
		for more := len(stack) > 0; more; {
			var f runtime.Frame
			f, more = all.Next()
			if f.Function != "" && !strings.HasPrefix(f.Function, "runtime.") && !yield(f) {
				return
			}
		}
	}
}

// ByLibrary reports whether Ferry itself makes the driver call in progress, and not a
// program that uses a driver.
func ByLibrary() bool {
	var stack [maxDepth]uintptr
	n := runtime.Callers(2, stack[:])
	for f := range frames(stack[:n]) {
		rest := strings.TrimPrefix(f.Function, "github.com/ferrygpu/ferry")
		if !strings.HasPrefix(rest, "/check.") && !strings.HasPrefix(rest, "/cu.") || strings.HasSuffix(f.File, "_test.go") {
			return own(f)
		}
	}
	return false
}

// ByPin reports whether package pin makes the driver call in progress. Memory that it registers is
// memory of ferry.AllocHost: Ferry has allocated it, not the program.
func ByPin() bool {
	var stack [maxDepth]uintptr
	n := runtime.Callers(2, stack[:])
	for f := range frames(stack[:n]) {
		rest, _ := strings.CutPrefix(f.Function, "github.com/ferrygpu/ferry")
		switch {
		case strings.HasPrefix(rest, "/internal/pin."):
			return true
		case strings.HasPrefix(rest, "."): // package ferry called the driver itself, for Register
			return false
		}
	}
	return false
}

// own reports whether a frame belongs to Ferry's library. Tests, commands and
// measurements of Ferry are programs that use the library.
func own(f runtime.Frame) bool {
	rest, ok := strings.CutPrefix(f.Function, "github.com/ferrygpu/ferry")
	if !ok || strings.HasSuffix(f.File, "_test.go") {
		return strings.HasPrefix(f.Function, "sync.")
	}
	if strings.HasPrefix(rest, "/internal/") {
		return !strings.HasPrefix(rest, "/internal/measure/") && !strings.HasPrefix(rest, "/internal/test/")
	}
	return slices.ContainsFunc(libraries, func(p string) bool { return strings.HasPrefix(rest, p) })
}

// libraries are the packages of the library outside internal, as prefixes of their functions' names
// after the path of the module.
var libraries = []string{
	".", "/kerneltest.", "/pipeline.", "/ferrybind.", "/trace.", "/fault.", "/check.", "/cu.", "/libcuda.", "/softgpu.",
}
