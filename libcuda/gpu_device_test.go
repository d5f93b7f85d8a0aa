package libcuda_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
)

func TestGPULibrary(t *testing.T) {
	g := newGPU(t)
	if !strings.Contains(g.Path(), "libcuda") {
		t.Errorf("path %q", g.Path())
	}
	version, err := g.DriverGetVersion()
	g.must(err)
	if version < 11000 {
		t.Errorf("CUDA version %d", version)
	}
	g.must(g.Init(0)) // a second time
	g.want(g.Init(1), cu.ErrorInvalidValue)
}

func TestGPUDevices(t *testing.T) {
	g := newGPU(t)
	count, err := g.DeviceGetCount()
	g.must(err)
	_, err = g.DeviceGet(count)
	g.want(err, cu.ErrorInvalidDevice)
	for i := range count {
		dev, err := g.DeviceGet(i)
		g.must(err)
		name, err := g.DeviceGetName(dev)
		g.must(err)
		id, err := g.DeviceGetPCIBusId(dev)
		g.must(err)
		total, err := g.DeviceTotalMem(dev)
		g.must(err)
		warp, err := g.DeviceGetAttribute(cu.DeviceAttributeWarpSize, dev)
		g.must(err)
		if name == "" || !regexp.MustCompile(`^[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]$`).MatchString(id) || total < 1<<28 || warp != 32 {
			t.Errorf("device %d: name %q, id %q, %d bytes, warps of %d", dev, name, id, total, warp)
		}
		can, err := g.DeviceCanAccessPeer(dev, dev)
		if err == nil && can != 0 {
			t.Errorf("device %d is its own peer", dev)
		}
	}
	_, err = g.DeviceGetAttribute(1<<20, g.dev)
	g.want(err, cu.ErrorInvalidValue)
}

func TestGPUPrimaryContext(t *testing.T) {
	g := newGPU(t)
	flags, active, err := g.DevicePrimaryCtxGetState(g.dev)
	g.must(err)
	if active != 1 {
		t.Errorf("active %d, want 1", active)
	}
	g.must(g.DevicePrimaryCtxSetFlags(g.dev, flags&cu.CtxSchedMask))
	got, err := g.CtxGetFlags(g.ctx)
	g.must(err)
	if (got^flags)&cu.CtxSchedMask != 0 {
		t.Errorf("flags %v, want %v", got, flags)
	}
	dev, err := g.CtxGetDevice(g.ctx)
	g.must(err)
	if dev != g.dev {
		t.Errorf("device %d, want %d", dev, g.dev)
	}
	g.must(g.CtxSynchronize(g.ctx))
	again, err := g.DevicePrimaryCtxRetain(g.dev)
	g.must(err)
	if again != g.ctx {
		t.Errorf("primary contexts %#x and %#x", g.ctx, again)
	}
	g.must(g.DevicePrimaryCtxRelease(g.dev))
}

func TestGPUPrimaryContextReset(t *testing.T) {
	d := gputest.Driver(t)
	g := &gpu{TB: t, Driver: d, dev: gputest.Devices(t, d, 1)[0]}
	ctx, err := d.DevicePrimaryCtxRetain(g.dev)
	g.must(err)
	_, err = g.MemAlloc(ctx, 1<<20)
	g.must(err)
	g.must(d.DevicePrimaryCtxReset(g.dev))
	_, active, err := d.DevicePrimaryCtxGetState(g.dev)
	g.must(err)
	if active != 0 {
		t.Errorf("the primary context is active after a reset")
	}
	next := newGPU(t) // a new primary context works
	next.alloc(1 << 20)
}

func TestGPUCreatedContext(t *testing.T) {
	g := newGPU(t)
	ctx, err := g.CtxCreate(cu.CtxSchedBlockingSync, g.dev)
	g.must(err)
	flags, err := g.CtxGetFlags(ctx)
	g.must(err)
	if flags&cu.CtxSchedMask != cu.CtxSchedBlockingSync {
		t.Errorf("flags %v", flags)
	}
	_, err = g.MemAlloc(ctx, 1<<20)
	g.must(err)
	g.must(g.CtxSynchronize(g.ctx)) // the other context still works
	g.must(g.CtxDestroy(ctx))
	_, err = g.MemAlloc(ctx, 1<<20)
	g.want(err, cu.ErrorInvalidContext)
	g.want(g.CtxDestroy(ctx), cu.ErrorInvalidContext)
	_, err = g.CtxGetDevice(0)
	g.want(err, cu.ErrorInvalidContext)
	g.must(g.CtxSynchronize(g.ctx))
}

func TestGPULimits(t *testing.T) {
	g := newGPU(t)
	least, greatest, err := g.CtxGetStreamPriorityRange(g.ctx)
	g.must(err)
	if least < greatest {
		t.Errorf("priorities %d to %d: lower numbers run first", least, greatest)
	}
	old, err := g.CtxGetLimit(g.ctx, cu.LimitStackSize)
	g.must(err)
	g.must(g.CtxSetLimit(g.ctx, cu.LimitStackSize, old+4096))
	now, err := g.CtxGetLimit(g.ctx, cu.LimitStackSize)
	g.must(err)
	if now < old+4096 {
		t.Errorf("stack %d, want %d at least", now, old+4096)
	}
	g.must(g.CtxSetLimit(g.ctx, cu.LimitStackSize, old))
	_, err = g.CtxGetLimit(g.ctx, 1<<20)
	if err == nil {
		t.Error("a limit that does not exist was read")
	}
}

func TestGPUPeerAccessRefused(t *testing.T) {
	g := newGPU(t)
	if err := g.CtxEnablePeerAccess(g.ctx, g.ctx, 0); err == nil {
		t.Error("a context is its own peer")
	}
	if err := g.CtxDisablePeerAccess(g.ctx, g.ctx); err == nil {
		t.Error("disabled access that was not enabled")
	}
}

func TestGPUPeerAccess(t *testing.T) {
	g := newGPU(t)
	devices := gputest.Devices(t, g.Driver, 2)
	if can, err := g.DeviceCanAccessPeer(devices[0], devices[1]); err != nil || can == 0 {
		t.Skipf("devices 0 and 1 are no peers: %v", err)
	}
	peer, err := g.DevicePrimaryCtxRetain(devices[1])
	g.must(err)
	g.cleanup(func() error { return g.DevicePrimaryCtxRelease(devices[1]) })
	g.must(g.CtxEnablePeerAccess(g.ctx, peer, 0))
	g.want(g.CtxEnablePeerAccess(g.ctx, peer, 0), cu.ErrorPeerAccessAlreadyEnabled)
	there, err := g.MemAlloc(peer, 1<<20)
	g.must(err)
	g.cleanup(func() error { return g.MemFree(peer, there) })
	here, data := g.alloc(1<<20), random(1<<20)
	g.upload(here, data)
	g.must(g.MemcpyPeer(g.ctx, there, peer, here, g.ctx, 1<<20))
	g.must(g.CtxSynchronize(g.ctx))
	back := make([]byte, 1<<20)
	g.must(g.MemcpyDtoH(peer, cu.HostPtr(&back[0]), there, 1<<20))
	g.same("peer copy", back, data)
	g.must(g.CtxDisablePeerAccess(g.ctx, peer))
	g.want(g.CtxDisablePeerAccess(g.ctx, peer), cu.ErrorPeerAccessNotEnabled)
}
