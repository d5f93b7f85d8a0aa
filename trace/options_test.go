package trace_test

import (
	"bytes"
	"log/slog"
	rtrace "runtime/trace"
	"strings"
	"sync"
	"testing"

	"github.com/ferrygpu/ferry/trace"
)

// lines is a buffer for several goroutines.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// TestLog: each call and each operation is a record of the log, without a file.
func TestLog(t *testing.T) {
	out := &lines{}
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r := must(trace.Start(&trace.Options{Log: log}))(t)
	g := open(t, r.Wrap(soft(t, "h200", 1)))
	addVectors(t, g)
	check(t, g.Close())
	check(t, r.Close())
	text := out.b.String()
	for what, want := range map[string]int{"msg=cuLaunchKernel ": 1, "msg=vector_add ": 1, "engine=\"copy in\"": 2, "msg=cuDevicePrimaryCtxRelease ": 1} {
		if got := strings.Count(text, what); got != want {
			t.Errorf("%d records with %s, want %d:\n%s", got, what, want, text)
		}
	}
}

// TestRegions: calls are regions of a trace of Go's execution.
func TestRegions(t *testing.T) {
	var out bytes.Buffer
	if err := rtrace.Start(&out); err != nil {
		t.Skip("a trace is being taken: ", err)
	}
	r := must(trace.Start(&trace.Options{Regions: true}))(t)
	g := open(t, r.Wrap(soft(t, "h200", 1)))
	addVectors(t, g)
	check(t, g.Close())
	rtrace.Stop()
	for _, name := range []string{"cuLaunchKernel", "cuMemcpyHtoDAsync"} {
		if !bytes.Contains(out.Bytes(), []byte(name)) {
			t.Errorf("the trace of Go's execution has no region %s", name)
		}
	}
}
