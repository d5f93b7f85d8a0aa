package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/dl"
	"github.com/ferrygpu/ferry/libcuda"
)

// togetherGoal is the ratio to reach for operations that are submitted together.
const togetherGoal = 1 / 1.03

// CallCost is the time that a call, or a step of several calls, takes the goroutine that
// makes it, in nanoseconds.
type CallCost struct {
	What string  `json:"what"`
	NS   float64 `json:"ns"`
}

const (
	callRounds = 31
	callBytes  = 4096
	// nothing measures the additional cost of every call from Go, compared with C.
	nothing = "a C function that does nothing"
)

// callPTX has kernels that do nothing, so that the driver's queue never fills.
const callPTX = `.version 6.3
.target sm_52
.address_size 64
.visible .entry empty() { ret; }
.visible .entry three(.param .u64 a, .param .u64 b, .param .u32 n) { ret; }
`

// Calls measures calls that programs make millions of times: calls of the driver, and the
// same by the typed API. A figure is the median over rounds of the mean cost in a round.
// A round has all calls in random order. The stream is drained before each of them, so
// that no call waits for space in the stream's queue.
func Calls(g *ferry.GPU) (costs []CallCost, err error) {
	c, err := openCallers(g, "")
	defer func() { err = errors.Join(err, c.close()) }()
	if err != nil {
		return nil, err
	}
	means := make([][]float64, len(c.calls))
	for range callRounds {
		round, _, err := c.round()
		if err != nil {
			return nil, err
		}
		for i, ns := range round {
			means[i] = append(means[i], ns)
		}
	}
	for i, x := range c.calls {
		slices.Sort(means[i])
		costs = append(costs, CallCost{x.what, means[i][callRounds/2]})
	}
	return costs, nil
}

// callers has all calls: of the driver, of the typed API, and the same from C.
type callers struct {
	g     *ferry.GPU
	all   []*caller
	calls []call    // from Go
	c     library   // nil without a peer
	inC   []uintptr // the arguments of the functions in C
}

// openCallers creates the objects for the calls. peer is the path of a library compiled
// from internal/measure/bench/peer/calls.c, or "". The caller must close the result, also if there
// is an error.
func openCallers(g *ferry.GPU, peer string) (*callers, error) {
	c := &callers{g: g}
	for _, open := range []func(*ferry.GPU) (*caller, error){openDriverCaller, openTypedCaller} {
		x, err := open(g)
		c.all = append(c.all, x)
		if err != nil {
			return c, c.failed(err)
		}
		for _, call := range x.calls {
			call.drain = x.drain
			c.calls = append(c.calls, call)
		}
	}
	if peer == "" {
		return c, nil
	}
	var err error
	c.c, err = openLibrary(peer)
	c.inC = c.all[0].inC
	return c, err
}

func (c *callers) failed(err error) error { return fmt.Errorf("measure calls on %s: %w", c.g, err) }

func (c *callers) close() (err error) {
	for _, x := range c.all {
		err = errors.Join(err, x.close())
	}
	if err != nil {
		return c.failed(err)
	}
	return nil
}

// round measures each call, as the mean of several, and the same from C right before or
// after it. The time of a call depends on the GPU's previous work, so the order is random.
func (c *callers) round() (means, inC []float64, err error) {
	means, inC = make([]float64, len(c.calls)), make([]float64, len(c.calls))
	for _, i := range rand.Perm(len(c.calls)) {
		x := &c.calls[i]
		here := func() (err error) { means[i], err = x.round(); return err }
		there := func() (err error) { inC[i], err = c.roundInC(x); return err }
		if c.c == nil {
			there = func() error { return nil }
		}
		if rand.IntN(2) == 0 {
			here, there = there, here
		}
		if err := here(); err != nil {
			return nil, nil, c.failed(fmt.Errorf("%s: %w", x.what, err))
		}
		if err := there(); err != nil {
			return nil, nil, c.failed(fmt.Errorf("%s: %w", x.what, err))
		}
	}
	return means, inC, nil
}

// roundInC returns the mean time of the function in C that makes the same calls as x.
func (c *callers) roundInC(x *call) (mean float64, err error) {
	if err := x.drain(); err != nil {
		return 0, err
	}
	r, err := c.c(x.inC, append(slices.Clone(c.inC), uintptr(x.count))...)
	if took := int64(r); err == nil && took < 0 {
		err = cu.Result(-took)
	}
	return float64(r) / float64(x.count), errors.Join(err, c.all[0].drain())
}

