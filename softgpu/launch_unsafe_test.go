package softgpu

import (
	"encoding/binary"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// testPTX has small kernels.
const testPTX = `
.version 8.0
.target sm_75
.address_size 64

.visible .global .align 4 .u32 counter = 41;
.visible .global .align 8 .u64 where = counter;
.visible .const .align 4 .u32 factor = 3;
.visible .global .attribute(.managed) .align 4 .u32 both = 5;

// *p = v
.visible .entry store(.param .u64 p, .param .u32 v)
{
	.reg .u64 %a;
	.reg .u32 %x;
	ld.param.u64 %a, [p];
	ld.param.u32 %x, [v];
	st.global.u32 [%a], %x;
	ret;
}

// *p += *counter * factor + *both
.visible .entry gather(.param .u64 p)
{
	.reg .u64 %a, %b;
	.reg .u32 %x, %y, %z;
	ld.param.u64 %a, [p];
	ld.global.u32 %x, [counter];
	ld.const.u32 %y, [factor];
	mul.lo.u32 %x, %x, %y;
	ld.global.u32 %z, [both];
	add.u32 %x, %x, %z;
	st.global.u32 [%a], %x;
	ret;
}

// *up = 1, then wait until *down is not 0
.visible .entry ping(.param .u64 up, .param .u64 down)
{
	.reg .u64 %a, %b;
	.reg .u32 %x;
	.reg .pred %p;
	ld.param.u64 %a, [up];
	ld.param.u64 %b, [down];
	mov.u32 %x, 1;
	st.volatile.global.u32 [%a], %x;
	membar.sys;
again:
	ld.volatile.global.u32 %x, [%b];
	setp.eq.u32 %p, %x, 0;
	@%p bra again;
	ret;
}

// p[i] = i for all threads of the grid
.visible .entry iota(.param .u64 p)
{
	.reg .u64 %a, %o;
	.reg .u32 %i, %b, %n;
	ld.param.u64 %a, [p];
	mov.u32 %b, %ctaid.x;
	mov.u32 %n, %ntid.x;
	mov.u32 %i, %tid.x;
	mad.lo.u32 %i, %b, %n, %i;
	mul.wide.u32 %o, %i, 4;
	add.u64 %a, %a, %o;
	st.global.u32 [%a], %i;
	ret;
}

.visible .entry small(.param .u64 p) .maxntid 64, 1, 1
{
	.shared .align 4 .b8 mine[1024];
	.reg .u32 %x;
	mov.u32 %x, 1;
	st.shared.u32 [mine], %x;
	ret;
}
`

func (r *rig) module(ctx cu.Context) cu.Module {
	r.t.Helper()
	m, err := r.ModuleLoadData(ctx, []byte(testPTX))
	r.ok(err)
	return m
}

func (r *rig) function(name string) cu.Function {
	r.t.Helper()
	f, err := r.ModuleGetFunction(r.ctx, r.module(r.ctx), name)
	r.ok(err)
	return f
}

func params(words ...any) []byte {
	var b []byte
	for _, w := range words {
		switch w := w.(type) {
		case cu.DevicePtr:
			for len(b)%8 != 0 {
				b = append(b, 0)
			}
			b = binary.LittleEndian.AppendUint64(b, uint64(w))
		case uint32:
			b = binary.LittleEndian.AppendUint32(b, w)
		}
	}
	return b
}

var one = cu.Dim3{X: 1, Y: 1, Z: 1}

func (r *rig) run(f cu.Function, grid, block uint32, s cu.Stream, words ...any) error {
	return r.LaunchKernel(r.ctx, f, cu.Dim3{X: grid, Y: 1, Z: 1}, cu.Dim3{X: block, Y: 1, Z: 1}, 0, s, params(words...))
}

func TestLaunch(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		const n = 64 * 33
		dev := r.alloc(4 * n)
		hp, host := r.pinned(4 * n)
		s := r.stream(0)
		r.ok(r.run(r.function("iota"), 33, 64, s, dev))
		r.ok(r.MemcpyDtoHAsync(r.ctx, hp, dev, 4*n, s))
		r.sync(s)
		for i := range uint32(n) {
			if got := binary.LittleEndian.Uint32(host[4*i:]); got != i {
				t.Fatalf("element %d is %d", i, got)
			}
		}
		dp := cu.DevicePtr(uintptr(hp))
		r.ok(r.run(r.function("store"), 1, 1, s, dp, uint32(77))) // zero-copy
		r.sync(s)
		if host[0] != 77 {
			t.Errorf("zero-copy store left %d", host[0])
		}
	})
}

