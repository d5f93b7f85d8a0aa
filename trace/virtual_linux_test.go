package trace_test

import (
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