// library calls a function of a C library by its name.
type library func(name string, args ...uintptr) (uintptr, error)

// openLibrary opens a library of C functions, which is never closed. It is a variable so
// that tests can replace it.
var openLibrary = func(path string) (library, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	l, err := dl.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open peer %s: %w", path, err)
	}
	return func(name string, args ...uintptr) (uintptr, error) {
		fn, err := l.Symbol(name)
		if err != nil {
			return 0, fmt.Errorf("peer: %w", err)
		}
		return dl.Call(fn, args...), nil
	}, nil
}

// caller has the calls of one kind and the objects that they use.
type caller struct {
	calls []call
	drain func() error
	undo  closers
	inC   []uintptr // arguments of the functions of internal/measure/bench/peer/calls.c, without the number of repetitions
}

// call is one call to measure.
type call struct {
	what  string
	inC   string // the function of internal/measure/bench/peer/calls.c that does the same
	count int    // how often a round makes it
	make  func() error
	drain func() error
}

// round returns the mean time of the calls of a round. It makes three calls before, which
// are not timed, because the GPU may be idle.
func (x *call) round() (mean float64, err error) {
	if err := errors.Join(x.drain(), repeat(3, x.make)); err != nil {
		return 0, err
	}
	start := time.Now()
	if err := repeat(x.count, x.make); err != nil {
		return 0, err
	}
	took := time.Since(start)
	return float64(took) / float64(x.count), x.drain()
}

