package trace_test

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/cutest"
	"github.com/ferrygpu/ferry/softgpu"
	"github.com/ferrygpu/ferry/trace"
)

// TestVectorAddition: a recording has every operation once, in order, with its memory,
// bytes, engine, times, call and line.
func TestVectorAddition(t *testing.T) {
	r, path := recorder(t)
	inner := soft(t, "h200", 1)
	w := r.Wrap(inner)
	if cu.AsEmulated(w) != cu.Emulated(inner) {
		t.Error("the emulated driver is not found behind the wrapper")
	}
	g := open(t, w)
	addVectors(t, g)
	check(t, g.Close())
	rec := ended(t, r, path)
	want := []struct{ name, from, to, engine, call string }{
		{"[CUDA memcpy HtoD]", "page-locked", "device", "copy in", "cuMemcpyHtoDAsync"},
		{"[CUDA memcpy HtoD]", "pageable", "device", "copy in", "cuMemcpyHtoDAsync"},
		{"vector_add", "", "", "compute", "cuLaunchKernel"},
		{"[CUDA memcpy DtoH]", "device", "page-locked", "copy out", "cuMemcpyDtoHAsync"},
	}
	if len(rec.Operations) != len(want) {
		t.Fatalf("%d operations, want %d: %+v", len(rec.Operations), len(want), rec.Operations)
	}
	calls := map[uint64]trace.Call{}
	for _, c := range rec.Calls {
		if c.End < c.Start || c.Error != "" {
			t.Errorf("call %+v", c)
		}
		calls[c.ID] = c
	}
	if k := rec.Operations[2]; k.Part == "" || k.PartTime <= 0 || k.PartTime > k.End-k.Start {
		t.Errorf("the longest part of %d ns is %q, %d ns", k.End-k.Start, k.Part, k.PartTime)
	}
	before := int64(0)
	for i, o := range rec.Operations {
		if o.Part != "" && i != 2 {
			t.Errorf("%s has the part %q, which is for kernels", o.Name, o.Part)
		}
		w, c := want[i], calls[o.Call]
		if o.Name != w.name || o.From != w.from || o.To != w.to || o.Engine != w.engine || c.Name != w.call {
			t.Errorf("operation %d: %+v of %s, want %+v", i, o, c.Name, w)
		}
		if w.from != "" && o.Bytes != 4*elements {
			t.Errorf("operation %d: %d bytes", i, o.Bytes)
		}
		if o.Start < before || o.End <= o.Start || o.Start < c.Start || o.Stream != c.Stream || o.Stream <= 0 {
			t.Errorf("operation %d: from %d to %d in stream %d, after %d, and its call began at %d in stream %d", i, o.Start, o.End, o.Stream, before, c.Start, c.Stream)
		}
		before = o.End
		if site := rec.Sites[c.Site]; !strings.HasSuffix(site.File, "helpers_test.go") || !strings.HasSuffix(site.Func, "addVectors") {
			t.Errorf("operation %d: made by %+v", i, site)
		}
	}
	if d := rec.Drivers; len(d) != 1 || !d[0].Virtual() || d[0].Profile != "h200" {
		t.Errorf("drivers %+v", d)
	}
}

// TestSameTimes: on the software GPU a recording changes no time, under any schedule.
func TestSameTimes(t *testing.T) {
	r, _ := recorder(t)
	var ends [4]int64
	for i := range ends {
		d := must(softgpu.Open(softgpu.Options{Schedule: []softgpu.Schedule{softgpu.Eager, softgpu.Lazy}[i/2]}))(t)
		var use cu.Driver = d
		if i%2 == 1 {
			use = r.Wrap(d)
		}
		g := open(t, use)
		addVectors(t, g)
		check(t, g.Close())
		ends[i] = int64(d.Now())
	}
	for _, end := range ends {
		if end != ends[0] || end == 0 {
			t.Fatalf("the host's clock ends at %d ns, eager without and with a recording, lazy without and with", ends)
		}
	}
}

// TestConformance: a wrapped software GPU does what drivers must do.
func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the conformance suite")
	}
	r, _ := recorder(t)
	cutest.Run(t, func(t testing.TB) cu.Driver { return r.Wrap(soft(t, "h200", 2)) })
}

// eventsVariable lets TestConformanceOfEvents run its suite.
const eventsVariable = "FERRY_TEST_TRACE_EVENTS"

