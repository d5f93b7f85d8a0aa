package softgpu

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/forked"
	"github.com/ferrygpu/ferry/internal/printable"
	refusals "github.com/ferrygpu/ferry/internal/refusal"
	threads "github.com/ferrygpu/ferry/internal/thread"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu/internal/accesspath"
	"github.com/ferrygpu/ferry/softgpu/internal/launchrace"
	"github.com/ferrygpu/ferry/softgpu/internal/simt"
	"github.com/ferrygpu/ferry/softgpu/internal/uvm"
)

// Options choose the machine to emulate and how to run it.
type Options struct {
	Profile  *profile.Profile // nil for profile "h200"
	Devices  int              // number of devices; 0 for 1, at most 16
	Places   []int            // place of each device in the machine, of which UUID and PCI address come; nil for 0, 1, 2 ...
	Schedule Schedule         // when queued work runs; zero reads ScheduleVariable
	Seed     uint64           // of Random, unless the schedule contains one

	// KernelLimit bounds the real time that a kernel may run on this computer, and that
	// the virtual clock may work in a call. What takes longer is stopped and the device is
	// lost with ErrorLaunchTimeout, as with a display's watchdog. Zero reads
	// LimitVariable; if that is not set there is no limit.
	KernelLimit time.Duration
	// Check is a list of checks of kernels, such as "races", or "1" for all; "0" for
	// none. The findings are written to the standard error and kept for
	// [Driver.Findings]. Empty reads CheckVariable.
	Check string
	// Context stops kernels and the virtual clock when it is done, as
	// [Driver.Interrupt] does, with its cause. Nil for none.
	Context context.Context
}

// Driver is the software GPU. It implements [cu.Driver] and [cu.Emulated] and
// is safe for concurrent use. It has no goroutine and no timer while no work is
// queued, and needs no Close. On a nil or a zero Driver, Init returns an error, and the other
// calls may panic.
type Driver struct {
	prof      *profile.Profile
	schedule  Schedule
	blocking  bool // launches wait for the kernel's end
	uva       bool
	limit     time.Duration // real time of a kernel, 0 for no limit
	races     bool          // kernels are checked for races
	whole     bool          // launches tell the race detector of whole buffers (FERRY_RACE=arguments)
	found     findings
	values    *writtenBytes     // nil if kernels are not checked
	launches  *launchrace.Check // nil if kernels are not checked
	beforeEnd func(o *op)       // in tests: is called before the check of launches learns of an end

	kernelCtx     context.Context // cancelled by Interrupt; every kernel runs under it
	cancelKernels context.CancelCauseFunc

	space space // readers take no lock

	inited    atomic.Bool
	hostFuncs hostFuncs

	mu           sync.Mutex
	loss         loss
	devices      []*device
	handles      map[uintptr]any
	nextID       uintptr
	contextsMade uint64
	lastSID      uint64 // the last id of a stream
	bufID        uint64
	opID         uint64

	host           float64     // the host's virtual clock, ns
	steps          []*hostStep // what the host did since, if its clock is not known
	written        uint64      // bytes of page-locked memory that the host reported as written
	lastKernel     uint64      // the last kernel that was queued
	moves          hostMove    // that the host has announced
	sim            timeline
	unreleased     []*op // queued but not released, by rising id
	rng            *rand.Rand
	seed           uint64           // of rng
	heldAtomics    simt.HeldAtomics // of kernels on mapped memory
	idleTimer      *time.Timer
	idleAfter      time.Duration // idleAfter, but in tests
	lastUse        time.Time
	changed        chan struct{}            // closed when an op is done; nil while nobody waits
	running        int                      // ops that execute now
	parked         int                      // of these, those that write no memory of a device
	failed         bool                     // an op has failed
	exchanges      map[*exchanging]struct{} // that run
	unretired      int                      // ops that have not retired in virtual time
	deferredUnmaps []*backing               // unmapped when nothing executes
	deferred       []func()                 // what else is done then
	addresses      reservations
	backedBytes    uint64 // bytes reserved behind allocations
	deviceBytes    uint64 // of backedBytes, those of device memory
	unchecked      uint64 // bytes of host memory since mayLock looked
	captures       map[*capture]struct{}
	captureModes   map[uint64]cu.StreamCaptureMode // by thread; without an entry it is global
	managed        *uvm.Space
	touching       touching
	contents       *contents                   // of new memory, nil for zeros
	freeMemory     func() uint64               // what this computer has free; tests replace it
	reserveHost    func(int) (*backing, error) // reserves host memory; tests replace it
	observer       cu.Observer                 // nil for none
	driverRace
	frames accesspath.Frames // physical memory, for Walk
}

