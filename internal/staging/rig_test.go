package staging

import (
	"bytes"
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

var background = context.Background()

// testDriver is a software GPU that hides that it is emulated. So rings treat it as
// hardware, with several goroutines. It counts calls, and makes them fail on request.
type testDriver struct {
	cu.Driver
	fail   func(call string) error // may be nil
	late   func(call string) error // the error of a call that has done its work; may be nil
	sent   func(dst cu.DevicePtr)  // called by copies to the device; may be nil
	got    func(src cu.DevicePtr)  // called by copies from the device; may be nil
	asked  func()                  // called by queries of an event; may be nil
	slots  atomic.Int64            // page-locked allocations that exist
	most   atomic.Int64            // of slots
	in     atomic.Int64            // copies to the device
	events atomic.Int64            // that were made
	left   atomic.Int64            // of events, those that are not destroyed

	inside     atomic.Int64 // copies, records and queries that goroutines are in
	mostInside atomic.Int64
	queries    atomic.Int64
}

// enter counts a call until leave.
func (d *testDriver) enter() (leave func()) {
	if n := d.inside.Add(1); n > d.mostInside.Load() {
		d.mostInside.Store(n)
	}
	runtime.Gosched()
	return func() { d.inside.Add(-1) }
}

// refuse returns the error that a call must return.
func (d *testDriver) refuse(call string) error {
	if d.fail != nil {
		return d.fail(call)
	}
	return nil
}

// outcome returns the error of a call that has returned err.
func (d *testDriver) outcome(call string, err error) error {
	if err == nil && d.late != nil {
		return d.late(call)
	}
	return err
}

func (d *testDriver) StreamSynchronize(ctx cu.Context, s cu.Stream) error {
	if err := d.refuse("sync"); err != nil {
		return err
	}
	return d.Driver.StreamSynchronize(ctx, s)
}

func (d *testDriver) StreamQuery(ctx cu.Context, s cu.Stream) error {
	if err := d.refuse("query"); err != nil {
		return err
	}
	return d.Driver.StreamQuery(ctx, s)
}

func (d *testDriver) MemHostAlloc(ctx cu.Context, n uintptr, f cu.MemHostAllocFlags) (cu.HostPtr, error) {
	if err := d.refuse("alloc"); err != nil {
		return nil, err
	}
	p, err := d.Driver.MemHostAlloc(ctx, n, f)
	if err == nil {
		d.most.Store(max(d.most.Load(), d.slots.Add(1)))
	}
	return p, err
}

func (d *testDriver) MemFreeHost(ctx cu.Context, p cu.HostPtr) error {
	d.slots.Add(-1)
	return d.Driver.MemFreeHost(ctx, p)
}

func (d *testDriver) MemcpyHtoDAsync(ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, s cu.Stream) error {
	defer d.enter()()
	if err := d.refuse("in"); err != nil {
		return err
	}
	d.in.Add(1)
	if d.sent != nil {
		d.sent(dst)
	}
	return d.outcome("in", d.Driver.MemcpyHtoDAsync(ctx, dst, src, n, s))
}

func (d *testDriver) MemcpyDtoHAsync(ctx cu.Context, dst cu.HostPtr, src cu.DevicePtr, n uintptr, s cu.Stream) error {
	defer d.enter()()
	if err := d.refuse("out"); err != nil {
		return err
	}
	if d.got != nil {
		d.got(src)
	}
	return d.outcome("out", d.Driver.MemcpyDtoHAsync(ctx, dst, src, n, s))
}

func (d *testDriver) EventCreate(ctx cu.Context, f cu.EventFlags) (cu.Event, error) {
	e, err := d.Driver.EventCreate(ctx, f)
	if err == nil {
		d.events.Add(1)
		d.left.Add(1)
	}
	return e, err
}

func (d *testDriver) EventDestroy(ctx cu.Context, e cu.Event) error {
	d.left.Add(-1)
	return d.Driver.EventDestroy(ctx, e)
}

func (d *testDriver) EventRecord(ctx cu.Context, e cu.Event, s cu.Stream) error {
	defer d.enter()()
	if err := d.refuse("record"); err != nil {
		return err
	}
	return d.Driver.EventRecord(ctx, e, s)
}

func (d *testDriver) EventQuery(ctx cu.Context, e cu.Event) error {
	defer d.enter()()
	d.queries.Add(1)
	if d.asked != nil {
		d.asked()
	}
	return d.Driver.EventQuery(ctx, e)
}

// rig is a ring on a software GPU, with a stream and device memory.
type rig struct {
	testing.TB
	d      *testDriver
	ctx    cu.Context
	ring   *Ring
	stream cu.Stream
	device cu.DevicePtr
	n      int64 // bytes of device memory
}

// sized returns the default settings with other sizes.
func sized(chunk, slots, block, workers int) Settings {
	set := DefaultSettings()
	set.Chunk, set.Slots, set.Block, set.Workers = chunk, slots, block, workers
	set.SmallChunk, set.SmallSlots = chunk, slots
	return set
}

// small are settings with which little memory has several chunks, slots and blocks.
var small = sized(4<<10, 3, 1<<10, 4)

// newRig makes a rig with n bytes on the device. It fails the test if anything is left
// at the end.
func newRig(t testing.TB, set Settings, n int64, schedule softgpu.Schedule) *rig {
	t.Helper()
	if runtime.GOMAXPROCS(0) <= set.Workers {
		old := runtime.GOMAXPROCS(set.Workers + 1)
		t.Cleanup(func() { runtime.GOMAXPROCS(old) })
	}
	soft, err := softgpu.Open(softgpu.Options{Schedule: schedule, Seed: 1})
	r := &rig{TB: t, d: &testDriver{Driver: soft}, n: n}
	r.check(err)
	r.check(r.d.Init(0))
	r.ctx, err = r.d.DevicePrimaryCtxRetain(0)
	r.check(err)
	r.stream = r.newStream()
	r.device, err = r.d.MemAlloc(r.ctx, uintptr(max(n, 1)))
	r.check(err)
	r.ring = New(r.d, r.ctx, set, Hooks{})
	t.Cleanup(r.close)
	return r
}

func (r *rig) close() {
	r.d.fail, r.d.late = nil, nil
	r.check(r.d.CtxSynchronize(r.ctx))
	r.check(r.ring.Close())
	if n := r.d.slots.Load(); n != 0 {
		r.Errorf("%d slots are left, want 0", n)
	}
	if n := r.d.left.Load(); n != 0 {
		r.Errorf("%d events are left, want 0", n)
	}
	if r.ring.transfers != 0 {
		r.Errorf("%d transfers are left, want 0", r.ring.transfers)
	}
	r.gateEmpty()
}

// gateEmpty checks that nobody uses the gate.
func (r *rig) gateEmpty() {
	r.Helper()
	g := &r.ring.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.users.Load() != 0 || g.waiting.Load() != 0 || g.first != nil || g.last != nil || len(g.holders) != 0 || g.holding.Load() != 0 {
		r.Errorf("the gate has %d users, %d waiting, %d holders, want none", g.users.Load(), g.waiting.Load(), len(g.holders))
	}
}

func (r *rig) newStream() cu.Stream {
	r.Helper()
	s, err := r.d.StreamCreate(r.ctx, cu.StreamNonBlocking)
	r.check(err)
	return s
}

func (r *rig) check(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// job returns a transfer of n bytes.
func (r *rig) job(n int64) Job { return Job{Stream: r.stream, Device: r.device, Bytes: n} }

// onDevice returns the first n bytes on the device once the stream is done.
func (r *rig) onDevice(n int64) []byte {
	r.Helper()
	r.check(r.d.StreamSynchronize(r.ctx, r.stream))
	out := make([]byte, n)
	if n > 0 {
		r.check(r.d.MemcpyDtoH(r.ctx, cu.HostPtr(&out[0]), r.device, uintptr(n)))
	}
	return out
}

// poison overwrites the device memory.
func (r *rig) poison() {
	r.Helper()
	r.check(r.d.MemsetD8(r.ctx, r.device, 0xee, uintptr(r.n)))
	r.check(r.d.CtxSynchronize(r.ctx))
}

// same compares bytes.
func (r *rig) same(what string, got, want []byte) {
	r.Helper()
	if bytes.Equal(got, want) {
		return
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			r.Fatalf("%s: byte %d of %d is %#x, want %#x", what, i, len(want), got[i], want[i])
		}
	}
	r.Fatalf("%s: %d bytes, want %d", what, len(got), len(want))
}

// block stops a stream until resume is called.
func (r *rig) block(s cu.Stream) (resume func()) {
	r.Helper()
	c := make(chan struct{})
	r.check(r.d.LaunchHostFunc(r.ctx, s, func() { <-c }))
	resume = sync.OnceFunc(func() { close(c) })
	r.Cleanup(resume)
	return resume
}

// stillWorks checks that the ring copies in both directions.
func (r *rig) stillWorks() {
	r.Helper()
	want, got := random(r.n), random(r.n)
	_, err := r.ring.In(background, r.job(r.n), Memory(want))
	r.check(err)
	_, err = r.ring.Out(background, r.job(r.n), Memory(got))
	r.check(err)
	r.same("the next transfer", got, want)
}

var seed atomic.Uint64

// random returns n bytes, others on each call.
func random(n int64) []byte {
	x := seed.Add(1) * 0x9e3779b97f4a7c15
	b := make([]byte, n)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x >> 32)
	}
	return b
}
