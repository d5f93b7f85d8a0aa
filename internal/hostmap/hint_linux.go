package hostmap

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// mapping is a range of addresses of the process, from /proc/self/maps.
type mapping struct {
	start, end uint64
	perms      string // "rw-p"
	path       string // of a file, or "[heap]", or ""
}

// Hint says why the memory of a range may not be page-locked, and what helps. It returns ""
// if it finds no reason. Memory without any access is named before other reasons, because
// what helps against those does not help there.
func Hint(start, end uint64, readOnly bool) string {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return ""
	}
	at, first := start, ""
	for line := range strings.Lines(string(text)) {
		m, ok := parseMapping(line)
		if !ok || m.end <= at {
			continue
		}
		if m.start > at {
			break
		}
		if m.barred() {
			return m.hint(readOnly)
		}
		if first == "" {
			first = m.hint(readOnly)
		}
		if at = m.end; at >= end {
			return first
		}
	}
	return fmt.Sprintf("there is no memory at %#x", at)
}

// parseMapping reads a line such as
//
//	7f0000000000-7f0000021000 rw-s 00000000 08:01 1234   /srv/data
func parseMapping(line string) (m mapping, ok bool) {
	f := strings.Fields(line)
	if len(f) < 5 {
		return m, false
	}
	from, to, _ := strings.Cut(f[0], "-")
	var err1, err2 error
	m.start, err1 = strconv.ParseUint(from, 16, 64)
	m.end, err2 = strconv.ParseUint(to, 16, 64)
	m.perms, m.path = f[1], strings.Join(f[5:], " ")
	return m, err1 == nil && err2 == nil && len(m.perms) == 4
}

// barred reports whether the memory may be neither read nor written.
func (m mapping) barred() bool { return m.perms[0] != 'r' && m.perms[1] != 'w' }

// hint says why a mapping may not be page-locked, or returns "".
func (m mapping) hint(readOnly bool) string {
	writable, shared := m.perms[1] == 'w', m.perms[3] == 's'
	switch {
	case m.barred():
		return fmt.Sprintf("the memory at %#x may be neither read nor written (PROT_NONE): allow both first, with mprotect or another mmap", m.start)
	case m.perms[0] != 'r' && readOnly:
		return "the memory may only be written: allow reads first, with mprotect, or register it without ReadOnly"
	case !writable && !readOnly:
		return "the memory is read-only: register it with ReadOnly"
	case shared && writable && strings.HasPrefix(m.path, "/") && !strings.HasPrefix(m.path, "/dev/") && !strings.HasPrefix(m.path, "/memfd:"):
		return fmt.Sprintf("it is %s, mapped writable and shared, which Linux refuses to page-lock for files on disk: map it with MAP_PRIVATE, or map it for reading and register it with ReadOnly, or keep the file in /dev/shm", m.path)
	}
	return ""
}
