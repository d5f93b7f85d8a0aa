package trace

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry/internal/callsite"
)

// Finished is an operation of a device that has ended, or a call of a driver that has returned. It
// has what a row of a recording has, with times of the wall clock.
type Finished struct {
	Name         string // of a kernel, of another operation as in [Operation], or of a C function
	IsCall       bool   // a call of a driver, not an operation of a device
	Err          error  // why the call failed; nil for operations, and for calls that answer "not ready"
	Device       int    // of an operation
	Stream       int    // its number in recordings, or NoStream
	Engine       string // of an operation, as in [Operation]
	From, To     string // kinds of memory of an operation, as in [Operation]
	Bytes        uint64
	Site         Site // the line of the program that made the call
	Began, Ended time.Time
	Virtual      bool // the times are predictions of a software GPU

	// Tag is the value of [Tag] that the goroutine had when it made the call; nil for none.
	Tag any
}

// Observe gives f what finishes on all drivers that package ferry opens from now on, so call it
// before ferry.Open. It needs no recording, and a recording of FERRY_TRACE goes on. Another call
// replaces f at once; nil ends it.
//
// f gets each call of the driver when it returns, and each operation when its times are known: on
// hardware some milliseconds after its end. Operations without times are left out: what a capture
// records, and where the driver gives no events. f runs on any goroutine, several at the same time,
// and on a software GPU while the driver holds its lock. So it must return soon, must not use a
// GPU, and must not keep its argument.
//
// Times of hardware are measured on the host's monotonic clock, and get the wall clock's date when f
// gets them. Those of operations are as exact as in recordings. A software GPU has virtual time.
// There Began of a call is the wall clock, Began of an operation is that of its call plus the
// predicted time from queueing to start, and both last as long as predicted.
func Observe(f func(*Finished)) { process.set(f) }

// process is the observer of drivers that package ferry opens.
var process observer

// observer is a function that gets what has finished; nil for none.
type observer struct {
	f atomic.Pointer[func(*Finished)]
}

func (o *observer) set(f func(*Finished)) {
	if f == nil {
		o.f.Store(nil)
		return
	}
	o.f.Store(&f)
}

// on reports whether somebody observes.
func (o *observer) on() bool { return o != nil && o.f.Load() != nil }

// origin is where an observed call came from, for its own end and for its operations.
type origin struct {
	site  int
	tag   any
	began time.Time // on the wall clock; only of a software GPU
}

// origin returns where a call of this goroutine comes from; nil if nobody observes.
func (r *Recorder) origin(site int, virtual bool) *origin {
	if !r.observer.on() {
		return nil
	}
	o := &origin{site: site, tag: tags.current()}
	if virtual {
		o.began = time.Now()
	}
	return o
}

// tell gives x to the observer. start and end are on the driver's clock. On a virtual clock zero is
// the time that has the call's began on the wall clock.
func (r *Recorder) tell(from *origin, x *Finished, zero, start, end int64) {
	f := r.observer.f.Load()
	if f == nil {
		return
	}
	now := time.Now()
	base := now.Add(-now.Sub(r.began))
	if x.Virtual = !from.began.IsZero(); x.Virtual {
		base = from.began.Add(-time.Duration(zero))
	}
	x.Began, x.Ended = base.Add(time.Duration(start)), base.Add(time.Duration(end))
	p := r.sites.Place(from.site)
	x.Site, x.Tag = Site{File: p.File, Line: p.Line, Func: p.Func}, from.tag
	(*f)(x)
}

// tellCall gives a call to the observer.
func (r *Recorder) tellCall(c *call, stream int, end int64, err error) {
	if c.origin == nil {
		return
	}
	if !failed(err) {
		err = nil
	}
	r.tell(c.origin, &Finished{Name: c.name, IsCall: true, Err: err, Stream: stream, Bytes: c.bytes}, c.start, c.start, end)
}

// tellOp gives an operation to the observer.
func (r *Recorder) tellOp(o *opRow) {
	if o.origin == nil || o.untimed != "" {
		return
	}
	r.tell(o.origin, &Finished{Name: o.name, Device: o.device, Stream: o.stream, Engine: o.engine, From: o.from, To: o.to, Bytes: o.bytes},
		o.queued, o.start, o.end)
}

// Tag gives the calls of this goroutine, and the operations that they queue, a value for Observe,
// such as the span of a request. It holds until end is called, which must be before the goroutine
// ends, but can be on another one. Of several values the latest one holds. Goroutines that this one
// starts have none of it.
func Tag(value any) (end func()) { return tags.add(callsite.Goroutine(), value) }

// tagsOf has the tags of goroutines, by their numbers.
type tagsOf struct {
	count atomic.Int64 // of tags, so that no call looks for one while there is none
	mu    sync.RWMutex
	all   map[uintptr][]*any
}

var tags tagsOf

func (t *tagsOf) add(goroutine uintptr, value any) (end func()) {
	tag := &value
	t.count.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[uintptr][]*any{}
	}
	t.all[goroutine] = append(t.all[goroutine], tag)
	return sync.OnceFunc(func() { t.remove(goroutine, tag) })
}

func (t *tagsOf) remove(goroutine uintptr, tag *any) {
	t.count.Add(-1)
	t.mu.Lock()
	defer t.mu.Unlock()
	var left []*any
	for _, x := range t.all[goroutine] {
		if x != tag {
			left = append(left, x)
		}
	}
	if t.all[goroutine] = left; len(left) == 0 {
		delete(t.all, goroutine)
	}
}

// current returns the latest tag of the calling goroutine; nil for none.
func (t *tagsOf) current() any {
	if t.count.Load() == 0 {
		return nil
	}
	id := callsite.Goroutine()
	t.mu.RLock()
	defer t.mu.RUnlock()
	if own := t.all[id]; len(own) > 0 {
		return *own[len(own)-1]
	}
	return nil
}
