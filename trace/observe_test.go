package trace_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/trace"
)

// seen keeps what an observer gets.
type seen struct {
	mu  sync.Mutex
	all []trace.Finished
}

func (s *seen) observe(f *trace.Finished) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, *f)
}

// some returns what was seen and fits.
func (s *seen) some(fits func(*trace.Finished) bool) (some []trace.Finished) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.all {
		if fits(&f) {
			some = append(some, f)
		}
	}
	return some
}

func isOperation(f *trace.Finished) bool { return !f.IsCall }

// observed records and observes what f does with a GPU. On a busy machine operations of hardware can lack
// times, which the observer does not get: then f gets another GPU.
func observed(t *testing.T, hardware bool, f func(g *ferry.GPU)) (*seen, *trace.Recording) {
	t.Helper()
	for range 100 {
		s, path := new(seen), filepath.Join(t.TempDir(), "r.json")
		r := must(trace.Start(&trace.Options{Path: path, Observe: s.observe}))(t)
		var d cu.Driver = soft(t, "h200", 1)
		if hardware {
			d = bare{d}
		}
		g := open(t, r.Wrap(d))
		f(g)
		check(t, g.Close())
		rec := ended(t, r, path)
		if !slices.ContainsFunc(rec.Operations, func(o trace.Operation) bool { return o.Untimed == "no events" }) {
			return s, rec
		}
	}
	t.Fatal("operations had no events in 100 runs")
	return nil, nil
}

// TestObserve: the observer gets the operations and calls of the recording, with their durations and
// lines, on the wall clock, on a software GPU and where events measure the times.
func TestObserve(t *testing.T) {
	for _, hardware := range []bool{false, true} {
		before := time.Now()
		s, rec := observed(t, hardware, func(g *ferry.GPU) { addVectors(t, g) })
		ops := s.some(isOperation)
		if len(ops) != len(rec.Operations) || len(ops) < 4 {
			t.Fatalf("hardware=%v: %d operations were observed, and %d recorded", hardware, len(ops), len(rec.Operations))
		}
		for i, x := range ops {
			want := rec.Operations[i]
			if x.Name != want.Name || x.Bytes != want.Bytes || x.From != want.From || x.To != want.To || x.Engine != want.Engine || x.Stream != want.Stream || x.Err != nil {
				t.Errorf("observed %+v, recorded %+v", x, want)
			}
			if took := x.Ended.Sub(x.Began); int64(took) != want.End-want.Start || x.Virtual == hardware {
				t.Errorf("%s took %v, recorded %d ns; virtual: %v", x.Name, took, want.End-want.Start, x.Virtual)
			}
			if !strings.HasSuffix(x.Site.File, "helpers_test.go") || x.Began.Before(before) || x.Began.After(time.Now().Add(time.Minute)) {
				t.Errorf("%s is of %v, at %v, not since %v", x.Name, x.Site, x.Began, before)
			}
		}
		calls := s.some(func(f *trace.Finished) bool { return f.IsCall })
		if len(calls) != len(rec.Calls) {
			t.Fatalf("hardware=%v: %d calls were observed, and %d recorded", hardware, len(calls), len(rec.Calls))
		}
		for i, x := range calls {
			if want := rec.Calls[i]; x.Name != want.Name || x.Bytes != want.Bytes || int64(x.Ended.Sub(x.Began)) != want.End-want.Start || (x.Err != nil) != (want.Error != "" && !strings.Contains(want.Error, cu.ErrorNotReady.Error())) {
				t.Errorf("observed %+v, recorded %+v", x, want)
			}
		}
	}
}

// TestTag: the operations and calls of a goroutine have its latest tag, also those of batches and
// graphs, and a call that fails has its error.
func TestTag(t *testing.T) {
	const goroutines, each = 4, 20
	for _, hardware := range []bool{false, true} {
		s, _ := observed(t, hardware, func(g *ferry.GPU) {
			var work sync.WaitGroup
			for i := range goroutines {
				work.Go(func() {
					if err := fillWithTags(g, i, each); err != nil {
						t.Error(err)
					}
				})
			}
			work.Wait()
		})
		for i := range goroutines {
			of := func(tag any) int {
				return len(s.some(func(f *trace.Finished) bool { return !f.IsCall && f.Bytes == uint64(100+i) && f.Tag == tag }))
			}
			if of(i) != each+1 || of("outer") != 1 || of(nil) != 1 {
				t.Errorf("hardware=%v: goroutine %d has %d operations with its tag, %d with the outer one, %d with none; want %d, 1, 1",
					hardware, i, of(i), of("outer"), of(nil), each+1)
			}
			failed := s.some(func(f *trace.Finished) bool { return f.Tag == i && f.Err != nil })
			if len(failed) != 1 || failed[0].Name != "cuMemFree" || !errors.Is(failed[0].Err, cu.ErrorInvalidValue) {
				t.Errorf("goroutine %d has the failed calls %+v", i, failed)
			}
		}
	}
}

