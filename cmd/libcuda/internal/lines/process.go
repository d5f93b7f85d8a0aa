package lines

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/ferrygpu/ferry/internal/callsite"
)

// Process finds lines of a process. The zero Process is this one. It is safe for concurrent use.
type Process struct {
	dir string // in /proc; "" is that of this process

	mu    sync.Mutex
	files map[string]*file // by path; nil for one that cannot be read
}

// noFunction is the name of a function where the file has none.
const noFunction = "an unknown function"

// Place returns the line of the call that returns to pc. Without debugging information it returns
// the file and the address in it, "program+0x1139", which tools such as addr2line read, and the
// function, if the file has a table of symbols. For an address that is in no file it returns
// the zero Place.
func (p *Process) Place(pc uintptr) callsite.Place {
	m, ok := p.mapping(uint64(pc) - 1) // the call itself stands before the address to which it returns
	if !ok {
		return callsite.Place{}
	}
	p.mu.Lock()
	f := p.file(m.path)
	p.mu.Unlock()
	offset := uint64(pc) - 1 - m.start + m.offset
	if f != nil {
		if at, ok := f.address(offset); ok {
			return f.place(at, filepath.Base(m.path))
		}
	}
	return callsite.Place{File: fmt.Sprintf("%s+%#x", filepath.Base(m.path), offset+1), Func: noFunction}
}

// mapping is a part of a file in memory.
type mapping struct {
	start, end uint64
	offset     uint64 // in the file
	path       string
}

// mapping returns what is mapped at an address. It reads the list anew, because programs load and
// unload libraries.
func (p *Process) mapping(at uint64) (mapping, bool) {
	text, err := os.ReadFile(filepath.Join(p.proc(), "maps"))
	if err != nil {
		return mapping{}, false
	}
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		if m, ok := parseMapping(s.Text()); ok && m.start <= at && at < m.end {
			return m, true
		}
	}
	return mapping{}, false
}

// proc returns the folder of the process.
func (p *Process) proc() string {
	if p.dir == "" {
		return "/proc/self"
	}
	return p.dir
}

// parseMapping parses a line of /proc/self/maps. ok is false for memory without a file.
func parseMapping(line string) (m mapping, ok bool) {
	words := strings.SplitN(line, " ", 6) // addresses, rights, offset, device, inode and, after spaces, the path
	if len(words) < 6 {
		return m, false
	}
	first, last, _ := strings.Cut(words[0], "-")
	var failed [3]error
	m.start, failed[0] = strconv.ParseUint(first, 16, 64)
	m.end, failed[1] = strconv.ParseUint(last, 16, 64)
	m.offset, failed[2] = strconv.ParseUint(words[2], 16, 64)
	m.path = strings.TrimLeft(words[5], " ")
	return m, failed == [3]error{} && strings.HasPrefix(m.path, "/")
}

// file returns a mapped file, nil if it cannot be read. The caller holds mu.
func (p *Process) file(path string) *file {
	f, known := p.files[path]
	if known {
		return f
	}
	f = readFile(p.onDisk(path))
	if p.files == nil {
		p.files = map[string]*file{}
	}
	p.files[path] = f
	return f
}

// onDisk returns where a mapped file can be read: the program itself also after its removal.
func (p *Process) onDisk(path string) string {
	exe := filepath.Join(p.proc(), "exe")
	if target, err := os.Readlink(exe); err == nil && target == path {
		return exe
	}
	return path
}
