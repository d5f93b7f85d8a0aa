package api

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/softgpu"
)

// badCalls makes the calls of the table in refusaltable_test.go on a driver: calls with the input
// that a refusal of this package is about.
type badCalls struct {
	t      testing.TB
	d      cu.Driver
	ctx    cu.Context // of device 0
	other  cu.Context // a second context of device 0
	far    cu.Context // of device 1, or 0 without one
	mem    cu.DevicePtr
	farMem cu.DevicePtr
	host   cu.HostPtr
	module cu.Module
	memory []byte // ordinary Go memory, which lives as long as the calls
}

const badBytes = 1 << 16

// badPTX has a kernel without bounds, one for 64 threads, and one with many registers.
func badPTX() []byte {
	var b strings.Builder
	b.WriteString(".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry plain() {\nret;\n}\n" +
		".visible .entry bounded() .maxntid 64 {\nret;\n}\n" +
		".visible .entry registers(.param .u64 p) {\n.reg .b64 %d<2>;\n.reg .b32 %r<121>;\nld.param.u64 %d1, [p];\n")
	for _, form := range []string{"ld.volatile.global.u32 %%r%[1]d, [%%d1+%[2]d];\n", "st.volatile.global.u32 [%%d1+%[2]d], %%r%[1]d;\n"} {
		for i := range 120 {
			fmt.Fprintf(&b, form, i+1, 4*i)
		}
	}
	b.WriteString("ret;\n}\n")
	return []byte(b.String())
}

// newBadCalls makes what the calls need on the devices of a driver.
func newBadCalls(t testing.TB, d cu.Driver) *badCalls {
	t.Helper()
	c := &badCalls{t: t, d: d, memory: make([]byte, badBytes)}
	check(t, d.Init(0))
	c.ctx = must(d.DevicePrimaryCtxRetain(0))(t)
	t.Cleanup(func() { check(t, d.DevicePrimaryCtxRelease(0)) })
	c.other = must(d.CtxCreate(0, 0))(t)
	t.Cleanup(func() { check(t, d.CtxDestroy(c.other)) })
	c.mem = must(d.MemAlloc(c.ctx, badBytes))(t)
	c.host = must(d.MemHostAlloc(c.ctx, badBytes, 0))(t)
	c.module = must(d.ModuleLoadData(c.ctx, badPTX()))(t)
	t.Cleanup(func() {
		check(t, errors.Join(d.ModuleUnload(c.ctx, c.module), d.MemFreeHost(c.ctx, c.host), d.MemFree(c.ctx, c.mem)))
	})
	if must(d.DeviceGetCount())(t) > 1 {
		c.far = must(d.DevicePrimaryCtxRetain(1))(t)
		t.Cleanup(func() { check(t, d.DevicePrimaryCtxRelease(1)) })
		c.farMem = must(d.MemAlloc(c.far, badBytes))(t)
		t.Cleanup(func() { check(t, d.MemFree(c.far, c.farMem)) })
	}
	return c
}

// errNoDevices says that a call needs what this machine lacks.
var errNoDevices = errors.New("not on this machine")

func (c *badCalls) stream(ctx cu.Context) cu.Stream {
	s := must(c.d.StreamCreate(ctx, cu.StreamNonBlocking))(c.t)
	c.t.Cleanup(func() { check(c.t, c.d.StreamDestroy(ctx, s)) })
	return s
}

func (c *badCalls) event(ctx cu.Context, flags cu.EventFlags) cu.Event {
	e := must(c.d.EventCreate(ctx, flags))(c.t)
	c.t.Cleanup(func() { check(c.t, c.d.EventDestroy(ctx, e)) })
	return e
}

// recorded returns an event that a context has recorded, and that has occurred.
func (c *badCalls) recorded(ctx cu.Context) cu.Event {
	e := c.event(ctx, 0)
	check(c.t, c.d.EventRecord(ctx, e, c.stream(ctx)))
	check(c.t, c.d.EventSynchronize(ctx, e))
	return e
}

