package softgpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/uvm"
	"github.com/ferrygpu/ferry/profile"
)

// Options say which machine to play and how.
type Options struct {
	Profile  *profile.Profile // nil for profile "h200"
	Devices  int              // how many of it; 0 for 1, at most 16
	Schedule Schedule         // when queued work runs; where it is zero, what ScheduleVariable says
	Seed     uint64           // of Random, unless the schedule has one

	// KernelLimit is how long a kernel may run on this computer, in real time; one
	// that runs longer is ended and the device lost with ErrorLaunchTimeout, as by
	// a display's watchdog. Zero: what LimitVariable says, else no limit.
	KernelLimit time.Duration
	// Context ends kernels when it is done, as [Driver.Interrupt] does with its
	// cause. Nil for none.
	Context context.Context
}

// Driver is the software GPU. It implements [cu.Driver] and [cu.Emulated] and
// is safe for concurrent use. It holds no goroutine and no timer while no work
// is queued, and needs no closing.
type Driver struct {
	prof     *profile.Profile
	schedule Schedule
	blocking bool // launches wait
	uva      bool
	limit    time.Duration // of a kernel, 0 for none

	life context.Context // kernels run while it does
	end  context.CancelCauseFunc

	space space // lock-free to read

	inited    atomic.Bool
	hostFuncs hostFuncs

	mu      sync.Mutex
	loss    loss
	devices []*device
	handles map[uintptr]any
	nextID  uintptr
	lastSID uint64 // the last id of a stream
	bufID   uint64
	opID    uint64

	host      float64 // the host's virtual clock, ns
	written   uint64  // bytes of page-locked memory that the host said it wrote
	sim       timeline
	held      []*op // released by nobody yet, by rising id
	rng       *rand.Rand
	idle      *time.Timer
	lastUse   time.Time
	changed   chan struct{} // closed when an op is done
	running   int           // ops that execute now
	unretired int           // ops that virtual time has not passed yet
	graves    []*backing    // to be unmapped when nothing executes
	backed    uint64        // bytes that allocations have behind them
	captures  map[*capture]struct{}
	managed   *uvm.Space
	driverRace
	phys *frames // nil before somebody walks an address
}

var (
	_ cu.Driver   = (*Driver)(nil)
	_ cu.Emulated = (*Driver)(nil)
)

// ScheduleVariable of the environment names the schedule, as [ParseSchedule]
// reads it, of drivers that are opened without one, or with Eager.
const ScheduleVariable = "FERRY_SCHEDULE"

// Open makes a software GPU. Launches wait for their end when
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
		return nil, fmt.Errorf("open software GPU: %d devices: 1 to %d can be played", opts.Devices, maxDevices)
	}
	if text := os.Getenv(ScheduleVariable); opts.Schedule == Eager && text != "" {
		s, err := ParseSchedule(text)
		if err != nil {
			return nil, fmt.Errorf("open software GPU: %s: %w", ScheduleVariable, err)
		}
		opts.Schedule = s
	}
	if !opts.Schedule.known() {
		return nil, fmt.Errorf("open software GPU: no schedule %d", opts.Schedule)
	}
	if seed := opts.Schedule.seed(); seed != 0 {
		opts.Seed = seed
	}
	if opts.Profile.Memory.Value >= aliasOffset {
		return nil, errors.New("open software GPU: the profile's memory is larger than a device's addresses")
	}
	limit, err := opts.limit()
	if err != nil {
		return nil, fmt.Errorf("open software GPU: %w", err)
	}
	d := &Driver{
		limit:    limit,
		prof:     opts.Profile,
		schedule: opts.Schedule.kind(),
		blocking: os.Getenv("CUDA_LAUNCH_BLOCKING") == "1" || os.Getenv("FERRY_LAUNCH_BLOCKING") == "1",
		uva:      opts.Profile.Has(cu.DeviceAttributeUnifiedAddressing),
		handles:  map[uintptr]any{},
		nextID:   firstHandle,
		rng:      rand.New(rand.NewPCG(opts.Seed, 0)),
		captures: map[*capture]struct{}{},
	}
	d.life, d.end = context.WithCancelCause(cmp.Or(opts.Context, context.Background()))
	for i := range opts.Devices {
		d.devices = append(d.devices, newDevice(d, i))
	}
	d.managed = d.newManagedSpace()
	return d, nil
}

// Init starts the driver.
func (d *Driver) Init(flags uint32) error {
	if flags != 0 {
		return refuse(cu.ErrorInvalidValue, "initialise", "flags are %#x, must be 0", flags)
	}
	if d.hostFuncs.inside() {
		return insideHostFunc("initialise")
	}
	d.inited.Store(true)
	return nil
}

// Profile is the name of the machine that is played.
func (d *Driver) Profile() string { return d.prof.Name }

// Machine is the profile of the machine that is played. It is not to be changed.
func (d *Driver) Machine() *profile.Profile { return d.prof }

// Now is the host's virtual time.
func (d *Driver) Now() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Duration(d.host)
}

// begin starts a call that needs no context. On success the driver is locked.
func (d *Driver) begin(what string) error {
	if d.hostFuncs.inside() {
		return insideHostFunc(what)
	}
	if !d.inited.Load() {
		return refuse(cu.ErrorNotInitialized, what, "call Init first")
	}
	d.mu.Lock()
	d.host += d.prof.Calls.Other.Value
	return nil
}

// backlog is how many queued operations may wait for somebody to ask for the
// time before a call looks how far they are.
const backlog = 4096

// enterLost is enter for questions that a context answers when its device is
// lost, too.
func (d *Driver) enterLost(h cu.Context, what string) (*contextState, error) {
	if err := d.begin(what); err != nil {
		return nil, err
	}
	c, err := d.context(h, what)
	if err != nil {
		d.mu.Unlock()
	}
	return c, err
}

// enter starts a call in a context. On success the driver is locked.
func (d *Driver) enter(h cu.Context, what string) (*contextState, error) {
	if err := d.begin(what); err != nil {
		return nil, err
	}
	c, err := d.context(h, what)
	if err != nil {
		d.mu.Unlock()
		return nil, err
	}
	d.stir()
	d.raceRoom()
	if d.unretired > backlog && d.schedule == Eager {
		d.sim.run(d, d.host, nil)
	}
	if err := c.alive(what); err != nil { // both let go of the lock
		d.mu.Unlock()
		return nil, err
	}
	return c, nil
}