// TestConformanceOfEvents: a driver whose operations are measured by events does what
// drivers must do, except in two cases. Events take time, so that two orders of issue
// differ less; and the event after a launch is not done when a launch that waits returns.
func TestConformanceOfEvents(t *testing.T) {
	if os.Getenv(eventsVariable) != "" {
		r, _ := recorder(t)
		cutest.Run(t, func(t testing.TB) cu.Driver { return r.Wrap(bare{soft(t, "h200", 2)}) })
		return
	}
	if testing.Short() {
		t.Skip("runs the conformance suite")
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestConformanceOfEvents$", "-test.skip", "/^(concurrency|async)$/^(issue-order|launch-blocking)$", "-test.v")
	cmd.Env = append(os.Environ(), eventsVariable+"=1")
	out, err := cmd.CombinedOutput()
	if ran := strings.Count(string(out), "--- PASS"); err != nil || ran < 200 {
		t.Errorf("%d cases passed: %v\n%s", ran, err, out)
	}
}

// TestConcurrentCalls: with several goroutines each operation belongs to the call of its
// own goroutine, and calls in progress at the same time have different tracks.
func TestConcurrentCalls(t *testing.T) {
	r, path := recorder(t)
	g := open(t, r.Wrap(soft(t, "h200", 1)))
	const workers, rounds = 4, 50
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			s, err := ferry.NewStream(g, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			n := 1000 + i
			host, err := ferry.AllocHost[byte](g, n, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer host.Close()
			on, err := ferry.Alloc[byte](g, n)
			if err != nil {
				t.Error(err)
				return
			}
			defer on.Close()
			for range rounds {
				if err := errors.Join(ferry.Copy(s, on, host), s.Wait(t.Context())); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	check(t, g.Close())
	rec := ended(t, r, path)
	calls := map[uint64]trace.Call{}
	last := map[int]int64{}
	slices.SortFunc(rec.Calls, func(a, b trace.Call) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End)) })
	for _, c := range rec.Calls {
		calls[c.ID] = c
		if c.Start < last[c.Track] {
			t.Errorf("call %d begins at %d in track %d, before the end of another at %d", c.ID, c.Start, c.Track, last[c.Track])
		}
		last[c.Track] = c.End
	}
	if len(rec.Operations) != workers*rounds {
		t.Errorf("%d operations, want %d", len(rec.Operations), workers*rounds)
	}
	for _, o := range rec.Operations {
		if c := calls[o.Call]; c.Bytes != o.Bytes || c.Stream != o.Stream {
			t.Errorf("operation %+v has the call %+v", o, c)
		}
	}
}

// TestCallsAtOnce: an operation belongs to its own call while another goroutine waits in a
// call that has queued one too.
func TestCallsAtOnce(t *testing.T) {
	r, path := recorder(t)
	w := r.Wrap(soft(t, "h200", 1))
	g := open(t, w)
	ctx := g.CUContext()
	a, b := must(w.StreamCreate(ctx, cu.StreamDefault))(t), must(w.StreamCreate(ctx, cu.StreamNonBlocking))(t)
	on := must(w.MemAlloc(ctx, 8192))(t)
	gate, waited := make(chan struct{}), make(chan error, 1)
	check(t, w.LaunchHostFunc(ctx, a, func() { <-gate }))
	go func() { waited <- w.MemcpyDtoH(ctx, must(w.MemHostAlloc(ctx, 64, 0))(t), on, 64) }() // waits for stream a
	time.Sleep(50 * time.Millisecond)
	check(t, w.MemsetD8Async(ctx, on+4096, 1, 4096, b))
	close(gate)
	check(t, errors.Join(<-waited, w.CtxSynchronize(ctx), g.Close()))
	rec := ended(t, r, path)
	calls := map[uint64]string{}
	for _, c := range rec.Calls {
		calls[c.ID] = c.Name
	}
	for _, o := range rec.Operations {
		want := map[string]string{"[host function]": "cuLaunchHostFunc", "[CUDA memcpy DtoH]": "cuMemcpyDtoH", "[CUDA memset]": "cuMemsetD8Async"}[o.Name]
		if calls[o.Call] != want {
			t.Errorf("%s was queued by %q, want %s", o.Name, calls[o.Call], want)
		}
	}
	if len(rec.Operations) != 3 {
		t.Errorf("%d operations, want 3", len(rec.Operations))
	}
}

// TestEnvironment: FERRY_TRACE records a program that knows nothing of it, and without it
// the driver is the one of the device, so that a call costs nothing more.
func TestEnvironment(t *testing.T) {
	t.Setenv(trace.Variable, "")
	g := must(ferry.Open("soft"))(t)
	if _, ok := g.Driver().(*softgpu.Driver); !ok {
		t.Errorf("without %s the driver is a %T", trace.Variable, g.Driver())
	}
	check(t, g.Close())
	path := t.TempDir() + "/%p.json"
	trace.ResetEnvironment()
	t.Cleanup(trace.ResetEnvironment)
	t.Setenv(trace.Variable, path)
	all := must(ferry.OpenAll("soft:h200*2"))(t)
	if all[0].Driver() != all[1].Driver() {
		t.Error("two devices of one driver have two wrappers")
	}
	if again := must(trace.Environment(all[0].Driver()))(t); again != all[0].Driver() {
		t.Error("a driver that is recorded is wrapped again")
	}
	if softgpu.Of(all[0].Driver()) == nil {
		t.Error("the software GPU is not found behind the wrapper")
	}
	addVectors(t, all[0])
	for _, g := range all {
		check(t, g.Close())
	}
	files := must(os.ReadDir(strings.TrimSuffix(path, "/%p.json")))(t)
	if len(files) != 1 || strings.Contains(files[0].Name(), "p") {
		t.Fatalf("files %v, want one with the process id in its name", files)
	}
	rec := must(trace.ReadFile(strings.TrimSuffix(path, "%p.json") + files[0].Name()))(t)
	if len(rec.Operations) != 4 || len(rec.Devices) < 2 || rec.PID != os.Getpid() {
		t.Errorf("%d operations of %d devices, process %d", len(rec.Operations), len(rec.Devices), rec.PID)
	}
}
