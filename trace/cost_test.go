package trace_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// stopwatch measures the calls of a driver that a recording makes for itself, and the copy.
type stopwatch struct {
	cu.Driver
	mu    sync.Mutex
	count map[string]int
	took  map[string]time.Duration
}

func (d *stopwatch) Unwrap() cu.Driver { return d.Driver }

func (d *stopwatch) over(name string, began time.Time) {
	took := time.Since(began)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count[name]++
	d.took[name] += took
}

func (d *stopwatch) MemcpyHtoDAsync(ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, s cu.Stream) error {
	defer d.over("copy", time.Now())
	return d.Driver.MemcpyHtoDAsync(ctx, dst, src, n, s)
}

func (d *stopwatch) EventRecord(ctx cu.Context, e cu.Event, s cu.Stream) error {
	defer d.over("record", time.Now())
	return d.Driver.EventRecord(ctx, e, s)
}

func (d *stopwatch) EventQuery(ctx cu.Context, e cu.Event) error {
	began := time.Now()
	err := d.Driver.EventQuery(ctx, e)
	if err == nil {
		d.over("query-done", began)
	} else {
		d.over("query-busy", began)
	}
	return err
}

func (d *stopwatch) EventElapsedTime(ctx cu.Context, a, b cu.Event) (float32, error) {
	defer d.over("elapsed", time.Now())
	return d.Driver.EventElapsedTime(ctx, a, b)
}

func (d *stopwatch) ThreadExchangeStreamCaptureMode(m cu.StreamCaptureMode) (cu.StreamCaptureMode, error) {
	defer d.over("mode", time.Now())
	return d.Driver.ThreadExchangeStreamCaptureMode(m)
}

// copiesPerWait is the number of copies between two waits in BenchmarkHardwareCost.
const copiesPerWait = 256

// way is one way to make copies in BenchmarkHardwareCost.
type way struct {
	name string
	copy func(i int) error // the i-th copy since the last wait
	wait func() error
	each bool      // waits after each copy
	took []float64 // ns for each copy, with its part of the wait
}

// run makes the copies of one turn.
func (x *way) run() error {
	began := time.Now()
	for i := range copiesPerWait {
		if err := x.copy(i); err != nil {
			return err
		}
		if x.each {
			if err := x.wait(); err != nil {
				return err
			}
		}
	}
	if err := x.wait(); err != nil {
		return err
	}
	x.took = append(x.took, float64(time.Since(began).Nanoseconds())/copiesPerWait)
	return nil
}

