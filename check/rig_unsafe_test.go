package check_test

import (
	"encoding/binary"
	"errors"
	"sync"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// size is the length of every buffer.
const size = 4096

// code has the kernels of the programs: each thread writes its number, or adds 1 to one
// word until the word 64 bytes behind it is not 0.
const code = `.version 7.0
.target sm_75
.address_size 64
.visible .entry put(.param .u64 p)
{
	.reg .u64 %a, %o;
	.reg .u32 %i;
	ld.param.u64 %a, [p];
	mov.u32 %i, %tid.x;
	mul.wide.u32 %o, %i, 4;
	add.u64 %a, %a, %o;
	st.global.u32 [%a], %i;
	ret;
}
.visible .entry count(.param .u64 p)
{
	.reg .u64 %a;
	.reg .u32 %i;
	.reg .pred %more;
	ld.param.u64 %a, [p];
again:
	atom.global.sys.add.u32 %i, [%a], 1;
	ld.volatile.global.u32 %i, [%a+64];
	setp.eq.u32 %more, %i, 0;
	@%more bra again;
	ret;
}
`

// rig has what a program needs: its own driver, and memory and streams of device 0.
type rig struct {
	cu.Driver
	ctx         cu.Context
	a, b        cu.Stream // non-blocking
	s, t        cu.Stream // blocking
	e, f        cu.Event
	host, other []byte // page-locked
	dev, there  cu.DevicePtr
	fn, count   cu.Function
}

var h200 = sync.OnceValue(func() *profile.Profile { return got(profile.Named("h200")) })

// software opens a software GPU with two devices.
func software(schedule string) cu.Driver {
	s := got(softgpu.ParseSchedule(schedule))
	return got(softgpu.Open(softgpu.Options{Profile: h200(), Devices: 2, Schedule: s, Check: "0"}))
}

func newRig(d cu.Driver) *rig {
	ok(d.Init(0))
	r := &rig{Driver: d, ctx: got(d.DevicePrimaryCtxRetain(0))}
	r.a, r.b = r.stream(cu.StreamNonBlocking), r.stream(cu.StreamNonBlocking)
	r.s, r.t = r.stream(0), r.stream(0)
	r.e, r.f = got(d.EventCreate(r.ctx, 0)), got(d.EventCreate(r.ctx, 0))
	r.host, r.other = r.pinned(size), r.pinned(size)
	r.dev, r.there = got(d.MemAlloc(r.ctx, size)), got(d.MemAlloc(r.ctx, size))
	ok(d.MemsetD8(r.ctx, r.dev, 1, size))
	ok(d.MemsetD8(r.ctx, r.there, 1, size))
	ok(d.CtxSynchronize(r.ctx))
	m := got(d.ModuleLoadData(r.ctx, []byte(code)))
	r.fn, r.count = got(d.ModuleGetFunction(r.ctx, m, "put")), got(d.ModuleGetFunction(r.ctx, m, "count"))
	return r
}

// second returns the context of device 1.
func (r *rig) second() cu.Context {
	if got(r.DeviceGetCount()) < 2 {
		panic(errOneDevice)
	}
	return got(r.DevicePrimaryCtxRetain(1))
}

var errOneDevice = errors.New("there is one device")

// end waits for everything and frees it.
func (r *rig) end() error {
	err := r.CtxSynchronize(r.ctx)
	for i := range got(r.DeviceGetCount()) {
		err = errors.Join(err, r.DevicePrimaryCtxReset(cu.Device(i)))
	}
	return err
}

func ok(err error) {
	if err != nil {
		panic(err)
	}
}

func got[T any](x T, err error) T {
	ok(err)
	return x
}

func (r *rig) stream(flags cu.StreamFlags) cu.Stream { return got(r.StreamCreate(r.ctx, flags)) }

func (r *rig) pinned(n uintptr) []byte {
	return unsafe.Slice((*byte)(got(r.MemHostAlloc(r.ctx, n, 0))), n)
}

// foreign page-locks memory by a driver that the check does not watch, as another library does.
func (r *rig) foreign() []byte {
	var d cu.Driver = r.Driver
	if w, ok := d.(interface{ Unwrap() cu.Driver }); ok {
		d = w.Unwrap()
	}
	return unsafe.Slice((*byte)(got(d.MemHostAlloc(r.ctx, size, 0))), size)
}

func at(b []byte) cu.HostPtr        { return unsafe.Pointer(unsafe.SliceData(b)) }
func address(b []byte) cu.DevicePtr { return cu.DevicePtr(uintptr(at(b))) }

func word(b []byte) *uint32 { return (*uint32)(at(b)) }

func (r *rig) put(s cu.Stream, p cu.DevicePtr) { r.launch(r.fn, s, p) }

// launch runs a kernel with 32 threads.
func (r *rig) launch(f cu.Function, s cu.Stream, p cu.DevicePtr) {
	one := cu.Dim3{X: 1, Y: 1, Z: 1}
	ok(r.LaunchKernel(r.ctx, f, one, cu.Dim3{X: 32, Y: 1, Z: 1}, 0, s, binary.LittleEndian.AppendUint64(nil, uint64(p))))
}

func (r *rig) up(s cu.Stream, to cu.DevicePtr, from []byte) {
	ok(r.MemcpyHtoDAsync(r.ctx, to, at(from), uintptr(len(from)), s))
}

func (r *rig) down(s cu.Stream, to []byte, from cu.DevicePtr) {
	ok(r.MemcpyDtoHAsync(r.ctx, at(to), from, uintptr(len(to)), s))
}

func (r *rig) fill(s cu.Stream, p cu.DevicePtr, n uintptr) { ok(r.MemsetD8Async(r.ctx, p, 5, n, s)) }
func (r *rig) sync(s cu.Stream)                            { ok(r.StreamSynchronize(r.ctx, s)) }
func (r *rig) record(e cu.Event, s cu.Stream)              { ok(r.EventRecord(r.ctx, e, s)) }
func (r *rig) await(s cu.Stream, e cu.Event)               { ok(r.StreamWaitEvent(r.ctx, s, e, 0)) }
func (r *rig) wait(e cu.Event)                             { ok(r.EventSynchronize(r.ctx, e)) }
func (r *rig) call(s cu.Stream, f func())                  { ok(r.LaunchHostFunc(r.ctx, s, f)) }

// follow makes a stream follow another one.
func (r *rig) follow(s, before cu.Stream) {
	r.record(r.f, before)
	r.await(s, r.f)
}

// graph captures what f queues in a stream.
func (r *rig) graph(s cu.Stream, f func()) cu.GraphExec {
	ok(r.StreamBeginCapture(r.ctx, s, cu.StreamCaptureModeRelaxed))
	f()
	return got(r.GraphInstantiate(r.ctx, got(r.StreamEndCapture(r.ctx, s)), 0))
}
