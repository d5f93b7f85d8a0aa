package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/softgpu"
)

// recordHandler sends each record as a line.
type recordHandler struct{ lines chan string }

func (h recordHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h recordHandler) WithAttrs(attrs []slog.Attr) slog.Handler { return h }
func (h recordHandler) WithGroup(name string) slog.Handler       { return h }
func (h recordHandler) Handle(_ context.Context, r slog.Record) error {
	line := fmt.Sprintf("%v %s", r.Level, r.Message)
	r.Attrs(func(a slog.Attr) bool { line += fmt.Sprintf(" %s=%v", a.Key, a.Value); return true })
	h.lines <- line
	return nil
}

// logTest sets a logger for a test. want waits for a record with all of parts, and fails if another one
// comes first. quiet fails if one has come.
type logTest struct {
	t     *testing.T
	lines chan string
}

func newLogTest(t *testing.T) *logTest {
	l := &logTest{t, make(chan string, 1000)}
	ferry.Log(slog.New(recordHandler{l.lines}))
	t.Cleanup(func() { ferry.Log(nil) })
	return l
}

func (l *logTest) want(parts ...string) {
	l.t.Helper()
	select {
	case line := <-l.lines:
		for _, part := range parts {
			if !strings.Contains(line, part) {
				l.t.Errorf("got %q, want %q in it", line, part)
			}
		}
	case <-time.After(timeout):
		l.t.Errorf("no record, want %q", parts)
	}
}

func (l *logTest) quiet(when string) {
	l.t.Helper()
	for range 50 {
		runtime.Gosched()
	}
	select {
	case line := <-l.lines:
		l.t.Errorf("%s: %q", when, line)
	default:
	}
}

// slowDriver takes longer than the bound of slow page-locking.
type slowDriver struct{ *gputest.Fake }

func (d slowDriver) MemHostAlloc(ctx cu.Context, n uintptr, f cu.MemHostAllocFlags) (cu.HostPtr, error) {
	time.Sleep(110 * time.Millisecond)
	return d.Fake.MemHostAlloc(ctx, n, f)
}

// TestLog: each event is logged once for its place, with its figures and the line of this file. Then the
// tenth is. Without a logger nothing is.
func TestLog(t *testing.T) {
	l := newLogTest(t)
	g := openSoft(t, "h200", softgpu.Eager)
	s := must(ferry.NewStream(g, nil))(t)
	d := must(ferry.Alloc[byte](g, 1<<20))(t)
	l.quiet("nothing has happened")
	for i := range 12 {
		check(t, ferry.Copy(s, d, ferry.Pageable(make([]byte, 1<<20))))
		switch i {
		case 0:
			l.want("INFO copy waits for pageable memory", "bytes=1048576", "gpu=soft:h200", "place=log_test.go:", "count=1")
		case 9:
			l.want("copy waits for pageable memory", "count=10")
		default:
			l.quiet("again")
		}
	}
	check(t, ferry.Copy(s, d, ferry.Pageable(make([]byte, 1<<20))))
	l.want("copy waits for pageable memory", "count=1") // of another line
	check(t, ferry.CopyAll(s, []ferry.Pair[byte]{{Dst: d.Range(0, 10), Src: ferry.Pageable(make([]byte, 10))}, {Dst: d.Range(10, 30), Src: ferry.Pageable(make([]byte, 20))}}))
	l.want("copy waits for pageable memory", "bytes=30")
	h := must(ferry.AllocHost[byte](g, 1<<20, nil))(t)
	check(t, ferry.Copy(s, d, h))
	check(t, s.Wait(t.Context()))
	l.quiet("a copy of page-locked memory")

	check(t, g.LimitHost(1<<20))
	wantError(t, last(ferry.AllocHost[byte](g, 5000, nil)), cu.ErrorOutOfMemory)
	l.want("WARN limit of page-locked memory reached", "reason=limit of the GPU", "bytes=5000", "gpu=soft:h200", "place=log_test.go:")
	check(t, g.LimitHost(0))
	p := newPinnedPool(t, g, &ferry.PinnedPoolOptions{Max: 1 << 20})
	var a, b ferry.Host[byte]
	check(t, a.Alloc(p, 1<<20))
	wantError(t, b.Alloc(p, 100), cu.ErrorOutOfMemory)
	l.want("limit of page-locked memory reached", "reason=limit of a pool", "place=log_test.go:")
	closeAll(t, &a)

	ferry.Log(nil)
	check(t, ferry.Copy(s, d, ferry.Pageable(make([]byte, 1<<20))))
	l.quiet("there is no logger")
	closeAll(t, h, d, s)
}