func TestModuleVariables(t *testing.T) {
	r := newRig(t, Options{})
	m := r.module(r.ctx)
	f, err := r.ModuleGetFunction(r.ctx, m, "gather")
	r.ok(err)
	dev := r.alloc(4)
	value := func() (v uint32) {
		t.Helper()
		r.ok(r.run(f, 1, 1, 0, dev))
		r.ok(r.MemcpyDtoH(r.ctx, unsafe.Pointer(&v), dev, 4))
		return v
	}
	if v := value(); v != 41*3+5 {
		t.Errorf("got %d", v)
	}
	counter, n, err := r.ModuleGetGlobal(r.ctx, m, "counter")
	r.ok(err)
	if n != 4 {
		t.Errorf("counter has %d bytes", n)
	}
	where, _, err := r.ModuleGetGlobal(r.ctx, m, "where")
	r.ok(err)
	var at uint64
	r.ok(r.MemcpyDtoH(r.ctx, unsafe.Pointer(&at), where, 8))
	if cu.DevicePtr(at) != counter {
		t.Errorf("an address in an initial value is %#x, want %#x", at, counter)
	}
	r.ok(r.MemsetD32(r.ctx, counter, 1, 1))
	both, _, err := r.ModuleGetGlobal(r.ctx, m, "both")
	r.ok(err)
	a, err := r.PointerGetAttributes(r.ctx, both)
	r.ok(err)
	if !a.IsManaged {
		t.Error("a managed variable is not managed")
	}
	*(*uint32)(a.HostPointer) = 10
	if v := value(); v != 13 {
		t.Errorf("got %d", v)
	}
	r.want(cu.ErrorInvalidValue, r.MemFree(r.ctx, counter))
	_, err = r.ModuleGetFunction(r.ctx, m, "stor")
	r.want(cu.ErrorNotFound, err)
	if !strings.Contains(err.Error(), "store") {
		t.Errorf("%v does not name the module's kernels", err)
	}
	_, _, err = r.ModuleGetGlobal(r.ctx, m, "x")
	r.want(cu.ErrorNotFound, err)
	r.ok(r.ModuleUnload(r.ctx, m))
	r.want(cu.ErrorInvalidHandle, r.run(f, 1, 1, 0, dev))
	r.want(cu.ErrorInvalidValue, r.MemsetD32(r.ctx, counter, 1, 1))
}

func TestBadImages(t *testing.T) {
	r := newRig(t, Options{})
	for image, code := range map[string]cu.Result{
		"":                         cu.ErrorInvalidImage,
		"\x7fELF\x02":              cu.ErrorNoBinaryForGPU,
		"hello":                    cu.ErrorInvalidImage,
		strings.Repeat("\x00", 99): cu.ErrorInvalidImage,
		".version 9.1\n.target sm_75\n.visible .entry k() { ret; }": cu.ErrorUnsupportedPTXVersion,
		".version 9.0\n.target sm_75\n.visible .entry k() {":        cu.ErrorInvalidPTX,
		"\x50\xed\x55\xba....": cu.ErrorInvalidImage,
		".version 8.0\n.target sm_75\n.address_size 64\n.extern .global .u32 nowhere;\n.visible .entry k() { .reg .u32 %r; ld.global.u32 %r, [nowhere]; ret; }": cu.ErrorInvalidPTX,
	} {
		_, err := r.ModuleLoadData(r.ctx, []byte(image))
		r.want(code, err)
		if j, ok := errors.AsType[*cu.JITError](err); code == cu.ErrorInvalidPTX && (!ok || j.Log == "") {
			t.Errorf("%q: %v has no log", image, err)
		}
	}
}

