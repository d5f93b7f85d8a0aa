package libcuda

import (
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/forked"
)

// hostCall is a host function that the driver is to call. The driver gets a number
// for it, because C cannot keep Go pointers.
type hostCall struct {
	fn     func()
	panics *panicTable
	from   *panicList
	keep   bool // recorded in a graph, so it can run again
}

// hostCalls has every host function that has not run yet, and those in graphs.
var hostCalls struct {
	mu   sync.Mutex
	last uintptr // the last number; none is used twice
	byID map[uintptr]*hostCall
}

func addHostCall(c *hostCall) uintptr {
	hostCalls.mu.Lock()
	defer hostCalls.mu.Unlock()
	if hostCalls.byID == nil {
		hostCalls.byID = make(map[uintptr]*hostCall)
	}
	hostCalls.last++
	hostCalls.byID[hostCalls.last] = c
	return hostCalls.last
}

func removeHostCall(id uintptr) {
	hostCalls.mu.Lock()
	defer hostCalls.mu.Unlock()
	delete(hostCalls.byID, id)
}

// takeHostCall finds a host function by its number, and removes it unless it can run
// again.
func takeHostCall(id uintptr) *hostCall {
	hostCalls.mu.Lock()
	defer hostCalls.mu.Unlock()
	c := hostCalls.byID[id]
	if c != nil && !c.keep {
		delete(hostCalls.byID, id)
	}
	return c
}

// hostTrampoline returns the C function that runs every host function.
var hostTrampoline = sync.OnceValue(func() uintptr { return newCallback(runHostCall) })

// runHostCall runs a host function on a thread of the driver, to which the goroutine
// is locked.
func runHostCall(id uintptr) {
	c := takeHostCall(id)
	if c == nil {
		return
	}
	enterHostFunc()
	defer leaveHostFunc()
	defer func() {
		if v := recover(); v != nil {
			c.panics.add(c.from, &cu.HostPanic{Value: v, Stack: debug.Stack()})
		}
	}()
	c.fn()
}

// Threads that run a host function. Every call of the driver reads the count.
var (
	hostThreadCount atomic.Int32
	hostThreadsMu   sync.Mutex
	hostThreads     = make(map[int]bool)
)

func enterHostFunc() {
	hostThreadsMu.Lock()
	hostThreads[threadID()] = true
	hostThreadsMu.Unlock()
	hostThreadCount.Add(1)
}

func leaveHostFunc() {
	hostThreadCount.Add(-1)
	hostThreadsMu.Lock()
	delete(hostThreads, threadID())
	hostThreadsMu.Unlock()
}

// refuseInHostFunc returns an error when the calling goroutine runs a host function,
// where the driver may wait for itself. It does not notice a goroutine that the host
// function started. It also returns an error in a forked child.
func refuseInHostFunc(id procID) error {
	if forked.Child() {
		return forked.New(procs[id].symbol)
	}
	if hostThreadCount.Load() == 0 {
		return nil
	}
	return refuseInside(id)
}

// refuseInside does the work of refuseInHostFunc while a host function runs.
func refuseInside(id procID) error {
	hostThreadsMu.Lock()
	inside := hostThreads[threadID()]
	hostThreadsMu.Unlock()
	if !inside {
		return nil
	}
	return fmt.Errorf("%s called by a host function, which must not use the driver; hand the work to another goroutine and return: %w",
		procs[id].symbol, cu.ErrorNotPermitted)
}

// seeHostFuncs makes the writes of host functions that have ended visible to a
// goroutine that waited for them in the driver. It reads the count that leaveHostFunc
// wrote, which is a synchronization by Go's memory model and for the race detector.
func seeHostFuncs() { _ = hostThreadCount.Load() }

// panicTable keeps the panics of host functions until they are reported.
type panicTable struct {
	waiting atomic.Int32 // number of panics in all lists
	mu      sync.Mutex
	lists   map[streamKey]*panicList
}

// streamKey names a stream of a context.
type streamKey struct {
	ctx    cu.Context
	stream cu.Stream
}

// Values of streamKey.stream that are no streams of the driver.
const (
	allStreams   = ^cu.Stream(0) // every stream, for waits on a context
	graphStreams = ^cu.Stream(1) // any stream, for functions in graphs
	goneStreams  = ^cu.Stream(2) // destroyed streams
)

// panicList has the panics of one stream.
type panicList struct {
	key    streamKey
	panics []error
}

// list returns the list of a stream, and makes it when there is none. Stream 0 is
// another name of the legacy default stream.
func (t *panicTable) list(ctx cu.Context, stream cu.Stream) *panicList {
	if stream == 0 {
		stream = cu.StreamLegacy
	}
	key := streamKey{ctx, stream}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lists == nil {
		t.lists = make(map[streamKey]*panicList)
	}
	l := t.lists[key]
	if l == nil {
		l = &panicList{key: key}
		t.lists[key] = l
	}
	return l
}

// add records a panic. The list of a destroyed stream is no longer in the table; the
// context's list for such streams then takes the panic.
func (t *panicTable) add(l *panicList, p *cu.HostPanic) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lists[l.key] != l {
		l = t.gone(l.key.ctx)
	}
	l.panics = append(l.panics, p)
	t.waiting.Add(1)
}

// gone returns the list for a context's destroyed streams. The caller holds mu.
func (t *panicTable) gone(ctx cu.Context) *panicList {
	key := streamKey{ctx, goneStreams}
	l := t.lists[key]
	if l == nil {
		l = &panicList{key: key}
		t.lists[key] = l
	}
	return l
}

// forget removes a destroyed stream from the table, because a new stream can get its
// handle.
func (t *panicTable) forget(ctx cu.Context, stream cu.Stream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := streamKey{ctx, stream}
	if l := t.lists[key]; l != nil {
		delete(t.lists, key)
		if len(l.panics) > 0 {
			gone := t.gone(ctx)
			gone.panics = append(gone.panics, l.panics...)
		}
	}
}

// drop removes the streams of a destroyed context from the table.
func (t *panicTable) drop(ctx cu.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.lists, func(key streamKey, l *panicList) bool {
		return key.ctx == ctx && len(l.panics) == 0
	})
}

// report adds the panics that a wait reports to its result. It adds none while work
// is not done.
func (t *panicTable) report(err error, ctx cu.Context, stream cu.Stream) error {
	if t.waiting.Load() == 0 || err == cu.ErrorNotReady {
		return err
	}
	panics := t.take(ctx, stream)
	if len(panics) == 0 {
		return err
	}
	if err == nil && len(panics) == 1 {
		return panics[0]
	}
	return errors.Join(append([]error{err}, panics...)...)
}

// take removes and returns the panics that a wait on a stream reports.
func (t *panicTable) take(ctx cu.Context, stream cu.Stream) []error {
	if stream == 0 {
		stream = cu.StreamLegacy
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var panics []error
	for key, l := range t.lists {
		if key.ctx == ctx && (key.stream == stream || key.stream == graphStreams || stream == allStreams) {
			panics = append(panics, l.panics...)
			l.panics = nil
		}
	}
	t.waiting.Add(-int32(len(panics)))
	return panics
}