// TestLogFallback: what another way does instead is logged with the reason.
func TestLogFallback(t *testing.T) {
	l := newLogTest(t)
	failing := fault.Wrap(softDriver(t, "h200", 1, softgpu.Eager), fault.Options{Call: "cuMemHostRegister", Nth: 1, Code: cu.ErrorNotSupported})
	g := openDriver(t, failing)
	closeAll(t, must(ferry.AllocHost[byte](g, 1<<20, nil))(t))
	l.want("WARN fallback", "reason=registration refused, the driver page-locks", "bytes=1048576", "place=log_test.go:")

	check(t, g.LimitHost(1))
	s := must(ferry.NewStream(g, nil))(t)
	d := must(ferry.Alloc[byte](g, 20<<20))(t)
	check(t, ferry.Copy(s, d, ferry.Pageable(make([]byte, 20<<20))))
	var got []string
	for range 3 {
		select {
		case line := <-l.lines:
			got = append(got, line)
		case <-time.After(timeout):
		}
	}
	all := strings.Join(got, "\n")
	for _, want := range []string{"reason=the staging ring has no slot, the driver copies bytes=20971520", "copy waits for pageable memory", "limit of the GPU"} {
		if !strings.Contains(all, want) {
			t.Errorf("got %s, want %q", all, want)
		}
	}
	closeAll(t, d, s)
}

// TestLogSlowLock: page-locking that takes longer than 100 ms is logged, and other page-locking is not.
func TestLogSlowLock(t *testing.T) {
	l := newLogTest(t)
	g := openDriver(t, slowDriver{gputest.NewFake()})
	closeAll(t, must(ferry.AllocHost[byte](g, 100, nil))(t))
	l.want("WARN slow page-locking", "bytes=100", "duration=", "place=log_test.go:", "count=1")
	fast := openSoft(t, "h200", softgpu.Eager)
	closeAll(t, must(ferry.AllocHost[byte](fast, 8<<20, nil))(t))
	l.quiet("page-locking in the usual time")
}

// TestLogLeak: a lost buffer is logged, without OnLeak.
func TestLogLeak(t *testing.T) {
	l := newLogTest(t)
	g := must(ferry.OpenDriver(softDriver(t, "h200", 1, softgpu.Eager), 0))(t)
	func() { must(ferry.Alloc[byte](g, 1234))(t) }()
	for range 100 {
		runtime.GC()
		if len(l.lines) > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	l.want("WARN leak", "object=device buffer 1 (1234 uint8", "place=log_test.go:")
	closeAll(t, g)
}

// TestLogHandler: a handler may call Ferry.
func TestLogHandler(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Eager)
	p := newPinnedPool(t, g, &ferry.PinnedPoolOptions{Max: 64 << 20})
	done := make(chan error, 10)
	ferry.Log(slog.New(slog.NewTextHandler(writerFunc(func(b []byte) (int, error) {
		var h ferry.Host[byte]
		err := h.Alloc(p, 1<<20)
		done <- errors.Join(err, h.Close())
		return len(b), nil
	}), nil)))
	t.Cleanup(func() { ferry.Log(nil) })
	check(t, g.LimitHost(33<<20))
	var first, second ferry.Host[byte]
	check(t, first.Alloc(p, 32<<20))
	wantError(t, second.Alloc(p, 31<<20), cu.ErrorOutOfMemory) // the pool asks for memory, and logs
	check(t, <-done)
	closeAll(t, &first)
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