func TestLaunchLimits(t *testing.T) {
	r := newRig(t, Options{})
	f := r.function("store")
	dev := r.alloc(4)
	good := params(dev, uint32(1))
	launch := func(grid, block cu.Dim3, shared uint32, p []byte) error {
		return r.LaunchKernel(r.ctx, f, grid, block, shared, 0, p)
	}
	r.ok(launch(one, one, 0, good))
	r.ok(launch(one, one, 48<<10, good))
	for _, bad := range []cu.Dim3{{}, {X: 1025, Y: 1, Z: 1}, {X: 64, Y: 64, Z: 1}, {X: 1, Y: 1, Z: 65}, {X: 1, Y: 0, Z: 1}} {
		r.want(cu.ErrorInvalidValue, launch(one, bad, 0, good))
	}
	for _, bad := range []cu.Dim3{{}, {X: 1 << 31, Y: 1, Z: 1}, {X: 1, Y: 65536, Z: 1}, {X: 1, Y: 1, Z: 65536}} {
		r.want(cu.ErrorInvalidValue, launch(bad, one, 0, good))
	}
	r.want(cu.ErrorInvalidValue, launch(one, one, 48<<10+1, good))
	r.ok(r.FuncSetAttribute(r.ctx, f, cu.FuncAttributeMaxDynamicSharedBytes, 200<<10))
	r.ok(launch(one, one, 200<<10, good))
	r.want(cu.ErrorInvalidValue, r.FuncSetAttribute(r.ctx, f, cu.FuncAttributeMaxDynamicSharedBytes, 300<<10))
	err := launch(one, one, 0, good[:8])
	r.want(cu.ErrorInvalidValue, err)
	if !strings.Contains(err.Error(), "12") || !strings.Contains(err.Error(), "8 bytes") {
		t.Errorf("%v does not contain the sizes", err)
	}
	r.want(cu.ErrorInvalidValue, launch(one, one, 0, nil))
	r.want(cu.ErrorLaunchOutOfResources, launch(one, one, 0, append(good, 0)))
	r.want(cu.ErrorInvalidHandle, r.LaunchKernel(r.ctx, 99, one, one, 0, 0, nil))
	small := r.function("small")
	r.want(cu.ErrorInvalidValue, r.LaunchKernel(r.ctx, small, one, cu.Dim3{X: 65, Y: 1, Z: 1}, 0, 0, params(dev)))
	if v, err := r.FuncGetAttribute(r.ctx, cu.FuncAttributeMaxThreadsPerBlock, small); v != 64 || err != nil {
		t.Errorf("max threads %d, %v", v, err)
	}
	if v, err := r.FuncGetAttribute(r.ctx, cu.FuncAttributeSharedSizeBytes, small); v != 1024 || err != nil {
		t.Errorf("shared %d, %v", v, err)
	}
	if v, err := r.FuncGetAttribute(r.ctx, cu.FuncAttributePTXVersion, small); v != 75 || err != nil {
		t.Errorf("PTX version %d, %v", v, err)
	}
	off, size, err := r.FuncGetParamInfo(r.ctx, f, 1)
	if off != 8 || size != 4 || err != nil {
		t.Errorf("parameter 1 at %d of %d bytes, %v", off, size, err)
	}
	_, _, err = r.FuncGetParamInfo(r.ctx, f, 2)
	r.want(cu.ErrorInvalidValue, err)
	r.ok(r.CtxSynchronize(r.ctx))
}

// elsewhere returns memory of another context of the device.
func (r *rig) elsewhere() (cu.Context, cu.DevicePtr) {
	c, err := r.CtxCreate(0, 0)
	r.ok(err)
	p, err := r.MemAlloc(c, 64)
	r.ok(err)
	return c, p
}

// setPTX is for every machine.
const setPTX = `.version 2.3
.target sm_20
.address_size 64
.visible .entry set(.param .u64 to, .param .u32 value) {
	.reg .u64 %to;
	.reg .u32 %value;
	ld.param.u64 %to, [to];
	ld.param.u32 %value, [value];
	st.global.u32 [%to], %value;
	ret;
}
`

// TestOtherContext: the contexts of a device share its addresses, where the host does too. Before
// unified addressing each has addresses of its own.
func TestOtherContext(t *testing.T) {
	for _, c := range []struct {
		machine string
		want    error
	}{{"h200", nil}, {"fermi-c2050", cu.ErrorIllegalAddress}} {
		r := newRig(t, Options{Profile: named(t, c.machine)})
		other, p := r.elsewhere()
		m, err := r.ModuleLoadData(r.ctx, []byte(setPTX))
		r.ok(err)
		f, err := r.ModuleGetFunction(r.ctx, m, "set")
		r.ok(err)
		r.ok(r.run(f, 1, 1, 0, p, uint32(77)))
		if err := r.CtxSynchronize(r.ctx); !errors.Is(err, c.want) {
			t.Fatalf("%s: %v, want %v", c.machine, err, c.want)
		} else if err != nil {
			if f, ok := errors.AsType[*cu.Fault](err); !ok || !strings.Contains(f.Near, "of another context") {
				t.Errorf("%s: %v does not name the other context", c.machine, err)
			}
			continue
		}
		got := make([]byte, 4)
		r.ok(r.MemcpyDtoH(other, ptr(got), p, 4))
		if got[0] != 77 {
			t.Errorf("%s: got %d, want 77", c.machine, got[0])
		}
	}
}