var (
	_ cu.Driver   = (*Driver)(nil)
	_ cu.Emulated = (*Driver)(nil)
)

// ScheduleVariable names the environment variable with the schedule of drivers
// that are opened without one, or with Eager. [ParseSchedule] reads it.
const ScheduleVariable = "FERRY_SCHEDULE"

// Open makes a software GPU. Launches wait for the end of their kernel if
// CUDA_LAUNCH_BLOCKING or FERRY_LAUNCH_BLOCKING is 1 in the environment.
func Open(opts Options) (*Driver, error) {
	if opts.Profile == nil {
		p, err := profile.Named("h200")
		if err != nil {
			return nil, fmt.Errorf("open software GPU: %w", err)
		}
		opts.Profile = p
	}
	if opts.Devices == 0 {
		opts.Devices = 1
	}
	if opts.Devices < 0 || opts.Devices > maxDevices {
		return nil, refusals.Invalid("open software GPU: %d devices, must be 1 to %d", opts.Devices, maxDevices)
	}
	places, err := opts.places()
	if err != nil {
		return nil, fmt.Errorf("open software GPU: %w", err)
	}
	if text := os.Getenv(ScheduleVariable); opts.Schedule == Eager && text != "" {
		s, err := ParseSchedule(text)
		if err != nil {
			return nil, fmt.Errorf("open software GPU: %s: %w", ScheduleVariable, err)
		}
		opts.Schedule = s
	}
	if !opts.Schedule.known() {
		return nil, refusals.Invalid("open software GPU: schedule %d is not known", opts.Schedule)
	}
	if seed := opts.Schedule.seed(); seed != 0 {
		opts.Seed = seed
	}
	if err := opts.Profile.Check(); err != nil {
		return nil, fmt.Errorf("open software GPU: %w", err)
	}
	if opts.Profile.Memory.Value >= aliasOffset {
		return nil, refusals.Invalid("open software GPU: the profile's memory is larger than a device's addresses")
	}
	limit, err := opts.limit()
	if err != nil {
		return nil, fmt.Errorf("open software GPU: %w", err)
	}
	races, err := opts.check()
	if err != nil {
		return nil, fmt.Errorf("open software GPU: %w", err)
	}
	whole, err := wholeArguments()
	if err != nil {
		return nil, fmt.Errorf("open software GPU: %w", err)
	}
	d := &Driver{
		loss:         loss{told: cu.Loss{Remedy: "the process must restart, or open the software GPU again"}},
		limit:        limit,
		races:        races,
		whole:        whole,
		prof:         opts.Profile,
		schedule:     opts.Schedule.kind(),
		blocking:     os.Getenv("CUDA_LAUNCH_BLOCKING") == "1" || os.Getenv("FERRY_LAUNCH_BLOCKING") == "1",
		uva:          opts.Profile.Has(cu.DeviceAttributeUnifiedAddressing),
		handles:      map[uintptr]any{},
		nextID:       firstHandle,
		seed:         opts.Seed,
		rng:          rand.New(rand.NewPCG(opts.Seed, 0)),
		captures:     map[*capture]struct{}{},
		exchanges:    map[*exchanging]struct{}{},
		freeMemory:   freeMemory,
		reserveHost:  reserveHost,
		idleAfter:    idleAfter,
		sim:          timeline{look: clockLook},
		captureModes: map[uint64]cu.StreamCaptureMode{},
		contents:     newContents(opts.Schedule.kind(), opts.Seed),
	}
	d.kernelCtx, d.cancelKernels = context.WithCancelCause(cmp.Or(opts.Context, context.Background()))
	for i, place := range places {
		d.devices = append(d.devices, newDevice(d, i, place))
	}
	d.managed = d.newManagedSpace()
	d.values = newWritten(&d.space, races)
	d.launches = d.newLaunchCheck()
	threads.OnEnd(d.endThread)
	return d, nil
}

