package check_test

import (
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

var virtualCases = []pair{
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

// TestVirtualCases: each wrong program on virtual memory is reported, and no correct one.
func TestVirtualCases(t *testing.T) {
	for _, p := range virtualCases {
		t.Run(p.name, func(t *testing.T) {
			if p.wrong != nil {
				p.checkWrong(t, p.driver("eager"))
			}
			p.checkRight(t, p.driver("eager"))
		})
	}
}