func TestFaults(t *testing.T) {
	near := func(r *rig, addr cu.DevicePtr) *cu.Fault {
		t.Helper()
		r.ok(r.run(r.function("store"), 1, 1, 0, addr, uint32(1)))
		err := r.CtxSynchronize(r.ctx)
		f, ok := errors.AsType[*cu.Fault](err)
		if !ok {
			t.Fatalf("got %v, want a fault", err)
		}
		_, again := r.MemAlloc(r.ctx, 8)
		if !errors.Is(again, err) {
			t.Errorf("not sticky: %v", again)
		}
		if f.Kernel != "store" || f.Line == 0 || f.Addr != addr {
			t.Errorf("fault %+v", f)
		}
		return f
	}
	for _, c := range []struct {
		name  string
		addr  func(*rig) cu.DevicePtr
		words string
		code  cu.Result
	}{
		{"past the end", func(r *rig) cu.DevicePtr { return r.alloc(4096) + 4096 + 256 }, "256 bytes past the end of a 4096-byte device allocation", cu.ErrorIllegalAddress},
		{"freed", func(r *rig) cu.DevicePtr { p := r.alloc(4096); r.ok(r.MemFree(r.ctx, p)); return p + 8 }, "freed", cu.ErrorIllegalAddress},
		{"misaligned", func(r *rig) cu.DevicePtr { return r.alloc(64) + 2 }, "", cu.ErrorMisalignedAddress},
		{"null", func(r *rig) cu.DevicePtr { return 0 }, "no allocation is near", cu.ErrorIllegalAddress},
		{"ordinary host memory", func(r *rig) cu.DevicePtr { return cu.DevicePtr(uintptr(unsafe.Pointer(new([64]byte)))) }, "", cu.ErrorIllegalAddress},
		{"a destroyed context's", func(r *rig) cu.DevicePtr {
			c, p := r.elsewhere()
			r.ok(r.CtxDestroy(c))
			return p
		}, "freed", cu.ErrorIllegalAddress},
		{"read-only registration", func(r *rig) cu.DevicePtr {
			p := ptr(make([]byte, 64))
			r.ok(r.MemHostRegister(r.ctx, p, 64, cu.MemHostRegisterReadOnly))
			return cu.DevicePtr(uintptr(p))
		}, "registered host range", cu.ErrorIllegalAddress},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "null" && oneThread {
				t.Skip("host memory of this platform is near address 0")
			}
			r := newRig(t, Options{})
			f := near(r, c.addr(r))
			if f.Result != c.code || !strings.Contains(f.Near, c.words) {
				t.Errorf("%v, near %q; want %s, %q", f.Result.Name(), f.Near, c.code.Name(), c.words)
			}
			if !errors.Is(f, c.code) {
				t.Errorf("%v is not %v", f, c.code)
			}
		})
	}
}

func TestPeerAccessInKernels(t *testing.T) {
	r := newRig(t, Options{Devices: 2})
	c1, err := r.DevicePrimaryCtxRetain(1)
	r.ok(err)
	p, err := r.MemAlloc(c1, 4)
	r.ok(err)
	r.ok(r.CtxEnablePeerAccess(r.ctx, c1, 0))
	r.ok(r.run(r.function("store"), 1, 1, 0, p, uint32(6)))
	r.ok(r.CtxSynchronize(r.ctx))
	var v uint32
	r.ok(r.MemcpyDtoH(c1, unsafe.Pointer(&v), p, 4))
	if v != 6 {
		t.Errorf("got %d", v)
	}
	r.ok(r.CtxDisablePeerAccess(r.ctx, c1))
	r.ok(r.run(r.function("store"), 1, 1, 0, p, uint32(7)))
	r.want(cu.ErrorIllegalAddress, r.CtxSynchronize(r.ctx))
}

func TestFlagsBetweenHostAndKernel(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		hp, _ := r.pinned(256)
		up, down := (*uint32)(hp), (*uint32)(unsafe.Add(hp, 128))
		dp := cu.DevicePtr(uintptr(hp))
		s := r.stream(cu.StreamNonBlocking)
		r.ok(r.run(r.function("ping"), 1, 1, s, dp, dp+128))
		r.want(cu.ErrorNotReady, r.StreamQuery(r.ctx, s))
		for began := time.Now(); atomic.LoadUint32(up) == 0; {
			if time.Since(began) > 10*time.Second {
				t.Fatal("the kernel does not run while the host waits")
			}
			time.Sleep(time.Millisecond)
		}
		other := r.stream(cu.StreamNonBlocking) // other streams make progress
		r.ok(r.MemsetD8Async(r.ctx, r.alloc(100), 1, 100, other))
		r.sync(other)
		r.want(cu.ErrorNotReady, r.StreamQuery(r.ctx, s))
		atomic.StoreUint32(down, 1)
		r.sync(s)
	})
}