func repeat(n int, f func() error) error {
	for range n {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

func (c *caller) close() error { return c.undo.close() }

// openDriverCaller returns the calls of the driver. The result must be closed also if
// there is an error.
func openDriverCaller(g *ferry.GPU) (*caller, error) {
	c, d, ctx := new(caller), g.Driver(), g.CUContext()
	stream, err := d.StreamCreate(ctx, cu.StreamNonBlocking)
	if c.undo.add(err, func() error { return d.StreamDestroy(ctx, stream) }) != nil {
		return c, err
	}
	event, err := d.EventCreate(ctx, cu.EventDisableTiming)
	if c.undo.add(err, func() error { return d.EventDestroy(ctx, event) }) != nil {
		return c, err
	}
	dev, err := d.MemAlloc(ctx, callBytes)
	if c.undo.add(err, func() error { return d.MemFree(ctx, dev) }) != nil {
		return c, err
	}
	host, err := d.MemHostAlloc(ctx, callBytes, cu.MemHostAllocPortable)
	if c.undo.add(err, func() error { return d.MemFreeHost(ctx, host) }) != nil {
		return c, err
	}
	module, err := d.ModuleLoadData(ctx, []byte(callPTX))
	if c.undo.add(err, func() error { return d.ModuleUnload(ctx, module) }) != nil {
		return c, err
	}
	empty, err := d.ModuleGetFunction(ctx, module, "empty")
	if err != nil {
		return c, err
	}
	three, err := d.ModuleGetFunction(ctx, module, "three")
	if err != nil {
		return c, err
	}
	params := binary.LittleEndian.AppendUint64(nil, uint64(dev))
	params = binary.LittleEndian.AppendUint64(params, uint64(dev))
	params = binary.LittleEndian.AppendUint32(params, callBytes/4)
	one, warp := cu.Dim3{X: 1, Y: 1, Z: 1}, cu.Dim3{X: 32, Y: 1, Z: 1}

	var step cu.Batch
	step.MemcpyHtoDAsync(dev, host, callBytes, stream)
	step.LaunchKernel(three, one, warp, 0, stream, params)
	step.MemcpyDtoHAsync(host, dev, callBytes, stream)
	step.EventRecord(event, stream)

	c.inC = []uintptr{uintptr(ctx), uintptr(stream), uintptr(event), uintptr(dev), uintptr(host), uintptr(empty), uintptr(three)}
	c.drain = func() error { return d.StreamSynchronize(ctx, stream) }
	c.calls = []call{
		{what: nothing, inC: "do_nothing", count: 1000, make: func() error { libcuda.Nothing(); return nil }},
		{what: "device of the context", inC: "device_of_context", count: 1000, make: func() error { _, err := d.CtxGetDevice(ctx); return err }},
		{what: "event record", inC: "event_record", count: 200, make: func() error { return d.EventRecord(ctx, event, stream) }},
		{what: "event query", inC: "event_query", count: 1000, make: func() error { return ready(d.EventQuery(ctx, event)) }},
		{what: "copy to device, 4 KiB", inC: "copy_to_device", count: 200, make: func() error { return d.MemcpyHtoDAsync(ctx, dev, host, callBytes, stream) }},
		{what: "copy to host, 4 KiB", inC: "copy_to_host", count: 200, make: func() error { return d.MemcpyDtoHAsync(ctx, host, dev, callBytes, stream) }},
		{what: "launch, no parameters", inC: "launch_empty", count: 200, make: func() error { return d.LaunchKernel(ctx, empty, one, one, 0, stream, nil) }},
		{what: "launch, 3 parameters", inC: "launch_three", count: 200, make: func() error { return d.LaunchKernel(ctx, three, one, warp, 0, stream, params) }},
		{what: "step: copy in, launch, copy out, event", inC: "step", count: 50, make: func() error { _, err := step.Do(d, ctx); return err }},
		{what: "step, submitted together", inC: "step", count: 50, make: func() error { _, err := d.Submit(ctx, &step); return err }},
		{what: "copy to device, 4 KiB, and wait", inC: "copy_and_wait", count: 50, make: func() error {
			if err := d.MemcpyHtoDAsync(ctx, dev, host, callBytes, stream); err != nil {
				return err
			}
			return d.StreamSynchronize(ctx, stream)
		}},
		{what: least + "copy to device, 4 KiB", inC: "copy_to_device", count: 200, make: guarded(2, 0, func() error {
			return d.MemcpyHtoDAsync(ctx, dev, host, callBytes, stream)
		})},
		{what: least + "step, submitted", inC: "step", count: 50, make: guarded(4, 1, func() error { _, err := d.Submit(ctx, &step); return err })},
	}
	return c, nil
}

// least begins the names of driver calls with the least bookkeeping that a library needs
// to keep the objects of a call alive. The difference to package ferry's calls is the most
// that package ferry could still save.
const least = "least: "

// guard is the state of one object, in a cache line of its own.
type guard struct {
	state    atomic.Uint64
	recorded [2]uint64
	_        [5]uint64
}

// guarded returns a function that makes a call with the least bookkeeping. It locks the
// stream by a bit, and checks that the given number of objects are open. It counts a use of
// each event, and records the call's number in all of them.
func guarded(objects, events int, call func() error) func() error {
	stream := new(guard)
	used, recorded := make([]*guard, objects), make([]*guard, events)
	for _, list := range [][]*guard{used, recorded} {
		for i := range list {
			list[i] = new(guard)
		}
	}
	return func() error {
		v := stream.state.Load()
		if v&1 != 0 || !stream.state.CompareAndSwap(v, v|1) {
			return errors.New("BUG: the stream is in use")
		}
		for _, x := range used {
			if x.state.Load() != 0 {
				return errors.New("BUG: an object is closed")
			}
		}
		for _, x := range recorded {
			x.state.Add(1)
		}
		if err := call(); err != nil {
			return err
		}
		for _, x := range recorded {
			x.recorded[0] = v
			x.state.Add(^uint64(0))
		}
		for _, x := range used {
			x.recorded[0] = v
		}
		stream.state.Add(1) // increments the number and clears the bit
		return nil
	}
}

// ready returns err, but nil for ErrorNotReady.
func ready(err error) error {
	if errors.Is(err, cu.ErrorNotReady) {
		return nil
	}
	return err
}

// openTypedCaller returns the same calls through package ferry.
func openTypedCaller(g *ferry.GPU) (*caller, error) {
	c := new(caller)
	s, err := ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true})
	if c.undo.add(err, s.Close) != nil {
		return c, err
	}
	e, err := ferry.NewEvent(g, &ferry.EventOptions{NoTiming: true})
	if c.undo.add(err, e.Close) != nil {
		return c, err
	}
	dev, err := ferry.Alloc[byte](g, callBytes)
	if c.undo.add(err, dev.Close) != nil {
		return c, err
	}
	host, err := ferry.AllocHost[byte](g, callBytes, nil)
	if c.undo.add(err, host.Close) != nil {
		return c, err
	}
	module, err := ferry.Load(g, []byte(callPTX), nil)
	if c.undo.add(err, module.Close) != nil {
		return c, err
	}
	three, err := module.Kernel("three")
	if err != nil {
		return c, err
	}
	config := ferry.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 32}}
	// step does not use the interface ferry.Queue, because then the arguments of Launch would be allocated.
	step := func() error {
		if err := ferry.Copy(s, dev, host); err != nil {
			return err
		}
		if err := s.Launch(three, config, dev, dev, uint32(callBytes/4)); err != nil {
			return err
		}
		if err := ferry.Copy(s, host, dev); err != nil {
			return err
		}
		return s.Record(e)
	}
	list := func(b *ferry.Batch) error {
		if err := ferry.Copy(b, dev, host); err != nil {
			return err
		}
		if err := b.Launch(three, config, dev, dev, uint32(callBytes/4)); err != nil {
			return err
		}
		if err := ferry.Copy(b, host, dev); err != nil {
			return err
		}
		return b.Record(e)
	}
	var same, fresh ferry.Batch
	if err := list(&same); err != nil {
		return c, err
	}
	c.drain = func() error { return s.Wait(context.Background()) }
	c.calls = []call{
		{what: "ferry: event record", inC: "event_record", count: 200, make: func() error { return s.Record(e) }},
		{what: "ferry: copy to device, 4 KiB", inC: "copy_to_device", count: 200, make: func() error { return ferry.Copy(s, dev, host) }},
		{what: "ferry: copy to host, 4 KiB", inC: "copy_to_host", count: 200, make: func() error { return ferry.Copy(s, host, dev) }},
		{what: "ferry: launch, 3 parameters", inC: "launch_three", count: 200, make: func() error { return s.Launch(three, config, dev, dev, uint32(callBytes/4)) }},
		{what: "ferry: step: copy in, launch, copy out, event", inC: "step", count: 50, make: step},
		{what: "ferry: step, submitted again", inC: "step", count: 50, make: func() error { return s.Submit(&same) }},
		{what: "ferry: step, listed and submitted", inC: "step", count: 50, make: func() error {
			fresh.Reset()
			if err := list(&fresh); err != nil {
				return err
			}
			return s.Submit(&fresh)
		}},
		{what: "ferry: copy to device, 4 KiB, and wait", inC: "copy_and_wait", count: 50, make: func() error {
			if err := ferry.Copy(s, dev, host); err != nil {
				return err
			}
			return s.Wait(context.Background())
		}},
	}
	return c, nil
}

