package fault

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// Mode is how a call fails.
type Mode uint8

// The modes.
const (
	Refused Mode = iota // it does nothing
	Done                // it does its work, and returns the error; work that it queued ends before memory is freed
	Sticky              // it does nothing, and every later call returns the error, too
	Late                // it works, after Options.Delay

	// Async makes a call that queues work return no error, but the work is not done. The next
	// call that waits, asks or frees returns the error, and so does every call after it. A copy
	// to pageable memory waits, so it returns the error itself, unless it is captured.
	// Failure.Nth counts only calls that queue work.
	Async

	// Never makes a host function wait until [Driver.Release] is called. Work queued behind it
	// waits, as on hardware. LateCallback starts it after Options.Delay. For these modes
	// Failure.Nth counts only calls of cuLaunchHostFunc.
	Never
	LateCallback
)

var modes = [...]string{"refused", "done", "sticky", "late", "async", "never", "late callback"}

func (m Mode) String() string {
	if int(m) < len(modes) {
		return modes[m]
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// counts reports whether a call is one of those of which the mode counts the nth.
func (m Mode) counts(name string) bool {
	switch m {
	case Async:
		return queues(name)
	case Never, LateCallback:
		return name == hostFunc
	}
	return true
}

// Failure is a call that fails.
type Failure struct {
	// Call is the name of a C function such as "cuMemAlloc", without a version. Nth counts
	// only calls of this function. "" stands for every function.
	Call string
	// Nth is the number of the call that fails, counted from 1. With 0 none fails.
	Nth uint64
	// Mode is how the call fails.
	Mode Mode
	// Code is the error; 0 stands for cu.ErrorOutOfMemory.
	Code cu.Result
}

// Options choose which calls fail, and how. The zero Options let none fail: then the driver
// counts calls and knows what is live.
type Options struct {
	// Call, Nth, Mode and Code are a first failure: see [Failure].
	Call string
	Nth  uint64
	Mode Mode
	Code cu.Result
	// More are further failures of the same run. Each counts its calls itself.
	More []Failure
	// Delay is how long a late call or callback takes in addition.
	Delay time.Duration
	// Every lets calls fail at random, one of Every calls on average, refused or done, with
	// any code of [Codes]. 0 lets none fail. The same Seed gives the same sequence.
	Every uint64
	Seed  uint64
	// MemoryLimit is how many bytes of device memory and page-locked memory can be in use at
	// a time. An allocation above it is refused: out of memory. 0 for no limit.
	MemoryLimit uint64
	// OneContext makes a sticky error end only the context of the call. Otherwise every context
	// of every device is lost, as on an H200: docs/SEMANTICS.md, Faults.
	OneContext bool
}

// Codes returns the errors that leave the context as it is. Those that are no failures are
// missing: not ready, not permitted in a host function, and the end of the driver.
func Codes() []cu.Result {
	return slices.Clone(codes)
}

var codes = func() (all []cu.Result) {
	for r := cu.Result(1); r < 1000; r++ {
		switch known := r.Name() != fmt.Sprintf("CUDA_ERROR_%d", r); {
		case !known, r.Sticky(), r == cu.ErrorNotReady, r == cu.ErrorNotPermitted, r == cu.ErrorDeinitialized, r == cu.ErrorContextIsDestroyed:
		default:
			all = append(all, r)
		}
	}
	return all
}()

// Driver is a [cu.Driver] whose calls can fail. It is safe for concurrent use. If Wrap did not
// make it, or the wrapped driver is nil, Init returns an error, and the other calls may panic.
type Driver struct {
	inner   cu.Driver
	o       Options
	release chan struct{} // closed by Release
	loss    cu.Loss

	mu       sync.Mutex
	calls    uint64 // all so far
	failures []Failure
	counted  []uint64 // calls so far, by failure
	random   *rand.Rand
	pending  map[cu.Context]cu.Result // faults that no call has reported yet; context 0 stands for all
	lost     map[cu.Context]cu.Result // that every call returns
	contexts map[object]cu.Context    // of what made them
	untold   bool                     // work was queued of which the caller does not know
	failed   string                   // what failed first
	live     map[object]int
	sizes    map[object]uint64
	parts    map[object]object // mappings, and the memory that they keep
	used     uint64            // the sum of sizes
}

// object is what a call creates.
type object struct {
	kind string
	at   uint64
}

// Wrap returns a driver that passes on the calls of inner, but for those that fail.
func Wrap(inner cu.Driver, o Options) *Driver {
	d := &Driver{inner: inner, o: o, release: make(chan struct{}), random: rand.New(rand.NewPCG(o.Seed, 0)),
		pending: map[cu.Context]cu.Result{}, lost: map[cu.Context]cu.Result{}, live: map[object]int{},
		contexts: map[object]cu.Context{}, sizes: map[object]uint64{}, parts: map[object]object{}}
	d.failures = append([]Failure{{o.Call, o.Nth, o.Mode, o.Code}}, o.More...)
	for i := range d.failures {
		if d.failures[i].Code == 0 {
			d.failures[i].Code = cu.ErrorOutOfMemory
		}
	}
	d.counted = make([]uint64, len(d.failures))
	if inner := cu.AsLoss(inner); inner != nil {
		d.loss.Remedy = inner.Remedy
	}
	return d
}

// Release lets the host functions run that wait because of [Never]. It can be called twice.
func (d *Driver) Release() {
	if d == nil || d.release == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.release:
	default:
		close(d.release)
	}
}

// Restore ends [Sticky]: calls work again, as when a device is available again. The program
// sees no end of an error that loses the context: see [cu.Result.Sticky]. It does nothing on a
// nil Driver.
func (d *Driver) Restore() {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.pending)
	clear(d.lost)
}

