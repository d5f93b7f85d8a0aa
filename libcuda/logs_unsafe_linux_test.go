//go:build (amd64 || arm64) && !android && !faketime && !ferrysoft

package libcuda

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// fakeLog is the log of a fake driver. Its iterator is the number of bytes before a line.
type fakeLog struct {
	text  string
	dumps int
}

func newFakeLog(f *fakeCUDA) *fakeLog {
	l := &fakeLog{}
	delete(f.lacks, "cuLogsDumpToMemory")
	f.on("cuLogsDumpToMemory", func(a []uintptr) cu.Result {
		l.dumps++
		next, size := at[uint32](a[0]), at[uintptr](a[2])
		n := copy(unsafe.Slice(at[byte](a[1]), *size-1), l.text[*next:])
		*next += uint32(n)
		*size = uintptr(n)
		return cu.Success
	})
	return l
}

// say writes a line of a thread.
func (l *fakeLog) say(thread int, format string, args ...any) {
	l.text += fmt.Sprintf("[04:59:44.564][%d][CUDA][E] %s\n", thread, fmt.Sprintf(format, args...))
}

// TestErrorsHaveTheDriversLines: the error of a call has what the driver says about it, of its own
// thread, each line once and printable. A wait that is not over, and a success, read nothing.
func TestErrorsHaveTheDriversLines(t *testing.T) {
	f, d := newFake(t)
	l := newFakeLog(f)
	d.version = 13000
	free := func(lines func()) error {
		f.on("cuMemFree_v2", func([]uintptr) cu.Result { lines(); return cu.ErrorInvalidValue })
		f.on("cuMemFree", f.handlers["cuMemFree_v2"])
		return d.MemFree(1, 2)
	}
	says := func(thread int) { l.say(thread, "Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuMemFree_v2") }
	for _, x := range []struct {
		name  string
		lines func()
		want  string
	}{
		{"one line", func() { l.say(7, "Null address specified"); says(7) }, "Null address specified"},
		{"the result alone", func() { says(7) }, ""},
		{"nothing", func() {}, ""},
		{"another call before", func() {
			l.say(7, "of the call before")
			l.say(7, "Returning 2 (CUDA_ERROR_OUT_OF_MEMORY) from cuMemAlloc_v2")
			l.say(7, "of this call")
			l.say(7, "and more")
			says(7)
		}, "of this call; and more"},
		{"another thread between", func() {
			l.say(7, "of this thread")
			l.say(8, "of another thread")
			says(7)
			l.say(8, "Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuMemAlloc_v2")
		}, "of this thread"},
		{"not printable", func() { l.say(7, "a\x1b[31mred"); says(7) }, `a\x1b[31mred`},
		{"many", func() {
			for i := range 100 {
				l.say(7, "line %d", i)
			}
			says(7)
		}, "line 0; line 1; line 2; line 3"},
		{"no line of a driver", func() { l.text += "what is this\n[and this\n" }, ""},
	} {
		err := free(x.lines)
		if !errors.Is(err, cu.ErrorInvalidValue) {
			t.Errorf("%s: %v does not wrap the result", x.name, err)
		}
		want := cu.ErrorInvalidValue.Error()
		if x.want != "" {
			want += "; the driver says: " + x.want
		}
		if err.Error() != want {
			t.Errorf("%s: %q, want %q", x.name, err, want)
		}
	}
	before := l.dumps
	f.on("cuStreamQuery", func([]uintptr) cu.Result { return cu.ErrorNotReady })
	if err := d.StreamQuery(1, 5); err != cu.ErrorNotReady { //nolint:errorlint // it must be the constant itself
		t.Errorf("a query: %v", err)
	}
	f.on("cuMemFree", func([]uintptr) cu.Result { return cu.Success })
	if err := d.MemFree(1, 2); err != nil || l.dumps != before {
		t.Errorf("%v, the log was read %d times without a failure", err, l.dumps-before)
	}
}

// TestNoLog: a driver that is older, or lacks the call, says nothing, and errors stay as they were.
func TestNoLog(t *testing.T) {
	for _, version := range []int32{12080, 13000} {
		f, d := newFake(t)
		d.version = version
		if version < logsVersion {
			delete(f.lacks, "cuLogsDumpToMemory")
			f.on("cuLogsDumpToMemory", func([]uintptr) cu.Result { t.Error("the log of an old driver was read"); return cu.Success })
		}
		f.on("cuMemFree", func([]uintptr) cu.Result { return cu.ErrorInvalidValue })
		if err := d.MemFree(1, 2); err != cu.ErrorInvalidValue { //nolint:errorlint // it must be the constant itself
			t.Errorf("CUDA %d: %v", version, err)
		}
	}
}

// TestLogReadersTakeTurns: a dump from a place that another goroutine has read is not added, and
// lines of calls that nobody asks about are forgotten at last.
func TestLogReadersTakeTurns(t *testing.T) {
	var l callLog
	line := "[1][2][CUDA][E] Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuMemFree\n"
	if !l.add(0, 10, line) || l.add(0, 20, line) || len(l.lines) != 1 || l.at != 10 {
		t.Errorf("%d lines, at %d; want one, at 10", len(l.lines), l.at)
	}
	l.add(10, 20, strings.Repeat(line, 10*mostLogLines))
	if len(l.lines) != mostLogLines {
		t.Errorf("%d lines are kept, want %d", len(l.lines), mostLogLines)
	}
}
