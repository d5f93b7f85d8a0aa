package racetest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// size is the length of every buffer.
const size = 4096

// megabyte is the size of copies that are large.
const megabyte = 1 << 20

// code has the kernels of the programs.
const code = `
.version 8.0
.target sm_75
.address_size 64

.visible .global .align 16 .b8 table[4096];
.visible .global .attribute(.managed) .align 16 .b8 shared_table[4096];

// table[i] = i
.visible .entry store()
{
	.reg .u64 %a, %o;
	.reg .u32 %i, %b, %n;
	mov.u64 %a, table;
	cvta.global.u64 %a, %a;
	mov.u32 %b, %ctaid.x;
	mov.u32 %n, %ntid.x;
	mov.u32 %i, %tid.x;
	mad.lo.u32 %i, %b, %n, %i;
	mul.wide.u32 %o, %i, 4;
	add.u64 %a, %a, %o;
	st.global.u32 [%a], %i;
	ret;
}

// p[i*stride] = i
.visible .entry put(.param .u64 p, .param .u32 stride)
{
	.reg .u64 %a, %o;
	.reg .u32 %i, %b, %n, %s;
	ld.param.u64 %a, [p];
	ld.param.u32 %s, [stride];
	mov.u32 %b, %ctaid.x;
	mov.u32 %n, %ntid.x;
	mov.u32 %i, %tid.x;
	mad.lo.u32 %i, %b, %n, %i;
	mul.lo.u32 %s, %s, %i;
	mul.wide.u32 %o, %s, 4;
	add.u64 %a, %a, %o;
	st.global.u32 [%a], %i;
	ret;
}

// to[i] = from[i]
.visible .entry copy(.param .u64 to, .param .u64 from)
{
	.reg .u64 %a, %c, %o;
	.reg .u32 %i, %b, %n, %v;
	ld.param.u64 %a, [to];
	ld.param.u64 %c, [from];
	mov.u32 %b, %ctaid.x;
	mov.u32 %n, %ntid.x;
	mov.u32 %i, %tid.x;
	mad.lo.u32 %i, %b, %n, %i;
	mul.wide.u32 %o, %i, 4;
	add.u64 %a, %a, %o;
	add.u64 %c, %c, %o;
	ld.global.u32 %v, [%c];
	st.global.u32 [%a], %v;
	ret;
}

// *p += 1, by all
.visible .entry count(.param .u64 p, .param .u32 unused)
{
	.reg .u64 %a;
	.reg .u32 %i;
	ld.param.u64 %a, [p];
	mov.u32 %i, 1;
	red.global.add.u32 [%a], %i;
	ret;
}

// wait until p[0] is not 0
.visible .entry hold(.param .u64 p, .param .u32 unused)
{
	.reg .u64 %a;
	.reg .u32 %x;
	.reg .pred %p;
	ld.param.u64 %a, [p];
again:
	ld.volatile.global.u32 %x, [%a];
	setp.eq.u32 %p, %x, 0;
	@%p bra again;
	ret;
}

// data[0] = 7, then p[0] = 1 for all to see
.visible .entry publish(.param .u64 p, .param .u64 data)
{
	.reg .u64 %a, %b;
	.reg .u32 %x;
	ld.param.u64 %a, [p];
	ld.param.u64 %b, [data];
	mov.u32 %x, 7;
	st.global.u32 [%b], %x;
	membar.sys;
	mov.u32 %x, 1;
	st.volatile.global.u32 [%a], %x;
	ret;
}

// s.second[i] = i, of a struct of two pointers
.visible .entry put_second(.param .align 8 .b8 s[16])
{
	.reg .u64 %a;
	ld.param.u64 %a, [s+8];
	.reg .u64 %o;
	.reg .u32 %i, %b, %n;
	mov.u32 %b, %ctaid.x;
	mov.u32 %n, %ntid.x;
	mov.u32 %i, %tid.x;
	mad.lo.u32 %i, %b, %n, %i;
	mul.wide.u32 %o, %i, 4;
	add.u64 %a, %a, %o;
	st.global.u32 [%a], %i;
	ret;
}

// s.first[i] = i, and s.second[0][i] = i if both is not 0
.visible .entry put_both(.param .align 8 .b8 s[16], .param .u32 both)
{
	.reg .u64 %a;
	.reg .u32 %w;
	.reg .pred %p;
	ld.param.u64 %a, [s];
	.reg .u64 %o;
	.reg .u32 %i, %b, %n;
	mov.u32 %b, %ctaid.x;
	mov.u32 %n, %ntid.x;
	mov.u32 %i, %tid.x;
	mad.lo.u32 %i, %b, %n, %i;
	mul.wide.u32 %o, %i, 4;
	add.u64 %a, %a, %o;
	st.global.u32 [%a], %i;
	ld.param.u32 %w, [both];
	setp.eq.u32 %p, %w, 0;
	@%p ret;
	ld.param.u64 %a, [s+8];
	ld.global.u64 %a, [%a];
	add.u64 %a, %a, %o;
	st.global.u32 [%a], %i;
	ret;
}

// p->second[i] = i
.visible .entry put_second_of(.param .u64 p)
{
	.reg .u64 %a;
	ld.param.u64 %a, [p];
	ld.global.u64 %a, [%a+8];
	.reg .u64 %o;
	.reg .u32 %i, %b, %n;
	mov.u32 %b, %ctaid.x;
	mov.u32 %n, %ntid.x;
	mov.u32 %i, %tid.x;
	mad.lo.u32 %i, %b, %n, %i;
	mul.wide.u32 %o, %i, 4;
	add.u64 %a, %a, %o;
	st.global.u32 [%a], %i;
	ret;
}

// p[-1][i] = i
.visible .entry put_before(.param .u64 p)
{
	.reg .u64 %a;
	ld.param.u64 %a, [p];
	ld.global.u64 %a, [%a+-8];
	.reg .u64 %o;
	.reg .u32 %i, %b, %n;
	mov.u32 %b, %ctaid.x;
	mov.u32 %n, %ntid.x;
	mov.u32 %i, %tid.x;
	mad.lo.u32 %i, %b, %n, %i;
	mul.wide.u32 %o, %i, 4;
	add.u64 %a, %a, %o;
	st.global.u32 [%a], %i;
	ret;
}
`