func TestKernelsOfAContextOverlap(t *testing.T) {
	r := newRig(t, Options{})
	f := r.function("ping")
	hp, _ := r.pinned(256)
	dp := cu.DevicePtr(uintptr(hp))
	a, b := r.stream(cu.StreamNonBlocking), r.stream(cu.StreamNonBlocking)
	r.ok(r.run(f, 1, 1, a, dp, dp+128)) // waits for the other kernel
	r.ok(r.run(f, 1, 1, b, dp+128, dp))
	r.sync(a)
	r.sync(b)
}

func TestKernelsOfContextsDoNotOverlap(t *testing.T) {
	if raceBuild {
		t.Skip("the race detector reports the missing synchronization")
	}
	r := newRig(t, Options{})
	hp, _ := r.pinned(256)
	up, down := (*uint32)(hp), (*uint32)(unsafe.Add(hp, 128))
	dp := cu.DevicePtr(uintptr(hp))
	r.ok(r.run(r.function("ping"), 1, 1, 0, dp, dp+128))
	for atomic.LoadUint32(up) == 0 {
		time.Sleep(time.Millisecond)
	}
	c, err := r.CtxCreate(0, 0)
	r.ok(err)
	m := r.module(c)
	f, err := r.ModuleGetFunction(c, m, "store")
	r.ok(err)
	r.want(cu.ErrorInvalidHandle, r.run(f, 1, 1, 0, dp, uint32(1))) // of another context
	r.ok(r.LaunchKernel(c, f, one, one, 0, 0, params(dp+64, uint32(9))))
	time.Sleep(20 * time.Millisecond)
	if v := atomic.LoadUint32((*uint32)(unsafe.Add(hp, 64))); v != 0 {
		t.Error("kernels of two contexts ran at once")
	}
	atomic.StoreUint32(down, 1)
	r.ok(r.CtxSynchronize(c))
	if v := atomic.LoadUint32((*uint32)(unsafe.Add(hp, 64))); v != 9 {
		t.Error("the second context's kernel did not run")
	}
	r.ok(r.CtxSynchronize(r.ctx))
}

// A kernel that spins loses its time slice to another context, whose kernel can
// be waited for.
func TestAnotherContextGetsATimeSlice(t *testing.T) {
	r := newRig(t, Options{})
	hp, _ := r.pinned(256)
	dp := cu.DevicePtr(uintptr(hp))
	r.ok(r.run(r.function("ping"), 1, 1, 0, dp, dp+128))
	c, err := r.CtxCreate(0, 0)
	r.ok(err)
	f, err := r.ModuleGetFunction(c, r.module(c), "store")
	r.ok(err)
	r.ok(r.LaunchKernel(c, f, one, one, 0, 0, params(dp+64, uint32(9))))
	release := time.AfterFunc(5*time.Second, func() { atomic.StoreUint32((*uint32)(unsafe.Add(hp, 128)), 1) })
	r.ok(r.CtxSynchronize(c))
	if !release.Stop() {
		t.Error("the wait lasted until the first context's kernel ended")
	}
	if v := atomic.LoadUint32((*uint32)(unsafe.Add(hp, 64))); v != 9 {
		t.Errorf("the second context's kernel left %d", v)
	}
	atomic.StoreUint32((*uint32)(unsafe.Add(hp, 128)), 1)
	r.ok(r.CtxSynchronize(r.ctx))
}

func TestResetEndsAKernelThatNeverEnds(t *testing.T) {
	r := newRig(t, Options{})
	hp, _ := r.pinned(256)
	dp := cu.DevicePtr(uintptr(hp))
	r.ok(r.run(r.function("ping"), 1, 1, 0, dp, dp+128))
	r.ok(r.DevicePrimaryCtxReset(0))
}

func TestLaunchBlocking(t *testing.T) {
	t.Setenv("FERRY_LAUNCH_BLOCKING", "1")
	r := newRig(t, Options{Schedule: Lazy})
	hp, host := r.pinned(4)
	r.ok(r.run(r.function("store"), 1, 1, 0, cu.DevicePtr(uintptr(hp)), uint32(3)))
	if host[0] != 3 {
		t.Error("the launch did not wait")
	}
	r.want(cu.ErrorIllegalAddress, r.run(r.function("store"), 1, 1, 0, cu.DevicePtr(8), uint32(3)))
}
