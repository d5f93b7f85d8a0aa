package trace_test

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/cutest"
	"github.com/ferrygpu/ferry/libcuda"
	"github.com/ferrygpu/ferry/trace"
)

// hardware returns the driver library, or skips the test.
func hardware(t testing.TB) cu.Driver {
	t.Helper()
	d, err := libcuda.Open()
	if err == nil {
		err = d.Init(0)
	}
	switch {
	case err == nil:
		return d
	case os.Getenv("FERRY_REQUIRE_GPU") == "1":
		t.Fatalf("FERRY_REQUIRE_GPU is 1, but: %v", err)
	}
	t.Skipf("no GPU here: %v", err)
	return nil
}

// TestHardwareConformance: a recorded GPU does what drivers must do. A run skips the two
// cases that TestConformanceOfEvents names.
func TestHardwareConformance(t *testing.T) {
	d := hardware(t)
	r, _ := recorder(t)
	w := r.Wrap(d)
	cutest.Run(t, func(testing.TB) cu.Driver { return w })
}

// TestHardwareLosesNothing: of 1,000,000 operations in four streams, without a wait
// before the end, each has a row with times, in the order of its stream.
func TestHardwareLosesNothing(t *testing.T) {
	count := &eventCounter{Driver: hardware(t)}
	path := filepath.Join(t.TempDir(), "million.json")
	r := must(trace.Start(&trace.Options{Path: path, Limit: 2 << 30}))(t)
	w := r.Wrap(count)
	g := open(t, w)
	const streams, rounds, n = 4, 125_000, 4096
	on := must(w.MemAlloc(g.CUContext(), streams*n))(t)
	host := must(w.MemHostAlloc(g.CUContext(), streams*n, 0))(t)
	var all [streams]cu.Stream
	for i := range all {
		all[i] = must(w.StreamCreate(g.CUContext(), cu.StreamNonBlocking))(t)
	}
	for i := range rounds {
		for j, s := range all {
			at := on + cu.DevicePtr(j*n)
			check(t, w.MemsetD8Async(g.CUContext(), at, uint8(i), n, s))
			check(t, w.MemcpyDtoHAsync(g.CUContext(), host, at, 64, s))
		}
	}
	check(t, w.CtxSynchronize(g.CUContext()))
	check(t, w.MemFreeHost(g.CUContext(), host))
	check(t, w.MemFree(g.CUContext(), on))
	check(t, g.Close())
	rec := ended(t, r, path)
	// Rows are in the order in which goroutines have read their times.
	slices.SortFunc(rec.Operations, func(a, b trace.Operation) int { return cmp.Compare(a.ID, b.ID) })
	ends, untimed, disorder, worst := map[int]int64{}, 0, 0, int64(0)
	for _, o := range rec.Operations {
		switch {
		case o.Untimed != "":
			untimed++
		case o.Start < ends[o.Stream]-2000 || o.End < o.Start:
			disorder++
			worst = max(worst, ends[o.Stream]-o.Start, o.Start-o.End)
		}
		ends[o.Stream] = o.End
	}
	t.Logf("%d operations, %d events", len(rec.Operations), count.created)
	if want := 2 * streams * rounds; len(rec.Operations) != want || untimed != 0 || disorder != 0 {
		t.Errorf("%d operations, %d without times and %d out of order by up to %d ns, want %d", len(rec.Operations), untimed, disorder, worst, want)
	}
}

// TestHardwareTimes: the times of operations are on the clock of the calls, and a large
// copy takes about as long as the host waits for it.
func TestHardwareTimes(t *testing.T) {
	r, path := recorder(t)
	w := r.Wrap(hardware(t))
	g := open(t, w)
	const n = 256 << 20
	on := must(w.MemAlloc(g.CUContext(), n))(t)
	host := must(w.MemHostAlloc(g.CUContext(), n, 0))(t)
	s := must(w.StreamCreate(g.CUContext(), cu.StreamNonBlocking))(t)
	for range 20 {
		check(t, w.MemcpyHtoDAsync(g.CUContext(), on, host, n, s))
		check(t, w.StreamSynchronize(g.CUContext(), s))
	}
	check(t, w.MemFreeHost(g.CUContext(), host))
	check(t, w.MemFree(g.CUContext(), on))
	check(t, g.Close())
	rec := ended(t, r, path)
	waits := map[uint64]trace.Call{}
	var calls []trace.Call
	for _, c := range rec.Calls {
		waits[c.ID] = c
		if c.Name == "cuStreamSynchronize" {
			calls = append(calls, c)
		}
	}
	for i, o := range rec.Operations {
		c, wait := waits[o.Call], calls[i]
		took, waited := o.End-o.Start, wait.End-c.Start
		t.Logf("queued %d, start %+d, end %+d, waited until %+d ns", c.Start, o.Start-c.Start, o.End-c.Start, wait.End-c.Start)
		if o.Start < c.Start-20_000 || o.End > wait.End+20_000 || took < waited*9/10 {
			t.Errorf("copy %d: from %d to %d, its call began at %d and the wait ended at %d", i, o.Start, o.End, c.Start, wait.End)
		}
	}
	if len(rec.Operations) != 20 {
		t.Errorf("%d operations, want 20", len(rec.Operations))
	}
}

// BenchmarkHardware measures copies of 4 KiB in a stream, with and without a recording:
// what it costs a program that does nothing else.
func BenchmarkHardware(b *testing.B) {
	for _, name := range []string{"trace=off", "trace=on"} {
		b.Run(name, func(b *testing.B) {
			var d = hardware(b)
			if name == "trace=on" {
				r, _ := recorder(b)
				d = r.Wrap(d)
			}
			g := open(b, d)
			host := must(ferry.AllocHost[byte](g, 4096, nil))(b)
			on := must(ferry.Alloc[byte](g, 4096))(b)
			s := must(ferry.NewStream(g, nil))(b)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				check(b, ferry.Copy(s, on, host))
				if i%256 == 255 {
					check(b, s.Wait(b.Context()))
				}
			}
			check(b, s.Wait(b.Context()))
			for _, c := range []interface{ Close() error }{host, on, s, g} {
				check(b, c.Close())
			}
		})
	}
}
