package trace_test

import (
	"runtime"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/trace"
)

// TestAddresses: calls that allocate, free, copy and fill have their addresses, with
// events and with the times of the software GPU.
func TestAddresses(t *testing.T) {
	inner := soft(t, "h200", 1)
	for name, d := range map[string]cu.Driver{"software": inner, "events": bare{soft(t, "h200", 1)}} {
		r, path := recorder(t)
		w := r.Wrap(d)
		g := open(t, w)
		ctx := g.CUContext()
		on := must(w.MemAlloc(ctx, 8192))(t)
		host := must(w.MemHostAlloc(ctx, 4096, 0))(t)
		check(t, w.MemcpyHtoDAsync(ctx, on+4096, host, 4096, 0))
		check(t, w.MemcpyDtoH(ctx, host, on, 1024))
		check(t, w.MemcpyDtoDAsync(ctx, on, on+4096, 64, 0))
		check(t, w.MemsetD32Async(ctx, on+8, 7, 2, 0))
		check(t, w.CtxSynchronize(ctx))
		check(t, w.MemFreeHost(ctx, host))
		check(t, w.MemFree(ctx, on))
		check(t, g.Close())
		rec := ended(t, r, path)
		at, dev := uint64(uintptr(host)), uint64(on)
		want := map[string][3]uint64{ // address, source, bytes
			"cuMemAlloc": {dev, 0, 8192}, "cuMemHostAlloc": {at, 0, 4096}, "cuMemcpyHtoDAsync": {dev + 4096, at, 4096},
			"cuMemcpyDtoH": {at, dev, 1024}, "cuMemcpyDtoDAsync": {dev, dev + 4096, 64}, "cuMemsetD32Async": {dev + 8, 0, 8},
			"cuMemFreeHost": {at, 0, 0}, "cuMemFree": {dev, 0, 0},
		}
		found := 0
		for _, c := range rec.Calls {
			if w, listed := want[c.Name]; listed {
				found++
				if got := [3]uint64{c.Address, c.Source, c.Bytes}; got != w {
					t.Errorf("%s: %s has address, source and bytes %#x, want %#x", name, c.Name, got, w)
				}
			} else if c.Address != 0 || c.Source != 0 {
				t.Errorf("%s: %s has an address: %+v", name, c.Name, c)
			}
			known := name == "events" && c.Name == "cuMemHostAlloc" && runtime.GOOS == "linux"
			if !known && c.Node != trace.NoNode {
				t.Errorf("%s: %s has node %d", name, c.Name, c.Node)
			}
		}
		if found != len(want) {
			t.Errorf("%s: %d of %d calls", name, found, len(want))
		}
	}
}