// callGoal is the ratio to reach for calls: Ferry may take 1.10 times as long as C.
const callGoal = 1 / 1.10

// callRepeats is how many rounds of calls there are for each round of other contests,
// because calls are short and their times vary.
const callRepeats = 11

// SpeedCalls measures calls, target 6, and compares them with the same calls from C,
// unless peer is "". peer is the path of a library compiled from
// internal/measure/bench/peer/calls.c. Its calls are made in this process, each right before or
// after Ferry's. Two processes on one machine differ by more than the differences to
// measure.
func SpeedCalls(g *ferry.GPU, peer string, rounds int) (results []SpeedResult, err error) {
	calls, err := openCallers(g, peer)
	defer func() { err = errors.Join(err, calls.close()) }()
	if err != nil {
		return nil, err
	}
	var here, there []float64 // the times of the last round that were not yet returned
	sample := func(mine *[]float64) func() ([]float64, error) {
		return func() (figures []float64, err error) {
			if *mine == nil {
				here, there, err = calls.round()
			}
			figures, *mine = *mine, nil
			return figures, err
		}
	}
	c := contest{entrants: []entrant{{"", sample(&here)}}, repeats: callRepeats}
	for _, x := range calls.calls {
		c.rows = append(c.rows, callRow(x.what))
	}
	if peer != "" {
		c.entrants = append(c.entrants, entrant{"C", sample(&there)})
	}
	return c.run(rounds)
}

// callRow returns the figure of a call with its goal. The calls that do nothing, or the
// least bookkeeping, have no goal. They show the least possible time of a call from Go, and
// of a safe call from Go.
func callRow(what string) figure {
	if what == nothing || strings.HasPrefix(what, least) {
		return figure{6, what, 0, 0}
	}
	if strings.Contains(what, "submitted") {
		return figure{6, what, 0, togetherGoal}
	}
	return figure{6, what, 0, callGoal}
}
