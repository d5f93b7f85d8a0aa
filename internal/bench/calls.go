package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/libcuda"
)

// CallCost is what a call, or a step of several, costs the goroutine that makes
// it, in nanoseconds.
type CallCost struct {
	What string  `json:"what"`
	NS   float64 `json:"ns"`
}

const (
	callRounds = 31
	callBytes  = 4096
	// nothing is what every call from Go costs beside one from C.
	nothing = "a C function that does nothing"
)

// callPTX is kernels that do nothing, so that the queue never fills.
const callPTX = `.version 6.3
.target sm_52
.address_size 64
.visible .entry empty() { ret; }
.visible .entry three(.param .u64 a, .param .u64 b, .param .u32 n) { ret; }
`

// Calls measures calls that programs make by the million: those of the driver,
// and what the typed API makes of them. A figure is the median over rounds of the
// mean cost in a round, and a round has all of them in random order. Before its turn
// the stream is drained, so that no call waits for room in its queue.
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

// callers have all calls, of the driver and of the typed API, and the same from C.
type callers struct {
	g     *ferry.GPU
	all   []*caller
	calls []call // from Go
	c     library
	inC   []uintptr // what functions in C are given
}

// openCallers makes what calls need. peer is a library made of internal/bench/peer/calls.c,
// or "". Close what is returned with an error, too.
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

// round is what each call takes, the mean of some, and what the same takes from C,
// right before or after it. What a call takes depends on what the GPU has just
// done: the order is another in every round.
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

// roundInC is a round of what a call does, from C.
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

// caller has what calls of one kind need.
type caller struct {
	calls []call
	drain func() error
	undo  []func() error
	inC   []uintptr // the arguments of functions of internal/bench/peer/calls.c, but for how often
}

// call is one of them; a round makes it so many times.
type call struct {
	what  string
	inC   string // the function of internal/bench/peer/calls.c that does the same
	count int
	make  func() error
	drain func() error
}

// round times the calls of a round. The first, which find the GPU asleep, are not
// timed.
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

// later undoes what was made, the last first. It is for what has just been made
// and may have failed.
func (c *caller) later(err error, f func() error) error {
	if err == nil {
		c.undo = append(c.undo, f)
	}
	return err
}

func (c *caller) close() (err error) {
	for _, f := range slices.Backward(c.undo) {
		err = errors.Join(err, f())
	}
	return err
}

// openDriverCaller is for calls of the driver. What it has made is to be closed
// also when there is an error.
func openDriverCaller(g *ferry.GPU) (*caller, error) {
	c, d, ctx := new(caller), g.Driver(), g.Context()
	stream, err := d.StreamCreate(ctx, cu.StreamNonBlocking)
	if c.later(err, func() error { return d.StreamDestroy(ctx, stream) }) != nil {
		return c, err
	}
	event, err := d.EventCreate(ctx, cu.EventDisableTiming)
	if c.later(err, func() error { return d.EventDestroy(ctx, event) }) != nil {
		return c, err
	}
	dev, err := d.MemAlloc(ctx, callBytes)
	if c.later(err, func() error { return d.MemFree(ctx, dev) }) != nil {
		return c, err
	}
	host, err := d.MemHostAlloc(ctx, callBytes, cu.MemHostAllocPortable)
	if c.later(err, func() error { return d.MemFreeHost(ctx, host) }) != nil {
		return c, err
	}
	module, err := d.ModuleLoadData(ctx, []byte(callPTX))
	if c.later(err, func() error { return d.ModuleUnload(ctx, module) }) != nil {
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

// least is calls of the driver with the least that a library must do for what they use
// not to go away: what package ferry adds to it is what it could still save.
const least = "least: "

// guard is a line of the cache with what is known of something.
type guard struct {
	state atomic.Uint64
	noted [2]uint64
	_     [5]uint64
}

// guarded makes a call with a bit of its stream taken, after a look at whether so many
// things are open and a count of each event, and notes its number in all.
func guarded(things, events int, call func() error) func() error {
	stream := new(guard)
	used, recorded := make([]*guard, things), make([]*guard, events)
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
				return errors.New("BUG: something is closed")
			}
		}
		for _, x := range recorded {
			x.state.Add(1)
		}
		if err := call(); err != nil {
			return err
		}
		for _, x := range recorded {
			x.noted[0] = v
			x.state.Add(^uint64(0))
		}
		for _, x := range used {
			x.noted[0] = v
		}
		stream.state.Add(1) // the next number, and the bit is free
		return nil
	}
}

// ready takes "not yet" for an answer.
func ready(err error) error {
	if errors.Is(err, cu.ErrorNotReady) {
		return nil
	}
	return err
}

// openTypedCaller is for the same through package ferry.
func openTypedCaller(g *ferry.GPU) (*caller, error) {
	c := new(caller)
	s, err := ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true})
	if c.later(err, s.Close) != nil {
		return c, err
	}
	e, err := ferry.NewEvent(g, &ferry.EventOptions{NoTiming: true})
	if c.later(err, e.Close) != nil {
		return c, err
	}
	dev, err := ferry.Alloc[byte](g, callBytes)
	if c.later(err, dev.Close) != nil {
		return c, err
	}
	host, err := ferry.AllocHost[byte](g, callBytes, nil)
	if c.later(err, host.Close) != nil {
		return c, err
	}
	module, err := ferry.Load(g, []byte(callPTX))
	if c.later(err, module.Close) != nil {
		return c, err
	}
	three, err := module.Kernel("three")
	if err != nil {
		return c, err
	}
	shape := ferry.LaunchConfig{Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: 32}}
	// By way of a ferry.Queue, Launch would have its list of arguments allocated.
	step := func() error {
		if err := ferry.Copy(s, dev, host); err != nil {
			return err
		}
		if err := s.Launch(three, shape, dev, dev, uint32(callBytes/4)); err != nil {
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
		if err := b.Launch(three, shape, dev, dev, uint32(callBytes/4)); err != nil {
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
		{what: "ferry: launch, 3 parameters", inC: "launch_three", count: 200, make: func() error { return s.Launch(three, shape, dev, dev, uint32(callBytes/4)) }},
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