// rig has what a program needs: its own driver with two devices.
type rig struct {
	cu.Driver
	ctx, ctx1   cu.Context // of devices 0 and 1
	a, b        cu.Stream  // non-blocking
	c, d        cu.Stream  // blocking
	e, f        cu.Event
	host, other []byte // page-locked
	dev, there  cu.DevicePtr
	elsewhere   cu.DevicePtr // on device 1
	functions   cu.Module
	flags       []uint32 // page-locked
	heldBy      []uint32 // read by kernel hold
	opened      bool
	failedWith  error
}

// h200 is the profile of all rigs. To parse it for each takes long in race builds.
var h200 = sync.OnceValue(func() *profile.Profile { return got(profile.Named("h200")) })

// newRig opens a driver.
func newRig(schedule string) *rig { return newRigOf(softwareGPU(schedule, "")) }

// softwareGPU opens a driver with two devices. schedule is as in FERRY_SCHEDULE, checks as in
// FERRY_CHECK, which it reads if checks is empty.
func softwareGPU(schedule, checks string) *softgpu.Driver {
	s, err := softgpu.ParseSchedule(schedule)
	ok(err)
	return got(softgpu.Open(softgpu.Options{Profile: h200(), Devices: 2, Schedule: s, Check: checks}))
}

// newRigOf returns a rig that uses d.
func newRigOf(d cu.Driver) *rig {
	ok(d.Init(0))
	r := &rig{Driver: d}
	r.ctx, r.ctx1 = got(d.DevicePrimaryCtxRetain(0)), got(d.DevicePrimaryCtxRetain(1))
	r.a, r.b = got(d.StreamCreate(r.ctx, cu.StreamNonBlocking)), got(d.StreamCreate(r.ctx, cu.StreamNonBlocking))
	r.c, r.d = got(d.StreamCreate(r.ctx, 0)), got(d.StreamCreate(r.ctx, 0))
	r.e, r.f = got(d.EventCreate(r.ctx, 0)), got(d.EventCreate(r.ctx, 0))
	r.host, r.other = r.pinned(), r.pinned()
	r.dev, r.there = got(d.MemAlloc(r.ctx, size)), got(d.MemAlloc(r.ctx, size))
	r.elsewhere = got(d.MemAlloc(r.ctx1, size))
	r.functions = got(d.ModuleLoadData(r.ctx, []byte(code)))
	flags := r.pinned()
	clear(flags)
	r.flags = unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(flags))), size/4)
	r.heldBy = r.flags[size/8:]
	return r
}

