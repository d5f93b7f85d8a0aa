package check_test

import (
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/check"
	"github.com/ferrygpu/ferry/cu"
)

const granule = 2 << 20

// virtual returns n granules of addresses, each with a mapping of its own.
func (r *rig) virtual(n int) cu.DevicePtr {
	at := cu.MemLocation{Type: cu.MemLocationTypeDevice}
	p := got(r.MemAddressReserve(r.ctx, uintptr(n)*granule, 0, 0, 0))
	for i := range n {
		h := got(r.MemCreate(r.ctx, granule, &cu.MemAllocationProp{Type: cu.MemAllocationTypePinned, Location: at}, 0))
		ok(r.MemMap(r.ctx, p+cu.DevicePtr(i*granule), granule, 0, h, 0))
		ok(r.MemRelease(r.ctx, h))
	}
	ok(r.MemSetAccess(r.ctx, p, uintptr(n)*granule, []cu.MemAccessDesc{{Location: at, Flags: cu.MemAccessProtReadWrite}}))
	return p
}

// drop frees what virtual has made.
func (r *rig) drop(p cu.DevicePtr, n int) {
	for i := range n {
		ok(r.MemUnmap(r.ctx, p+cu.DevicePtr(i*granule), granule))
	}
	ok(r.MemAddressFree(r.ctx, p, uintptr(n)*granule))
}

// opened returns memory as if another process had shared it, which it is in the table as well.
func (r *rig) opened(p cu.DevicePtr, times int) (q cu.DevicePtr) {
	h := got(r.IpcGetMemHandle(r.ctx, p))
	h[8] ^= 0xff // the number of the process
	for range times {
		q = got(r.IpcOpenMemHandle(r.ctx, h, cu.IpcMemLazyEnablePeerAccess))
	}
	return q
}

var virtualCases = []pair{
	{name: "opened-memory-closed-in-flight", kind: check.FreeInFlight,
		wrong: func(r *rig) {
			q := r.opened(got(r.MemAlloc(r.ctx, size)), 2)
			ok(r.IpcCloseMemHandle(r.ctx, q))
			r.fill(r.a, q, size)
			ok(r.IpcCloseMemHandle(r.ctx, q))
		},
		right: func(r *rig) {
			p := got(r.MemAlloc(r.ctx, size))
			q := r.opened(p, 2)
			r.down(r.a, r.host, q) // written by another process, as far as this one knows
			ok(r.IpcCloseMemHandle(r.ctx, q))
			r.fill(r.a, q, size)
			r.sync(r.a)
			ok(r.IpcCloseMemHandle(r.ctx, q))
			r.down(r.a, r.host, p)
			r.sync(r.a)
			ok(r.MemFree(r.ctx, p))
		}},
	{name: "unordered-in-virtual-memory", kind: check.Unordered, text: "virtual memory",
		wrong: func(r *rig) {
			p := r.virtual(1)
			r.fill(r.a, p, size)
			r.fill(r.b, p+size/2, size)
		},
		right: func(r *rig) {
			p := r.virtual(2)
			r.fill(r.a, p, granule)
			r.fill(r.b, p+granule, granule)
			r.sync(r.a)
			r.sync(r.b)
			r.drop(p, 2)
		}},
	{name: "across-mappings", right: func(r *rig) {
		p := r.virtual(3)
		r.fill(r.a, p+granule/2, 2*granule)
		r.down(r.a, r.host, p+granule-size/2)
		r.put(r.a, p+2*granule-64)
		r.sync(r.a)
		r.drop(p, 3)
	}},
	{name: "unmapped-in-flight", kind: check.FreeInFlight, text: "the driver does not wait",
		wrong: func(r *rig) {
			p := r.virtual(2)
			r.fill(r.a, p+granule, size)
			ok(r.MemUnmap(r.ctx, p+granule, granule))
		},
		right: func(r *rig) {
			p := r.virtual(2)
			r.fill(r.a, p+granule, size)
			ok(r.MemUnmap(r.ctx, p, granule)) // waits for nothing
			r.sync(r.a)
			ok(r.MemUnmap(r.ctx, p+granule, granule))
			ok(r.MemAddressFree(r.ctx, p, 2*granule))
		}},
	{name: "virtual-memory-freed-as-device-memory", kind: check.ForeignFree, text: "cuMemAddressFree",
		wrong: func(r *rig) { _ = r.MemFree(r.ctx, r.virtual(1)) },
		right: func(r *rig) { r.drop(r.virtual(1), 1) }},
	{name: "addresses-freed-twice", kind: check.DoubleFree, text: "cuMemAddressFree",
		wrong: func(r *rig) {
			p := r.virtual(1)
			r.drop(p, 1)
			_ = r.MemAddressFree(r.ctx, p, granule)
		},
		right: func(r *rig) { r.drop(r.virtual(1), 1) }},
	{name: "past-the-end-of-virtual-memory", kind: check.OutOfRange,
		wrong: func(r *rig) { _ = r.MemsetD8Async(r.ctx, r.virtual(1)+granule-size/2, 5, size, r.a) },
		right: func(r *rig) { r.drop(r.virtual(1), 1) }},
}

// sharesByHandles reports whether the software GPU has memory of other processes.
func sharesByHandles() bool {
	d := software("eager")
	ok(d.Init(0))
	return got(d.DeviceGetAttribute(cu.DeviceAttributeIPCEventSupported, 0)) != 0
}

// TestVirtualCases: each wrong program on virtual memory is reported, and no correct one.
func TestVirtualCases(t *testing.T) {
	for _, p := range virtualCases {
		t.Run(p.name, func(t *testing.T) {
			if strings.HasPrefix(p.name, "opened") && !sharesByHandles() {
				t.Skip("builds with the race detector share no memory")
			}
			if p.wrong != nil {
				p.checkWrong(t, p.driver("eager"))
			}
			p.checkRight(t, p.driver("eager"))
		})
	}
}
