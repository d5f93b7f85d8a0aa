package trace

import (
	"context"
	"errors"
	"fmt"
	rtrace "runtime/trace"
	"sync"

	"github.com/ferrygpu/ferry/cu"
)

// Driver is a [cu.Driver] that records the calls of another one. It passes on each call
// unchanged and is safe for concurrent use if that driver is.
//
// On the software GPU it adds no call, and all times are virtual. On hardware it records
// an event after each operation in the operation's stream, and a goroutine reads the times of
// those that are done. The goroutine exists while operations are pending. An operation starts when
// those that its stream waits for have ended; where none is in progress, or that is not known, an
// event before it tells. It uses no events for a stream that captures. A graph, and the part of a
// batch that is in one stream, is one operation there. The time includes waiting for an engine.
//
// If Wrap did not make it, or the wrapped driver is nil, Init returns an error, and the other
// calls may panic.
type Driver struct {
	inner    cu.Driver
	rec      *Recorder
	id       int // number of the driver in the recording
	emulated cu.Emulated
	soft     *softOps // the operations of a software GPU; nil on hardware
	timer    *timer   // those of hardware; nil on a software GPU
	memory   ranges   // kinds of memory by address
	names    names
	tracks   tracks

	mu       sync.Mutex
	contexts map[cu.Context]*contextUse
	named    map[cu.Device]bool // devices whose names the recording has
}

// Unwrap returns the wrapped driver.
func (d *Driver) Unwrap() cu.Driver {
	if d == nil {
		return nil
	}
	return d.inner
}

// errNoDriver is the error of Init if there is no driver to pass it on to.
var errNoDriver = fmt.Errorf("cuInit: %w: the driver was not made by Wrap, or of no driver", cu.ErrorNotInitialized)

// Wrap returns a driver that records the calls of inner in r. Wrap each driver once, and
// before its first use. Memory that was allocated before has the kind "device" or
// "pageable" in the recording. A Recorder that Start did not make records nothing.
func (r *Recorder) Wrap(inner cu.Driver) *Driver {
	if r == nil || r.sites == nil {
		r = newRecorder(&Options{})
	}
	d := &Driver{inner: inner, rec: r, id: r.newDriver(), emulated: cu.AsEmulated(inner), contexts: map[cu.Context]*contextUse{}, named: map[cu.Device]bool{}}
	clock, profile := "host", ""
	if o := cu.AsObservable(inner); o != nil && d.emulated != nil {
		clock, profile = "virtual", d.emulated.Profile()
		d.soft = newSoftOps(d, o)
		o.Observe(d.soft)
	} else {
		d.timer = newTimer(d)
	}
	r.addDriver(d.id, clock, profile)
	return d
}

// call is a driver call in progress.
type call struct {
	d         *Driver
	name      string // of the C function
	ctx       cu.Context
	stream    cu.Stream
	bytes     uint64
	id        uint64
	site      int
	track     int
	start     int64
	began     *int64  // start on a software GPU, where it can become known later
	timed     *timing // of hardware operations that the call queues; nil for none
	goroutine uintptr // number of the goroutine, if the call queues operations of a software GPU
	region    *rtrace.Region
	origin    *origin // nil if nobody observes

	over            bool   // end has run
	address, source uint64 // that the call allocates, frees or writes, and reads; 0 for none
	kind            string // of the memory that the call allocates or page-locks
	node            int    // of host memory that the call page-locks
}

// begin starts a call. stream is noStream for calls without one.
func (d *Driver) begin(name string, ctx cu.Context, stream cu.Stream, bytes uintptr) call {
	c := call{d: d, name: name, ctx: ctx, stream: stream, bytes: uint64(bytes), node: NoNode}
	c.id, c.site = d.rec.newCall(), d.rec.site()
	c.origin = d.rec.origin(c.site, d.soft != nil)
	if d.rec.regions && rtrace.IsEnabled() {
		c.region = rtrace.StartRegion(context.Background(), name)
	}
	c.track = d.tracks.take()
	if d.soft != nil {
		c.began = d.soft.began()
	} else {
		c.start = d.rec.now()
	}
	return c
}

// keepsOrder reports whether it is known what a stream's next operation waits for after a
// call that queues none.
func keepsOrder(name string) bool {
	switch name {
	case "cuEventRecord", "cuEventRecordWithFlags", "cuStreamWaitEvent", "cuStreamQuery", "cuStreamSynchronize":
		return true
	}
	return false
}

// noStream is the stream of a call without one.
const noStream = ^cu.Stream(0)

// end ends a call and returns err.
func (c *call) end(err error) error {
	c.over = true
	end := c.d.rec.now()
	switch {
	case c.timed != nil:
		c.d.timer.endOps(c, err)
	case c.d.timer != nil && c.stream != noStream && !keepsOrder(c.name):
		c.d.timer.unknown(c.ctx, c.stream)
	}
	if c.goroutine != 0 {
		c.d.soft.leave(c.goroutine)
	}
	if c.region != nil {
		c.region.End()
	}
	if c.d.soft != nil {
		c.d.soft.ended(*c, err)
	} else {
		c.d.rec.addCall(c, end, err)
	}
	c.d.tracks.put(c.track) // after the end of the call on the clock of a software GPU
	return err
}

// panicked ends a call whose driver panics, without a row. The driver can hold its locks
// then, so it gets no call.
func (c *call) panicked() {
	if c.over {
		return
	}
	if c.goroutine != 0 {
		c.d.soft.leave(c.goroutine)
	}
	if c.region != nil {
		c.region.End()
	}
	for x := c.timed; x != nil; x = x.next {
		x.discard()
	}
	c.d.tracks.put(c.track)
}

// failed reports whether err is an error, and not the answer "not ready".
func failed(err error) bool { return err != nil && !errors.Is(err, cu.ErrorNotReady) }

// Submit makes the calls of b; see [cu.Batches].
func (d *Driver) Submit(ctx cu.Context, b *cu.Batch) (done int, err error) {
	c := d.begin("cuSubmit (batch)", ctx, noStream, 0)
	defer c.panicked()
	c.beforeSubmit(b)
	done, err = d.inner.Submit(ctx, b)
	if err != nil && d.timer != nil && b != nil {
		d.timer.endBatch(&c, b.Calls()[:done])
	}
	return done, c.end(err)
}

// tracks gives each call the lowest number that no other call in progress has. Reports draw the
// calls of one number in one row.
type tracks struct {
	mu   sync.Mutex
	used []bool
}

// take returns the lowest free track.
func (l *tracks) take() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, used := range l.used {
		if !used {
			l.used[i] = true
			return i
		}
	}
	l.used = append(l.used, true)
	return len(l.used) - 1
}

// put frees a track.
func (l *tracks) put(i int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used[i] = false
}
