package softgpu

import (
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// Host access to managed memory on a machine without concurrent managed access.
func TestHostAccessBesideKernels(t *testing.T) {
	every(t, func(t *testing.T, r *rig) {
		old := newRig(t, Options{Profile: with(r.Machine(), "CONCURRENT_MANAGED_ACCESS", 0), Schedule: r.schedule})
		const n = 1 << 16
		managed := func(r *rig) (cu.DevicePtr, cu.HostPtr) {
			p, err := r.MemAllocManaged(r.ctx, n, cu.MemAttachGlobal)
			r.ok(err)
			return p, hostPointer(uint64(p))
		}
		for _, r := range []*rig{r, old} {
			a, b := r.stream(cu.StreamNonBlocking), r.stream(cu.StreamNonBlocking)
			ping := r.function("ping")
			p, host := managed(r)
			q, hostOfB := managed(r)
			h, hosts := managed(r)
			r.ok(r.StreamAttachMemAsync(r.ctx, b, q, 0, cu.MemAttachSingle))
			r.ok(r.StreamAttachMemAsync(r.ctx, b, h, 0, cu.MemAttachHost))
			r.sync(b)
			r.ok(r.HostAccess(host, n, true))
			open := r.gate(ping, a)
			err := r.HostAccess(host, n, false)
			if r == old {
				r.want(cu.ErrorIllegalState, err)
			} else {
				r.ok(err)
			}
			r.ok(r.HostAccess(hostOfB, n, true)) // attached to an idle stream
			r.ok(r.HostAccess(hosts, n, true))
			open()
			r.sync(a)
			r.ok(r.HostAccess(host, n, true))
			open = r.gate(ping, b)
			if err := r.HostAccess(hostOfB, n, true); r == old {
				r.want(cu.ErrorIllegalState, err)
			} else {
				r.ok(err)
			}
			open()
			r.sync(b)
			r.ok(r.HostAccess(hostOfB, n, true))
			r.ok(r.MemFree(r.ctx, p))
		}
	})
}

// The flags of page-locked memory are those that an H200 returns.
func TestHostFlags(t *testing.T) {
	r := newRig(t, Options{})
	const portable, mapped, combined = cu.MemHostAllocPortable, cu.MemHostAllocDeviceMap, cu.MemHostAllocWriteCombined
	for asked, want := range map[cu.MemHostAllocFlags]cu.MemHostAllocFlags{
		0: mapped, portable: mapped, mapped: mapped, portable | mapped: mapped,
		combined: mapped | combined, portable | mapped | combined: mapped | combined,
	} {
		p, err := r.MemHostAlloc(r.ctx, 100, asked)
		r.ok(err)
		if got, err := r.MemHostGetFlags(r.ctx, p); got != want || err != nil {
			t.Errorf("asked for %v: %v, %v; want %v", asked, got, err, want)
		}
		r.want(cu.ErrorInvalidValue, r.MemHostRegister(r.ctx, p, 100, 0))
		r.want(cu.ErrorInvalidValue, r.MemHostUnregister(r.ctx, p))
	}
	p := ptr(make([]byte, 100))
	_, err := r.MemHostGetFlags(r.ctx, p)
	r.want(cu.ErrorInvalidValue, err)
	r.ok(r.MemHostRegister(r.ctx, p, 100, cu.MemHostRegisterPortable|cu.MemHostRegisterDeviceMap))
	if got, err := r.MemHostGetFlags(r.ctx, p); got != portable|mapped || err != nil {
		t.Errorf("registered: %v, %v", got, err)
	}
	if none, err := r.MemHostAlloc(r.ctx, 0, 0); none != nil || err != nil {
		t.Errorf("nothing is at %p, %v", none, err)
	}
}