// Loss remembers the first sticky error, the driver's own or that of the wrapped driver; see
// [cu.Losing].
func (d *Driver) Loss() *cu.Loss {
	if d == nil {
		return nil
	}
	if inner := cu.AsLoss(d.inner); inner != nil && d.loss.Lost() == nil {
		return inner
	}
	return &d.loss
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

// Calls returns how many calls were made so far, those that failed included.
func (d *Driver) Calls() uint64 {
	if d == nil {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls
}

// Failed says which call failed first, such as "cuMemAlloc, call 17: done, but
// CUDA_ERROR_OUT_OF_MEMORY"; "" if none did.
func (d *Driver) Failed() string {
	if d == nil {
		return ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

// Live lists what was created and not freed, such as "stream 0x7f00", sorted.
func (d *Driver) Live() []string {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	all := []string{}
	for o, n := range d.live {
		for range n {
			all = append(all, fmt.Sprintf("%s %#x", o.kind, o.at))
		}
	}
	slices.Sort(all)
	return all
}

// hostFunc is the call that queues a host function.
const hostFunc = "cuLaunchHostFunc"

// queues reports whether a call queues work, and can return before it is done.
func queues(name string) bool {
	return name != "cuMemAllocAsync" && name != "cuMemAllocFromPoolAsync" && name != "cuMemFreeAsync" &&
		(strings.HasSuffix(name, "Async") || strings.HasPrefix(name, "cuLaunch") || name == "cuGraphLaunch")
}

// reports reports whether a call returns the error of work that was queued before: it waits,
// asks, copies at once, or frees.
func reports(name string) bool {
	switch {
	case strings.HasSuffix(name, "Synchronize"), name == "cuStreamQuery", name == "cuEventQuery", name == "cuMemFree", name == "cuMemFreeHost":
		return true
	}
	return strings.HasPrefix(name, "cuMemcpy") && !strings.Contains(name, "Async")
}

// outcome is what happens to a call.
type outcome struct {
	err      error // nil if it does not fail
	done     bool  // it is made all the same
	skipped  bool  // it is not made, and returns no error
	callback Mode  // Never or LateCallback, 0 for neither
}

// next counts a call and returns what happens to it. frees is set for calls that free
// something: after a sticky error they are made, because hardware gives memory back with
// the context. ctx is 0 for calls that have no context.
func (d *Driver) next(name string, frees bool, ctx cu.Context) outcome {
	d.mu.Lock()
	out, late := d.decide(name, frees, ctx)
	var ended []cu.Context
	if frees && strings.HasPrefix(name, "cuMem") { // others may end a capture, which must not wait
		ended = d.ended()
	}
	d.mu.Unlock()
	for _, ctx := range ended {
		_ = d.inner.CtxSynchronize(ctx)
	}
	if late {
		time.Sleep(d.o.Delay)
	}
	return out
}

// ended returns the contexts whose queued work must end before memory is freed. They have live
// objects and are lost. Once a failed call has queued work, every context with live objects counts,
// because the program cannot wait for that work. The caller holds mu.
func (d *Driver) ended() (all []cu.Context) {
	for o, ctx := range d.contexts {
		lost := d.lost[0] != 0 || d.lost[ctx] != 0
		if d.live[o] > 0 && (lost || d.untold) {
			all = append(all, ctx)
		}
		if lost { // it gets no more work
			delete(d.contexts, o)
		}
	}
	d.untold = false
	return all
}

// decide is next. The caller holds mu.
func (d *Driver) decide(name string, frees bool, ctx cu.Context) (out outcome, late bool) {
	d.calls++
	of := d.losing(ctx)
	if reports(name) {
		d.reveal(of)
	}
	if code := d.lost[of]; code != 0 {
		return outcome{err: d.report(code), done: frees}, false
	}
	f, fails := d.failing(name)
	if !fails {
		return outcome{}, false
	}
	if d.failed == "" {
		d.failed = fmt.Sprintf("%s, call %d: %v, %s", name, d.calls, f.Mode, f.Code.Name())
	}
	switch f.Mode {
	case Late:
		return outcome{}, true
	case Never, LateCallback:
		return outcome{callback: f.Mode}, false
	case Async:
		d.pending[of] = f.Code
		return outcome{skipped: true}, false
	case Sticky:
		d.lost[of] = f.Code
	case Done:
		d.untold = d.untold || queues(name)
	}
	return outcome{err: d.report(f.Code), done: f.Mode == Done || f.Mode == Sticky && frees}, false
}

// losing returns what a sticky error of a context loses: the context, or 0 for all.
func (d *Driver) losing(ctx cu.Context) cu.Context {
	if d.o.OneContext {
		return ctx
	}
	return 0
}

// reveal makes a fault that no call has reported yet the error of every call, from this one on.
// The caller holds mu.
func (d *Driver) reveal(of cu.Context) {
	if code := d.pending[of]; code != 0 {
		d.lost[of] = code
		delete(d.pending, of)
	}
}

// copiesTo returns what happens to a copy for which next has returned out. A copy to pageable
// memory waits, so it returns a fault of its context, its own included. One that is captured does
// not wait.
func (d *Driver) copiesTo(out outcome, ctx cu.Context, dst cu.DevicePtr, s cu.Stream) outcome {
	of := d.losing(ctx)
	d.mu.Lock()
	faulted := d.pending[of] != 0 || out.skipped // another call may have reported the fault since
	d.mu.Unlock()
	if !faulted || !d.mustWait(ctx, dst, s) {
		return out
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reveal(of); d.lost[of] == 0 { // Restore was called
		return out
	}
	return outcome{err: d.report(d.lost[of])}
}

// mustWait reports whether a copy to an address waits: the memory is pageable, and the stream does
// not capture.
func (d *Driver) mustWait(ctx cu.Context, dst cu.DevicePtr, s cu.Stream) bool {
	known, err := d.inner.PointerGetAttributes(ctx, dst)
	if err != nil || known.MemoryType != 0 {
		return false
	}
	capture, err := d.inner.StreamIsCapturing(ctx, s)
	return err != nil || capture == cu.StreamCaptureStatusNone
}

// report returns the error of a call. The caller holds mu.
func (d *Driver) report(code cu.Result) error {
	err := d.loss.Report(code)
	what, _, _ := strings.Cut(d.failed, ":") // the error has the code
	d.loss.Blame("package fault: " + what)
	return err
}

// failing counts a call of the named function for each failure. If the call must fail, it returns
// the first failure for it. The caller holds mu.
func (d *Driver) failing(name string) (f Failure, fails bool) {
	for i, x := range d.failures {
		if x.Call != "" && x.Call != name || !x.Mode.counts(name) {
			continue
		}
		if d.counted[i]++; !fails && x.Nth != 0 && d.counted[i] == x.Nth {
			f, fails = x, true
		}
	}
	if !fails && d.o.Every > 0 && d.random.Uint64N(d.o.Every) == 0 {
		f, fails = Failure{Mode: Mode(d.random.IntN(2)), Code: codes[d.random.IntN(len(codes))]}, true
	}
	return f, fails
}

// room returns an error if an allocation is above the limit.
func (d *Driver) room(name string, bytes uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.o.MemoryLimit == 0 || d.used+bytes <= d.o.MemoryLimit && d.used+bytes >= bytes {
		return nil
	}
	if d.failed == "" {
		d.failed = fmt.Sprintf("%s, call %d: refused, %s", name, d.calls, cu.ErrorOutOfMemory.Name())
	}
	return cu.ErrorOutOfMemory
}

// context notes which context an object has.
func (d *Driver) context(kind string, at uint64, ctx cu.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.contexts[object{kind, at}] = ctx
}

// created notes that a call has created something of a size, and what it is a part of, or the zero
// object.
func (d *Driver) created(o object, bytes uint64, of object) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.live[o]++
	if of != (object{}) {
		d.parts[o] = of
	}
	if bytes > 0 {
		d.sizes[o] = bytes
		d.used += bytes
	}
}

// freed notes that a call has freed something, and all of the same kind in the reach behind it.
func (d *Driver) freed(o object, reach uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(o)
	if reach == 0 {
		return
	}
	for x := range d.live {
		if x.kind == o.kind && x.at-o.at < reach {
			d.drop(x)
		}
	}
}

// drop counts one of o less. The caller holds mu.
func (d *Driver) drop(o object) {
	if d.live[o]--; d.live[o] > 0 {
		return
	}
	delete(d.live, o)
	d.giveBack(o)
	if of, ok := d.parts[o]; ok {
		delete(d.parts, o)
		d.giveBack(of)
	}
}

// giveBack ends the count of the size of o, unless it lives or a part of it does. The caller holds mu.
func (d *Driver) giveBack(o object) {
	if d.live[o] > 0 {
		return
	}
	for _, of := range d.parts {
		if of == o {
			return
		}
	}
	d.used -= d.sizes[o]
	delete(d.sizes, o)
}

// Submit makes the calls of b one by one, and each can fail; see [cu.Batches].
func (d *Driver) Submit(ctx cu.Context, b *cu.Batch) (done int, err error) { return b.Do(d, ctx) }