// fillWithTags fills 100+tag bytes: n times and in a batch with the tag, once with "outer", and once
// without a tag. With the tag a call fails.
func fillWithTags(g *ferry.GPU, tag, n int) error {
	outer := trace.Tag("outer")
	defer outer()
	end := trace.Tag(tag)
	stream, err := ferry.NewStream(g, nil)
	data, err2 := ferry.Alloc[byte](g, 100+tag)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	var errs []error
	fill := func(q ferry.Queue) { errs = append(errs, ferry.Fill(q, data, 1)) }
	for range n {
		fill(stream)
	}
	var b ferry.Batch
	fill(&b)
	errs = append(errs, stream.Submit(&b))
	if g.Driver().MemFree(g.CUContext(), 12345) == nil {
		errs = append(errs, errors.New("a wrong address was freed"))
	}
	end()
	end() // a second time does nothing
	fill(stream)
	outer()
	fill(stream)
	return errors.Join(append(errs, stream.Wait(context.Background()), data.Close(), stream.Close())...)
}

// TestTagGraph: what a launch of a graph does has the tag of the goroutine that launches it, and what
// a capture records is left out.
func TestTagGraph(t *testing.T) {
	for _, hardware := range []bool{false, true} {
		s, _ := observed(t, hardware, func(g *ferry.GPU) {
			stream := must(ferry.NewStream(g, nil))(t)
			data := must(ferry.Alloc[byte](g, 64))(t)
			graph := must(stream.Capture(func(s *ferry.Stream) error { return ferry.Fill(s, data, 1) }))(t)
			end := trace.Tag("launch")
			check(t, graph.Launch(stream))
			check(t, stream.Wait(context.Background()))
			end()
			check(t, errors.Join(graph.Close(), data.Close(), stream.Close()))
		})
		if ops := s.some(isOperation); len(ops) != 1 || ops[0].Tag != "launch" {
			t.Errorf("hardware=%v: the capture and the launch are observed as %+v", hardware, ops)
		}
	}
}

// TestVirtualTimesOnTheWallClock: what a software GPU does has the wall clock's date, however far its
// virtual clock has come.
func TestVirtualTimesOnTheWallClock(t *testing.T) {
	sample.SkipRace(t) // the detector looks at each of many bytes
	var s seen
	r := must(trace.Start(&trace.Options{Observe: s.observe}))(t)
	g := open(t, r.Wrap(soft(t, "h200", 1)))
	for range 1000 { // 300 s of virtual time
		p := must(g.Driver().MemHostAlloc(g.CUContext(), 1<<30, 0))(t)
		check(t, g.Driver().MemFreeHost(g.CUContext(), p))
	}
	if g.Now() < 100*time.Second {
		t.Fatalf("the virtual clock is at %v", g.Now())
	}
	before := time.Now()
	addVectors(t, g)
	late := s.some(func(f *trace.Finished) bool { return f.Began.After(before.Add(50 * time.Second)) })
	if early := s.some(func(f *trace.Finished) bool { return f.Began.Before(before) }); len(late) > 0 || len(early) < 2000 {
		t.Errorf("%d began before the vectors, %d too late", len(early), len(late))
	}
	check(t, g.Close())
}

// TestObserveProcess: the function of Observe gets what drivers do that package ferry opens, with a
// recording of FERRY_TRACE and without one, until another replaces it.
func TestObserveProcess(t *testing.T) {
	fill := func(g *ferry.GPU) {
		t.Helper()
		data := must(ferry.Alloc[byte](g, 64))(t)
		check(t, ferry.Fill(g.DefaultStream(), data, 1))
		check(t, g.Wait(context.Background()))
		check(t, data.Close())
	}
	memset := func(f *trace.Finished) bool { return f.Name == "[CUDA memset]" }
	for _, path := range []string{"", filepath.Join(t.TempDir(), "r.json")} {
		t.Setenv(trace.Variable, path)
		var first, second seen
		trace.Observe(first.observe)
		defer trace.Observe(nil)
		g := must(ferry.Open("soft"))(t)
		fill(g)
		trace.Observe(second.observe)
		fill(g)
		trace.Observe(nil)
		fill(g)
		if a, b := len(first.some(memset)), len(second.some(memset)); a != 1 || b != 1 {
			t.Errorf("FERRY_TRACE=%q: the functions got %d and %d fills, want 1 each", path, a, b)
		}
		_, wrapped := cu.As[*trace.Driver](g.Driver())
		check(t, g.Close())
		g = must(ferry.Open("soft"))(t)
		if _, after := cu.As[*trace.Driver](g.Driver()); !wrapped || after != (path != "") {
			t.Errorf("FERRY_TRACE=%q: the driver is recorded: %v, and after Observe(nil): %v", path, wrapped, after)
		}
		check(t, g.Close())
	}
}
