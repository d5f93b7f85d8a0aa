package trace

import (
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// TestForeignMemory: memory that the driver knows and that no call has made is known once the driver
// was asked for it, until it does not know it any more. Memory that a call has made keeps its kind.
func TestForeignMemory(t *testing.T) {
	c := &call{d: &Driver{}}
	c.d.memory.add(100, 10, registered)
	ask := func(p cu.DevicePtr, about cu.PointerAttributes) { c.afterPointerGetAttributes(1, p, about) }
	want := func(at uint64, kind string) {
		t.Helper()
		if got := c.d.memory.kind(at, "unknown"); got != kind {
			t.Errorf("%d is %s, want %s", at, got, kind)
		}
	}
	host := cu.PointerAttributes{MemoryType: cu.MemoryTypeHost, RangeStart: 100, RangeSize: 10}
	ask(105, host)
	want(105, registered)
	host.RangeStart = 200
	ask(205, host)
	want(200, pageLocked)
	ask(300, cu.PointerAttributes{MemoryType: cu.MemoryTypeDevice, RangeStart: 300, RangeSize: 10})
	want(309, device)
	ask(400, cu.PointerAttributes{MemoryType: cu.MemoryTypeDevice, IsManaged: true, RangeStart: 400, RangeSize: 10})
	want(400, managed)
	ask(207, cu.PointerAttributes{Device: cu.InvalidDevice})
	want(205, "unknown")
	want(300, device)
	ask(500, cu.PointerAttributes{Device: cu.InvalidDevice})
	want(500, "unknown")
}