// end waits for everything and frees it. A wrong program may have lost the
// device.
func (r *rig) end() error {
	r.open()
	err := errors.Join(r.CtxSynchronize(r.ctx), r.CtxSynchronize(r.ctx1))
	return errors.Join(err, r.DevicePrimaryCtxReset(0), r.DevicePrimaryCtxReset(1))
}

func ok(err error) {
	if err != nil {
		panic(err)
	}
}

// fails says that a wrong program has the error that shows its fault.
func (r *rig) fails(err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s%v\n", errorReport, err)
	}
}

// errorReport begins the line of an error that shows the fault of a wrong program.
const errorReport = "error: "

func got[T any](x T, err error) T {
	ok(err)
	return x
}

func (r *rig) pinned() []byte {
	return unsafe.Slice((*byte)(got(r.MemHostAlloc(r.ctx, size, 0))), size)
}

func (r *rig) managed() (cu.DevicePtr, []byte) {
	p := got(r.MemAllocManaged(r.ctx, size, cu.MemAttachGlobal))
	return p, bytesAt(p, size)
}

// bytesAt returns n bytes of managed memory.
func bytesAt(p cu.DevicePtr, n int) []byte { return unsafe.Slice(*(**byte)(unsafe.Pointer(&p)), n) }

func at(b []byte) cu.HostPtr        { return unsafe.Pointer(unsafe.SliceData(b)) }
func address(b []byte) cu.DevicePtr { return cu.DevicePtr(uintptr(at(b))) }
func word(b []byte) *uint32         { return (*uint32)(at(b)) }
func flagAt(w []uint32) cu.DevicePtr {
	return cu.DevicePtr(uintptr(unsafe.Pointer(unsafe.SliceData(w))))
}

// run launches a kernel of 1024 threads, one for each word of a buffer.
func (r *rig) run(name string, s cu.Stream, args ...any) {
	f := got(r.ModuleGetFunction(r.ctx, r.functions, name))
	grid := uint32(size / 4 / 128)
	if name == "hold" || name == "publish" {
		grid = 0
	}
	shape, block := cu.Dim3{X: max(grid, 1), Y: 1, Z: 1}, cu.Dim3{X: 128, Y: 1, Z: 1}
	if grid == 0 {
		block.X = 1
	}
	ok(r.LaunchKernel(r.ctx, f, shape, block, 0, s, pack(args)))
}

func pack(args []any) (b []byte) {
	for _, x := range args {
		switch x := x.(type) {
		case cu.DevicePtr:
			b = binary.LittleEndian.AppendUint64(b, uint64(x))
		case int:
			b = binary.LittleEndian.AppendUint32(b, uint32(x))
		}
	}
	return b
}

// put launches a kernel that writes a whole buffer.
func (r *rig) put(s cu.Stream, p cu.DevicePtr) { r.run("put", s, p, 1) }

func (r *rig) up(s cu.Stream, to cu.DevicePtr, from []byte) {
	ok(r.MemcpyHtoDAsync(r.ctx, to, at(from), uintptr(len(from)), s))
}

func (r *rig) down(s cu.Stream, to []byte, from cu.DevicePtr) {
	ok(r.MemcpyDtoHAsync(r.ctx, at(to), from, uintptr(len(to)), s))
}

func (r *rig) fill(s cu.Stream, p cu.DevicePtr, n uintptr) {
	ok(r.MemsetD8Async(r.ctx, p, 5, n, s))
}

// writeValue writes the first flag at this point of a stream.
func (r *rig) writeValue(s cu.Stream, v uint32) {
	ok(r.StreamWriteValue32(r.ctx, s, flagAt(r.flags), v, 0))
}

// waitValue lets a stream wait until the first flag has a value.
func (r *rig) waitValue(s cu.Stream, v uint32) {
	ok(r.StreamWaitValue32(r.ctx, s, flagAt(r.flags), v, cu.StreamWaitValueEQ))
}

func (r *rig) sync(s cu.Stream)               { ok(r.StreamSynchronize(r.ctx, s)) }
func (r *rig) record(e cu.Event, s cu.Stream) { ok(r.EventRecord(r.ctx, e, s)) }
func (r *rig) await(s cu.Stream, e cu.Event)  { ok(r.StreamWaitEvent(r.ctx, s, e, 0)) }
func (r *rig) wait(e cu.Event)                { ok(r.EventSynchronize(r.ctx, e)) }
func (r *rig) call(s cu.Stream, f func())     { ok(r.LaunchHostFunc(r.ctx, s, f)) }

// sink keeps the reads of programs.
var sink byte