// Init starts the driver.
func (d *Driver) Init(flags uint32) error {
	if d == nil || d.prof == nil {
		return refuse(cu.ErrorNotInitialized, "initialise", "the driver was not made by Open")
	}
	if flags != 0 {
		return refuse(cu.ErrorInvalidValue, "initialise", "flags are %#x, must be 0", flags)
	}
	if forked.Child() {
		return forked.New("initialise")
	}
	if d.hostFuncs.inside() {
		return insideHostFunc("initialise")
	}
	forked.Started()
	d.inited.Store(true)
	return nil
}

// Profile returns the name of the emulated machine's profile.
func (d *Driver) Profile() string {
	if d == nil || d.prof == nil {
		return ""
	}
	return d.prof.Name
}

// Machine returns the profile of the emulated machine. The caller must not
// change it.
func (d *Driver) Machine() *profile.Profile { return d.prof }

// Now returns the host's virtual time, which is the same under every schedule.
// Under lazy and random it may execute queued work, to know how long that takes. In a forked
// child it is 0.
func (d *Driver) Now() time.Duration {
	if forked.Child() {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settle()
	return nanoseconds(d.host)
}

// begin starts a call that needs no context. On success the driver is locked. In a forked child
// the lock may be held for ever, so begin looks before.
func (d *Driver) begin(what string) error {
	if forked.Child() {
		return forked.New(what)
	}
	if d.hostFuncs.inside() {
		return insideHostFunc(what)
	}
	if !d.inited.Load() {
		return refuse(cu.ErrorNotInitialized, what, "call Init first")
	}
	d.mu.Lock()
	d.spend(d.prof.Calls.Other.Value)
	return nil
}

// maxBacklog bounds the ops that have not retired. Above it a call runs the
// timeline up to the host's time, so that ops that are past are dropped.
const maxBacklog = 4096

// beginInLost starts a query that a context answers even when its device is
// lost. On success the driver is locked.
func (d *Driver) beginInLost(h cu.Context, what string) (*contextState, error) {
	if err := d.begin(what); err != nil {
		return nil, err
	}
	c, err := d.context(h, what)
	if err != nil {
		d.mu.Unlock()
	}
	return c, err
}

// beginIn starts a call in a context. On success the driver is locked.
func (d *Driver) beginIn(h cu.Context, what string) (*contextState, error) {
	if err := d.begin(what); err != nil {
		return nil, err
	}
	c, err := d.context(h, what)
	if err == nil {
		err = d.proceed(c, what)
	}
	if err != nil {
		d.mu.Unlock()
		return nil, err
	}
	return c, nil
}

// proceed lets the device go on at the start of a call in c. The caller holds mu, which may be
// released meanwhile.
func (d *Driver) proceed(c *contextState, what string) error {
	d.poll()
	d.raceLimitQueue()
	if d.unretired > maxBacklog && d.schedule == Eager {
		d.sim.run(d, d.host, nil)
	}
	return c.alive(what) // poll and raceLimitQueue may have released the lock
}

// LimitVariable names the environment variable with the kernel limit of drivers
// that are opened without a KernelLimit. Its format is "10s" or "1m30s".
const LimitVariable = "FERRY_KERNEL_LIMIT"

// limit returns KernelLimit, or the limit of the environment.
func (o *Options) limit() (time.Duration, error) {
	if o.KernelLimit < 0 {
		return 0, refusals.Invalid("the kernel limit is %v, must be positive, or 0 for none", o.KernelLimit)
	}
	text := os.Getenv(LimitVariable)
	if o.KernelLimit > 0 || text == "" {
		return o.KernelLimit, nil
	}
	limit, err := time.ParseDuration(text)
	if err != nil || limit <= 0 {
		return 0, refusals.Invalid("%s is %s, must be a positive time such as 10s or 1m30s", LimitVariable, printable.Value(text))
	}
	return limit, nil
}

// raceVariable names the environment variable that says how launches tell the race detector what they
// access, in race builds: each byte, or with "arguments" whole buffers of device memory.
const raceVariable = "FERRY_RACE"

// wholeArguments reports whether launches tell the race detector of whole buffers.
func wholeArguments() (bool, error) {
	switch text := os.Getenv(raceVariable); text {
	case "":
		return false, nil
	case "arguments":
		return true, nil
	default:
		return false, refusals.Invalid("%s is %s, must be arguments, or empty", raceVariable, printable.Value(text))
	}
}

// Of returns the software GPU behind d, which may wrap it, or nil if there is
// none.
func Of(d cu.Driver) *Driver {
	s, _ := cu.As[*Driver](d)
	return s
}

// Handles count up and are never used again, so a stale handle is always
// recognised.
const (
	firstHandle = 0x10000
	handleStep  = 0x10
)

// newHandle gives x a handle.
func (d *Driver) newHandle(x any) uintptr {
	h := d.nextID
	d.nextID += handleStep
	d.handles[h] = x
	return h
}

// lookupGraph returns the graph, or the part of a graph, with handle h. For
// these CUDA reports a bad handle as ErrorInvalidValue.
func lookupGraph[T any](d *Driver, h uintptr, what, kind string) (T, error) {
	x, err := lookup[T](d, h, what, kind)
	if bad, ok := errors.AsType[*refusal](err); ok {
		bad.result = cu.ErrorInvalidValue
	}
	return x, err
}

// lookup returns the object of handle h.
func lookup[T any](d *Driver, h uintptr, what, kind string) (T, error) {
	x, ok := d.handles[h].(T)
	if ok {
		return x, nil
	}
	return x, d.badHandle(h, what, kind)
}

func (d *Driver) badHandle(h uintptr, what, kind string) error {
	_, other := d.handles[h]
	switch {
	case h == 0:
		return refuse(cu.ErrorInvalidHandle, what, "the %s is zero", kind)
	case other:
		return refuse(cu.ErrorInvalidHandle, what, "handle %#x is not a %s", h, kind)
	case h >= firstHandle && h < d.nextID && h%handleStep == 0:
		return refuse(cu.ErrorInvalidHandle, what, "%s %#x was destroyed, or its context was", kind, h)
	}
	return refuse(cu.ErrorInvalidHandle, what, "%#x was never a %s", h, kind)
}

// refusal is a Result with an explanation: the call, and the reason.
type refusal struct {
	result    cu.Result
	what, why string
}

func (e *refusal) Error() string { return e.what + ": " + e.Cause() }

// Cause returns the text without the call.
func (e *refusal) Cause() string { return e.result.Name() + ": " + e.why }

func (e *refusal) Unwrap() error { return e.result }

// refuse makes a refusal. why is a format.
func refuse(r cu.Result, what, why string, args ...any) error {
	return &refusal{r, what, fmt.Sprintf(why, args...)}
}

// size formats a number of bytes for messages.
func size(n uint64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 10<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n == 1:
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", n)
}

// goid returns the number of the calling goroutine. It reads the first line of
// the goroutine's stack, "goroutine 7 [running]:", because Go has no other way
// to ask.
func goid() uint64 {
	var buf [64]byte
	return goidIn(buf[:runtime.Stack(buf[:], false)])
}

// goidIn returns the number of the goroutine in the first line of a stack.
func goidIn(stack []byte) uint64 {
	digits, _, _ := bytes.Cut(bytes.TrimPrefix(stack, []byte("goroutine ")), []byte(" "))
	id, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil {
		panic("BUG: no goroutine number in " + string(stack))
	}
	return id
}
