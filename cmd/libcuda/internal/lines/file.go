package lines

import (
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"os"
	"sync"

	"github.com/ferrygpu/ferry/internal/callsite"
)

// file is a program or a library.
type file struct {
	segments []elf.ProgHeader // those that are loaded
	symbols  []elf.Symbol     // functions
	debug    *dwarf.Data      // nil for none

	mu sync.Mutex // debug is not safe for concurrent use
}

// readFile reads a program or a library. It returns nil if the file cannot be read, or is none.
// It opens no devices, which may be mapped, too.
func readFile(path string) *file {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	e, err := elf.Open(path)
	if err != nil {
		return nil
	}
	defer e.Close()
	f := &file{}
	for _, p := range e.Progs {
		if p.Type == elf.PT_LOAD {
			f.segments = append(f.segments, p.ProgHeader)
		}
	}
	f.symbols = functions(e)
	if debug, err := e.DWARF(); err == nil { // without debugging information it is empty
		f.debug = debug
	}
	return f
}

// functions returns the functions that a file has names for.
func functions(e *elf.File) (all []elf.Symbol) {
	static, _ := e.Symbols()         // a stripped file has none
	dynamic, _ := e.DynamicSymbols() // a static file has none
	for _, s := range append(static, dynamic...) {
		if elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Size > 0 {
			all = append(all, s)
		}
	}
	return all
}

// address returns the address, as the file counts, of a byte of the file.
func (f *file) address(offset uint64) (uint64, bool) {
	for _, s := range f.segments {
		if s.Off <= offset && offset-s.Off < s.Filesz {
			return offset - s.Off + s.Vaddr, true
		}
	}
	return 0, false
}

// place returns the line of an address. name is the name of the file.
func (f *file) place(at uint64, name string) callsite.Place {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.line(at)
	if p.Func == "" {
		p.Func = f.symbol(at)
	}
	if p.File == "" {
		p.File = fmt.Sprintf("%s+%#x", name, at+1)
	}
	return p
}

// symbol returns the name of the function at an address.
func (f *file) symbol(at uint64) string {
	for _, s := range f.symbols {
		if s.Value <= at && at-s.Value < s.Size {
			return s.Name
		}
	}
	return noFunction
}

// line returns the line of an address by the debugging information, or no file. The caller holds mu.
func (f *file) line(at uint64) (p callsite.Place) {
	if f.debug == nil {
		return p
	}
	r := f.debug.Reader()
	unit, err := r.SeekPC(at)
	if err != nil {
		return p
	}
	lines, err := f.debug.LineReader(unit)
	if err != nil || lines == nil {
		return p
	}
	var e dwarf.LineEntry
	if lines.SeekPC(at, &e) != nil || e.File == nil {
		return p
	}
	return callsite.Place{File: e.File.Name, Line: e.Line, Func: f.function(r, at)}
}

// function returns the name of the function at an address of the unit that r reads, "" if there is
// none. Code that the compiler has put into another function counts as that one.
func (f *file) function(r *dwarf.Reader, at uint64) string {
	for {
		e, err := r.Next()
		if err != nil || e == nil || e.Tag == dwarf.TagCompileUnit {
			return ""
		}
		if e.Tag != dwarf.TagSubprogram {
			continue // a namespace or a class has functions, too
		}
		ranges, err := f.debug.Ranges(e)
		for _, x := range ranges {
			if err == nil && x[0] <= at && at < x[1] {
				return f.name(e, maxOrigins)
			}
		}
		r.SkipChildren()
	}
}

// maxOrigins is the number of entries in which the name of a function is looked for.
const maxOrigins = 4

// name returns the name of a function, which another entry may have.
func (f *file) name(e *dwarf.Entry, most int) string {
	if name, ok := e.Val(dwarf.AttrName).(string); ok {
		return name
	}
	for _, by := range []dwarf.Attr{dwarf.AttrSpecification, dwarf.AttrAbstractOrigin} {
		origin, ok := e.Val(by).(dwarf.Offset)
		if !ok || most == 0 {
			continue
		}
		r := f.debug.Reader()
		r.Seek(origin)
		if other, err := r.Next(); err == nil && other != nil {
			return f.name(other, most-1)
		}
	}
	return ""
}