// BenchmarkHardwareCost measures what a recording adds to a copy of 4 KiB, and which part of it
// the driver takes for events. The ways to copy take turns: 256 copies and a wait each. The
// metrics are medians for each copy.
func BenchmarkHardwareCost(b *testing.B) {
	d := hardware(b)
	r, _ := recorder(b)
	sr, _ := recorder(b)
	watch := &stopwatch{Driver: d, count: map[string]int{}, took: map[string]time.Duration{}}
	w, ws := cu.Driver(r.Wrap(d)), cu.Driver(sr.Wrap(watch))
	g, gw, gs := open(b, d), open(b, w), open(b, ws)
	defer func() { check(b, gs.Close()); check(b, gw.Close()); check(b, g.Close()) }()
	ctx := g.CUContext()
	const n = 4096
	host := must(d.MemHostAlloc(ctx, n, 0))(b)
	on := must(d.MemAlloc(ctx, n))(b)
	events := make([]cu.Event, 2*copiesPerWait+1)
	for i := range events {
		events[i] = must(d.EventCreate(ctx, cu.EventDefault))(b)
	}
	base, events := events[0], events[1:]
	newStream := func() cu.Stream { return must(d.StreamCreate(ctx, cu.StreamNonBlocking))(b) }
	by := func(name string, d cu.Driver, s cu.Stream) *way {
		return &way{name: name, copy: func(int) error { return d.MemcpyHtoDAsync(ctx, on, host, n, s) },
			wait: func() error { return d.StreamSynchronize(ctx, s) }}
	}
	// byHand wraps the plain copy in calls before and after it.
	byHand := func(name string, before, after func(s cu.Stream, i int), wait func()) *way {
		s := newStream()
		p := by(name, d, s)
		plain, sync := p.copy, p.wait
		p.copy = func(i int) error {
			before(s, i)
			defer after(s, i)
			return plain(i)
		}
		p.wait = func() error { defer wait(); return sync() }
		return p
	}
	nothing := func(cu.Stream, int) {}
	end := func(s cu.Stream, i int) { _ = d.EventRecord(ctx, events[2*i+1], s) }
	start := func(s cu.Stream, i int) { _ = d.EventRecord(ctx, events[2*i], s) }
	relaxed := func() {
		m, _ := d.ThreadExchangeStreamCaptureMode(cu.StreamCaptureModeRelaxed)
		_, _ = d.ThreadExchangeStreamCaptureMode(m)
	}
	busy, asked := 0, 0
	query := func(s cu.Stream, i int) {
		if i > 0 {
			asked++
			if d.EventQuery(ctx, events[2*i-1]) != nil {
				busy++
			}
		}
	}
	elapsed := func(every int) func() {
		return func() {
			for i := 0; i < copiesPerWait; i++ {
				_, _ = d.EventElapsedTime(ctx, base, events[2*i+1])
				if every == 2 {
					_, _ = d.EventElapsedTime(ctx, base, events[2*i])
				}
			}
		}
	}
	none := func() {}
	sBase := newStream()
	check(b, d.EventRecord(ctx, base, sBase))
	check(b, d.StreamSynchronize(ctx, sBase))
	var issued atomic.Int64
	request, finished := make(chan bool), make(chan bool)
	go func() { // reads times of other events on another thread while copies are made
		for range request {
			for i := int64(0); i < copiesPerWait; {
				if i < issued.Load() {
					_, _ = d.EventElapsedTime(ctx, base, base)
					_, _ = d.EventElapsedTime(ctx, base, base)
					i++
				}
			}
			finished <- true
		}
	}()
	aside := byHand("start-end-elapsed-aside", func(s cu.Stream, i int) {
		if i == 0 {
			issued.Store(0)
			request <- true
		}
		start(s, i)
	}, func(s cu.Stream, i int) {
		end(s, i)
		issued.Store(int64(i + 1))
	}, none)
	ways := []*way{
		by("plain", d, newStream()),
		by("recorded", w, newStream()),
		by("watched", ws, newStream()),
		byHand("end", nothing, end, none),
		byHand("start-end", start, end, none),
		byHand("query-end", query, end, none),
		byHand("mode-end", func(cu.Stream, int) { relaxed() }, end, none),
		byHand("end-elapsed", nothing, end, elapsed(1)),
		byHand("start-end-elapsed", start, end, elapsed(2)),
		aside,
		by("plain-wait-each", d, newStream()),
		by("recorded-wait-each", w, newStream()),
		byHand("start-end-wait-each", start, end, none),
	}
	for _, x := range ways[len(ways)-3:] {
		x.each = true
	}
	rounds := 0
	for b.Loop() {
		for _, x := range ways {
			if err := x.run(); err != nil {
				b.Fatal(x.name, err)
			}
			if x == aside {
				<-finished
			}
		}
		rounds++
	}
	close(request)
	for _, x := range ways {
		slices.Sort(x.took)
		b.ReportMetric(x.took[len(x.took)/2], x.name+"-ns")
	}
	b.ReportMetric(0, "ns/op")
	var text strings.Builder
	for _, x := range []struct {
		name string
		call func()
	}{
		{"record", func() { _ = d.EventRecord(ctx, events[0], sBase) }},
		{"query, done", func() { _ = d.EventQuery(ctx, base) }},
		{"elapsed", func() { _, _ = d.EventElapsedTime(ctx, base, events[1]) }},
		{"capture mode, there and back", relaxed},
	} {
		check(b, d.CtxSynchronize(ctx))
		began := time.Now()
		for range 100 {
			x.call()
		}
		fmt.Fprintf(&text, "%s %d ns; ", x.name, time.Since(began).Nanoseconds()/100)
	}
	b.Logf("calls alone: %s", text.String())
	b.Logf("%d of %d questions found the stream busy", busy, asked)
	copies := float64(rounds * copiesPerWait)
	text.Reset()
	for _, name := range slices.Sorted(maps.Keys(watch.count)) {
		n, took := float64(watch.count[name]), float64(watch.took[name].Nanoseconds())
		fmt.Fprintf(&text, "%s %.2f, %.0f ns each; ", name, n/copies, took/n)
	}
	b.Logf("calls for a copy that is recorded and watched: %s", text.String())
}
