package libcuda

import (
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
)

// hostCall is a function handed to the driver, which gets a number for it: C
// cannot hold Go pointers.
type hostCall struct {
	fn     func()
	panics *panicTable
	from   *panicList
	keep   bool // recorded in a graph: can run again
}

// hostCalls has every function that has not run yet, and those in graphs.
var hostCalls struct {
	mu   sync.Mutex
	last uintptr // numbers are never used twice
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

// takeHostCall finds a function that is to run, and forgets it unless it is to
// run again.
func takeHostCall(id uintptr) *hostCall {
	hostCalls.mu.Lock()
	defer hostCalls.mu.Unlock()
	c := hostCalls.byID[id]
	if c != nil && !c.keep {
		delete(hostCalls.byID, id)
	}
	return c
}

// hostTrampoline is the one C function that runs them all.
var hostTrampoline = sync.OnceValue(func() uintptr { return newCallback(runHostCall) })

// runHostCall runs on a thread of the driver, to which its goroutine is locked.
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

// Threads that are inside a host function. The count is read by every call.
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

// refuseInHostFunc is an error when the calling goroutine is inside a host
// function, where the driver may wait for itself. A goroutine that the function
// started is not noticed.
func refuseInHostFunc(id procID) error {
	if hostThreadCount.Load() == 0 {
		return nil
	}
	return refuseInside(id)
}

// refuseInside is refuseInHostFunc while some host function runs.
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

// seeHostFuncs makes what host functions wrote before they ended visible to a
// goroutine that has waited for them by way of the driver, in the terms of Go's
// memory model and its race detector: it reads what leaveHostFunc wrote.
func seeHostFuncs() { _ = hostThreadCount.Load() }

// panicTable has the panics of host functions until they are reported.
type panicTable struct {
	waiting atomic.Int32 // panics in all lists
	mu      sync.Mutex
	lists   map[streamKey]*panicList
}

// streamKey is a stream of a context.
type streamKey struct {
	ctx    cu.Context
	stream cu.Stream
}

// Streams of a streamKey that are no streams of the driver.
const (
	allStreams   = ^cu.Stream(0) // what CtxSynchronize asks for
	graphStreams = ^cu.Stream(1) // any stream: functions in graphs
	goneStreams  = ^cu.Stream(2) // destroyed streams
)

// panicList is the panics of one stream.
type panicList struct {
	key    streamKey
	panics []error
}

// list is the list of a stream, made when there is none. Stream 0 is another name
// of the legacy default stream.
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

// add notes a panic. A list of a stream that is gone is in the table no more, and
// the context's list of such streams takes its panics.
func (t *panicTable) add(l *panicList, p *cu.HostPanic) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lists[l.key] != l {
		l = t.gone(l.key.ctx)
	}
	l.panics = append(l.panics, p)
	t.waiting.Add(1)
}

// gone is the list of a context's destroyed streams; the caller holds mu.
func (t *panicTable) gone(ctx cu.Context) *panicList {
	key := streamKey{ctx, goneStreams}
	l := t.lists[key]
	if l == nil {
		l = &panicList{key: key}
		t.lists[key] = l
	}
	return l
}

// forget takes a destroyed stream out of the table: another may get its handle.
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

// drop takes the streams of a destroyed context out of the table.
func (t *panicTable) drop(ctx cu.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.lists, func(key streamKey, l *panicList) bool {
		return key.ctx == ctx && len(l.panics) == 0
	})
}

// report adds to the result of a wait the panics that belong to it. Work that is
// not done yet reports none.
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

// take removes the panics that a wait on a stream reports.
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
