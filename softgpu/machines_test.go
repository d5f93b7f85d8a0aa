package softgpu

import (
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/profile"
)

// machines lists the profiles where cond holds, and fails if there is none.
func machines(t *testing.T, cond func(*profile.Profile) bool) (out []*profile.Profile) {
	for _, name := range profile.Names() {
		if p := named(t, name); cond(p) {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		t.Fatal("no machine is like that")
	}
	return out
}

// TestIntegratedZeroCopyIsLocal: where host and device have one memory, a kernel
// gains nothing by a copy into device memory.
func TestIntegratedZeroCopyIsLocal(t *testing.T) {
	onlyFast(t)
	for _, p := range machines(t, func(*profile.Profile) bool { return true }) {
		r := newRig(t, Options{Profile: p})
		const n = 2 << 20
		host, err := r.MemHostAlloc(r.ctx, n, 0)
		r.ok(err)
		if !r.uva {
			continue
		}
		own, other := r.alloc(n), r.alloc(n)
		time := func(from cu.DevicePtr) float64 {
			return r.took(func() {
				r.ok(r.run(r.shipped("copy"), 1024, 256, 0, own, from, cu.DevicePtr(n)))
				r.sync(0)
			})
		}
		far := time(cu.DevicePtr(addressOf(host))) / time(other)
		coherent := p.Has(cu.DeviceAttributePageableMemoryAccess) // its link is nearly as fast as this
		if integrated := p.Has(cu.DeviceAttributeIntegrated); integrated && (far > 2 || far < 0.8) || !integrated && !coherent && far < 2 {
			t.Errorf("%s: a kernel that reads host memory takes %.1f times as long as one that reads the device's; integrated: %v", p.Name, far, integrated)
		}
	}
}

// TestUncachedReads: the host pays for reading page-locked memory where its
// caches leave that out, and for write-combined memory nearly everywhere.
func TestUncachedReads(t *testing.T) {
	const n = 1 << 20
	for name, want := range map[string][2]bool{"h200": {false, false}, "rtx-4090": {false, true}, "jetson-tx2": {true, true}, "orin": {false, true}} {
		r := newRig(t, Options{Profile: named(t, name)})
		for i, flags := range []cu.MemHostAllocFlags{0, cu.MemHostAllocWriteCombined} {
			p, err := r.MemHostAlloc(r.ctx, n, flags)
			r.ok(err)
			before := r.Now()
			r.ok(r.HostAccess(p, n, false))
			if slow := r.Now() > before; slow != want[i] {
				t.Errorf("%s, flags %#x: reading 1 MiB cost %v", name, uint32(flags), r.Now()-before)
			}
			before = r.Now()
			r.ok(r.HostAccess(p, n, true))
			if r.Now() != before {
				t.Errorf("%s, flags %#x: writing cost %v", name, uint32(flags), r.Now()-before)
			}
		}
	}
}

// TestPeerAccessAsTheMachineHas asks each machine's devices for each other.
func TestPeerAccessAsTheMachineHas(t *testing.T) {
	for _, p := range machines(t, func(*profile.Profile) bool { return true }) {
		r := newRig(t, Options{Profile: p, Devices: 2})
		can, err := r.DeviceCanAccessPeer(0, 1)
		r.ok(err)
		second, err := r.DevicePrimaryCtxRetain(1)
		r.ok(err)
		err = r.CtxEnablePeerAccess(r.ctx, second, 0)
		if has := p.Link.PeerAccess.Value != 0 && r.uva; (can == 1) != has || (err == nil) != has {
			t.Errorf("%s: can access: %d, enabling: %v; the machine has it: %v", p.Name, can, err, has)
		}
		if err != nil {
			r.want(cu.ErrorPeerAccessUnsupported, err)
		}
	}
}