func (c *badCalls) kernel(name string) cu.Function {
	return must(c.d.ModuleGetFunction(c.ctx, c.module, name))(c.t)
}

// elsewhere is a context of another device or, on a machine with one, another context.
func (c *badCalls) elsewhere() cu.Context { return cmp.Or(c.far, c.other) }

// launch launches the plain kernel.
func (c *badCalls) launch(grid, block cu.Dim3, shared uint32) error {
	return c.d.LaunchKernel(c.ctx, c.kernel("plain"), grid, block, shared, c.stream(c.ctx), nil)
}

// attribute returns an attribute of device 0.
func (c *badCalls) attribute(a cu.DeviceAttribute) int {
	return int(must(c.d.DeviceGetAttribute(a, 0))(c.t))
}

// elapsed measures the time between two events.
func (c *badCalls) elapsed(ctx cu.Context, from, to cu.Event) error {
	_, err := c.d.EventElapsedTime(ctx, from, to)
	return err
}

// capturing makes a call while a stream captures, and ends the capture.
func (c *badCalls) capturing(call func(s cu.Stream) error) error {
	return c.whileCapturing(cu.StreamCaptureModeRelaxed, call)
}

// whileCapturing makes a call in a capture of a mode. All calls are made on one thread, which the
// capture belongs to.
func (c *badCalls) whileCapturing(mode cu.StreamCaptureMode, call func(s cu.Stream) error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := c.stream(c.ctx)
	check(c.t, c.d.StreamBeginCapture(c.ctx, s, mode))
	err := call(s)
	if graph, ended := c.d.StreamEndCapture(c.ctx, s); ended == nil && graph != 0 {
		check(c.t, c.d.GraphDestroy(graph))
	}
	return err
}

// onFar makes a call that needs a second device.
func (c *badCalls) onFar(call func() error) error {
	if c.far == 0 {
		return errNoDevices
	}
	return call()
}

// copyFromFarPool copies from memory of another GPU's pool, which is not open to this one.
func (c *badCalls) copyFromFarPool() error {
	far, s := c.stream(c.far), c.stream(c.ctx)
	p := must(c.d.MemAllocAsync(c.far, badBytes, far))(c.t)
	defer func() { check(c.t, c.d.MemFreeAsync(c.far, p, far)) }()
	check(c.t, c.d.StreamSynchronize(c.far, far))
	return c.d.MemcpyDtoHAsync(c.ctx, c.host, p, badBytes, s)
}

// tooManyThreads launches more threads than the registers of a kernel allow.
func (c *badCalls) tooManyThreads() error {
	f := c.kernel("registers")
	most := must(c.d.FuncGetAttribute(c.ctx, cu.FuncAttributeMaxThreadsPerBlock, f))(c.t)
	if most >= 1024 {
		return errNoDevices
	}
	params := binary.LittleEndian.AppendUint64(nil, uint64(c.mem))
	return c.d.LaunchKernel(c.ctx, f, cu.Dim3{X: 1, Y: 1, Z: 1}, cu.Dim3{X: 1024, Y: 1, Z: 1}, 0, c.stream(c.ctx), params)
}

// cluster launches eight blocks in clusters of a size.
func (c *badCalls) cluster(size cu.Dim3) error {
	if c.attribute(cu.DeviceAttributeClusterLaunch) == 0 {
		return errNoDevices
	}
	return c.d.LaunchKernelEx(c.ctx, &cu.LaunchConfig{Grid: cu.Dim3{X: 8, Y: 2, Z: 1}, Block: cu.Dim3{X: 32, Y: 1, Z: 1},
		Stream: c.stream(c.ctx), Attrs: []cu.LaunchAttribute{cu.ClusterLaunch(size)}}, c.kernel("plain"), nil)
}

// registeredTwice registers memory that shares bytes with a registration.
func (c *badCalls) registeredTwice() error {
	memory := make([]byte, badBytes)
	defer runtime.KeepAlive(memory)
	p := pointerTo(memory)
	check(c.t, c.d.MemHostRegister(c.ctx, p, badBytes, 0))
	defer func() { check(c.t, c.d.MemHostUnregister(c.ctx, p)) }()
	return c.d.MemHostRegister(c.ctx, p, badBytes/2, 0)
}

