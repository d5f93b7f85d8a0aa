package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/hostile"
	"github.com/ferrygpu/ferry/pipeline"
	"github.com/ferrygpu/ferry/softgpu"
)

// hanging is a Reader and a Writer whose calls return when the channel is closed.
type hanging chan struct{}

func (h hanging) Read([]byte) (int, error)  { <-h; return 0, io.EOF }
func (h hanging) Write([]byte) (int, error) { <-h; return 0, io.ErrClosedPipe }

// endLimit is how long Run may take after the end of its context: a second with FERRY_STRICT=1,
// which needs a machine that does nothing else.
func endLimit() time.Duration {
	if os.Getenv(hostile.Strict) == "1" {
		return time.Second
	}
	return timeout
}

// TestContextEnds: Run returns soon after the end of its context, while a stream stands still that
// uses its ends, and while a reader or a writer hangs.
func TestContextEnds(t *testing.T) {
	t.Run("device=holding", func(t *testing.T) {
		soft := must(softgpu.Open(softgpu.Options{Profile: gputest.H200(t)}))(t)
		g := must(ferry.OpenDriver(&gputest.Holding{Driver: soft}, 0))(t)
		t.Cleanup(func() { closeAll(t, g) })
		testContextEnds(t, g)
	})
	t.Run("device=default", func(t *testing.T) { testContextEnds(t, openTest(t)) })
}

func testContextEnds(t *testing.T, g *ferry.GPU) {
	const n = 1 << 20
	goroutines := runtime.NumGoroutine()
	s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	device, host := must(ferry.Alloc[byte](g, n))(t), must(ferry.AllocHost[byte](g, n, nil))(t)
	managed := must(ferry.AllocManaged[byte](g, n, nil))(t)
	memory, stuck, release := make([]byte, n), make(hanging), make(chan struct{})
	check(t, s.HostFunc(func() { <-release }))
	check(t, ferry.Copy(s, host, device))
	check(t, ferry.Copy(s, managed, device))
	var all []*pipeline.Pipeline
	ends := func(x ...pipeline.End) []pipeline.End { return x }
	nothing := func(*ferry.Stream, *pipeline.Chunk) error { return nil }
	pageable := ferry.Pageable(memory)
	for name, p := range map[string]*pipeline.Pipeline{
		"input of host memory":     {In: ends(host), Step: nothing},
		"input of managed memory":  {In: ends(managed), Step: nothing},
		"output to device memory":  {In: ends(pageable), Out: ends(device), Step: nothing},
		"output to host memory":    {In: ends(pageable), Out: ends(host), Step: nothing},
		"a reader that hangs":      {In: ends(pipeline.From[byte](stuck)), Step: nothing},
		"a writer that hangs":      {In: ends(pageable), Out: ends(pipeline.To[byte](stuck)), Step: nothing},
		"a reader and device ends": {In: ends(pipeline.From[byte](bytes.NewReader(memory))), Out: ends(device), Step: nothing},
	} {
		p.GPU, p.ChunkLen = g, n/8
		all = append(all, p)
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
		done := make(chan error, 1)
		go func() { done <- last(p.Run(ctx)) }()
		select {
		case err := <-done:
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: got %v, want the context's error", name, err)
			}
		case <-time.After(endLimit()):
			t.Errorf("%s: did not return %v after the end of its context", name, endLimit())
		}
		cancel()
	}
	close(release)
	close(stuck)
	check(t, s.Wait(context.Background()))
	for _, p := range all {
		check(t, p.Close())
	}
	closeAll(t, device, host, managed, s)
	// What hung frees its memory behind Close. A GPU makes no stream while it frees that and a host
	// function of the next test holds a stream back.
	for end := time.Now().Add(timeout / 3); runtime.NumGoroutine() > goroutines && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
}

// TestStepBehindStream: when the context has ended, Run waits for what its steps have queued. If
// they wait for a stream that stands still, Run returns when that goes on, with the context's error.
func TestStepBehindStream(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	event, release := must(ferry.NewEvent(g, nil))(t), make(chan struct{})
	check(t, s.HostFunc(func() { <-release }))
	check(t, s.Record(event))
	ctx, cancel := context.WithCancel(context.Background())
	p := &pipeline.Pipeline{GPU: g, In: []pipeline.End{ferry.Pageable(make([]byte, 1000))}, ChunkLen: 100, Depth: 2,
		Step: func(s *ferry.Stream, _ *pipeline.Chunk) error { defer cancel(); return s.WaitEvent(event) }}
	done := make(chan error, 1)
	go func() { done <- last(p.Run(ctx)) }()
	<-ctx.Done()
	select {
	case err := <-done:
		t.Errorf("Run returned %v while its work is in flight", err)
	case <-time.After(30 * time.Millisecond):
	}
	close(release)
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	closeAll(t, p, event, s)
}

// TestContextTakers: Run is the only exported function that takes a context. TestContextEnds needs
// calls of any other.
func TestContextTakers(t *testing.T) {
	files := must(filepath.Glob("*.go"))(t)
	found := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file := must(parser.ParseFile(token.NewFileSet(), name, nil, 0))(t)
		ast.Inspect(file, func(x ast.Node) bool {
			f, ok := x.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() {
				return true
			}
			for _, p := range f.Type.Params.List {
				if s, ok := p.Type.(*ast.SelectorExpr); ok && s.Sel.Name == "Context" {
					if found++; f.Name.Name != "Run" {
						t.Errorf("%s takes a context and has no call in TestContextEnds", f.Name.Name)
					}
				}
			}
			return false
		})
	}
	if found == 0 {
		t.Error("no function takes a context")
	}
}
