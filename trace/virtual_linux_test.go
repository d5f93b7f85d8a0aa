package trace_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// TestVirtualMemory: a recording calls mapped memory device memory, from its mapping to its end.
func TestVirtualMemory(t *testing.T) {
	r, path := recorder(t)
	d := r.Wrap(bare{soft(t, "h200", 1)})
	check(t, d.Init(0))
	ctx := must(d.DevicePrimaryCtxRetain(0))(t)
	const n = 2 << 20
	at := cu.MemLocation{Type: cu.MemLocationTypeDevice}
	p := must(d.MemAddressReserve(ctx, n, 0, 0, 0))(t)
	h := must(d.MemCreate(ctx, n, &cu.MemAllocationProp{Type: cu.MemAllocationTypePinned, Location: at}, 0))(t)
	host := must(d.MemHostAlloc(ctx, 64, 0))(t)
	for range 2 {
		check(t, d.MemMap(ctx, p, n, 0, h, 0))
		check(t, d.MemSetAccess(ctx, p, n, []cu.MemAccessDesc{{Location: at, Flags: cu.MemAccessProtReadWrite}}))
		check(t, d.MemcpyAsync(ctx, p, cu.DevicePtr(uintptr(host)), 64, 0))
		check(t, d.CtxSynchronize(ctx))
		check(t, d.MemUnmap(ctx, p, n))
		if err := d.MemcpyAsync(ctx, p, cu.DevicePtr(uintptr(host)), 64, 0); err == nil {
			t.Fatal("a copy to unmapped memory is no error")
		}
	}
	rec := ended(t, r, path)
	var to, mapped []string
	for _, o := range rec.Operations {
		to = append(to, o.To)
	}
	for _, c := range rec.Calls {
		if c.Name == "cuMemMap" {
			mapped = append(mapped, c.Memory)
		}
	}
	if want := []string{"device", "device"}; !slices.Equal(mapped, want) || !slices.Equal(to, want) {
		t.Errorf("mapped %q, copied to %q, want %q", mapped, to, want)
	}
}

// TestMappingsAndOpenedMemory: a recorder forgets all mappings that one call ends, and knows memory of
// another process until it is closed as often as it was opened.
func TestMappingsAndOpenedMemory(t *testing.T) {
	r, _ := recorder(t)
	d := r.Wrap(bare{soft(t, "h200", 1)})
	check(t, d.Init(0))
	ctx := must(d.DevicePrimaryCtxRetain(0))(t)
	const n = 2 << 20
	at := cu.MemLocation{Type: cu.MemLocationTypeDevice}
	q := must(d.MemAddressReserve(ctx, 2*n, 0, 0, 0))(t)
	for i := range cu.DevicePtr(2) {
		check(t, d.MemMap(ctx, q+i*n, n, 0, must(d.MemCreate(ctx, n, &cu.MemAllocationProp{Type: cu.MemAllocationTypePinned, Location: at}, 0))(t), 0))
	}
	check(t, d.MemUnmap(ctx, q, 2*n)) // ends both
	if all := d.Known(); slices.ContainsFunc(all, func(base uint64) bool { return base >= uint64(q) && base < uint64(q)+2*n }) {
		t.Errorf("the recorder knows memory at %#x, unmapped from %#x on", all, q)
	}
	x := must(d.MemAlloc(ctx, 3<<20))(t)
	handle, err := d.IpcGetMemHandle(ctx, x)
	if errors.Is(err, cu.ErrorNotSupported) { // in builds with the race detector
		t.Skip(err)
	}
	check(t, err)
	handle[8] ^= 0xff // as if another process had made it
	y := must(d.IpcOpenMemHandle(ctx, handle, cu.IpcMemLazyEnablePeerAccess))(t)
	must(d.IpcOpenMemHandle(ctx, handle, cu.IpcMemLazyEnablePeerAccess))(t)
	for i := range 2 {
		if !slices.Contains(d.Known(), uint64(y)) {
			t.Errorf("closed %d times of 2: the recorder does not know opened memory", i)
		}
		check(t, d.IpcCloseMemHandle(ctx, y))
	}
	if slices.Contains(d.Known(), uint64(y)) {
		t.Error("the recorder knows memory that is closed")
	}
}