// updateFromOther updates an executable graph from a graph of another context.
func (c *badCalls) updateFromOther() error {
	exec, there := c.exec(), c.elsewhere()
	s := c.stream(there)
	p := must(c.d.MemAlloc(there, badBytes))(c.t)
	defer func() { check(c.t, c.d.MemFree(there, p)) }()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	check(c.t, c.d.StreamBeginCapture(there, s, cu.StreamCaptureModeRelaxed))
	check(c.t, c.d.MemsetD8Async(there, p, 1, badBytes, s))
	graph := must(c.d.StreamEndCapture(there, s))(c.t)
	defer func() { check(c.t, c.d.GraphDestroy(graph)) }()
	return c.d.GraphExecUpdate(c.ctx, exec, graph)
}

// exec returns an executable graph of a kernel of the first context, which is destroyed at the end.
func (c *badCalls) exec() cu.GraphExec {
	s := c.stream(c.ctx)
	check(c.t, c.d.StreamBeginCapture(c.ctx, s, cu.StreamCaptureModeRelaxed))
	check(c.t, c.d.MemsetD8Async(c.ctx, c.mem, 1, badBytes, s))
	graph := must(c.d.StreamEndCapture(c.ctx, s))(c.t)
	exec := must(c.d.GraphInstantiate(c.ctx, graph, 0))(c.t)
	c.t.Cleanup(func() { check(c.t, errors.Join(c.d.GraphExecDestroy(exec), c.d.GraphDestroy(graph))) })
	return exec
}

// capturedEvent returns an event that was recorded in a capture, after or before its end.
func (c *badCalls) capturedEvent(s cu.Stream) cu.Event {
	e := c.event(c.ctx, 0)
	check(c.t, c.d.EventRecord(c.ctx, e, s))
	return e
}

// managed makes a call with managed memory.
func (c *badCalls) managed(call func(p cu.DevicePtr) error) error {
	p := must(c.d.MemAllocManaged(c.ctx, badBytes, cu.MemAttachGlobal))(c.t)
	defer func() { check(c.t, c.d.MemFree(c.ctx, p)) }()
	return call(p)
}

// rect copies device memory with a pitch and a width.
func (c *badCalls) rect(pitch, width, height uintptr) error {
	return c.d.Memcpy2D(c.ctx, &cu.Memcpy2D{SrcMemoryType: cu.MemoryTypeDevice, SrcDevice: c.mem, SrcPitch: pitch,
		DstMemoryType: cu.MemoryTypeHost, DstHost: c.host, DstPitch: pitch, WidthInBytes: width, Height: height})
}

// TestRefusalCodes makes the call of each row of refusalTable on both drivers. Its result is the
// code that the refusal wraps.
func TestRefusalCodes(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeHostRegisterSupported, cu.DeviceAttributeConcurrentManagedAccess)
	codes := codesOfRefusals(t)
	for name, open := range map[string]func(t *testing.T) cu.Driver{
		"soft": func(t *testing.T) cu.Driver {
			return must(softgpu.Open(softgpu.Options{Profile: gputest.H200(t), Devices: 2}))(t)
		},
		"cuda": func(t *testing.T) cu.Driver { return gputest.Driver(t) },
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t)
			c := newBadCalls(t, d)
			made, lacking := 0, 0
			for _, row := range refusalTable {
				if row.call == nil {
					continue
				}
				t.Run(row.key(), func(t *testing.T) {
					c.t = t
					err := row.call(c)
					if errors.Is(err, errNoDevices) {
						lacking++
						t.Skip(err)
					}
					made++
					want := codes[row.key()]
					if got, _ := errors.AsType[cu.Result](err); got != want {
						t.Errorf("the driver says %v, the refusal wraps %v", err, want)
					}
				})
			}
			t.Logf("%d calls, %d need another machine", made, lacking)
		})
	}
}
