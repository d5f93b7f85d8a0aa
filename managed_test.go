package ferry_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// TestManaged goes through what managed memory has besides: addresses, advice,
// prefetches both ways, reading without waiting for readers.
func TestManaged(t *testing.T) {
	g := openTest(t)
	m, err := ferry.AllocManaged[uint32](g, 100_000, &ferry.ManagedOptions{Attach: cu.MemAttachGlobal})
	if errors.Is(err, cu.ErrorNotSupported) {
		t.Skip(err)
	}
	check(t, err)
	if n, err := g.Attribute(cu.DeviceAttributeConcurrentManagedAccess); err != nil || n == 0 {
		t.Skip("the device has no concurrent managed access")
	}
	s := must(ferry.NewStream(g, nil))(t)
	code, fill := load(t, g, "fill")
	device := must(ferry.Alloc[uint32](g, m.Len()))(t)
	if m.Pointer() == 0 || m.Range(3, 4).Pointer() != m.Pointer()+12 || m.Size() != 400_000 {
		t.Errorf("address %#x, part at %#x, %d bytes", m.Pointer(), m.Range(3, 4).Pointer(), m.Size())
	}
	check(t, m.Advise(cu.MemAdviseSetPreferredLocation, g.Device()))
	check(t, m.Advise(cu.MemAdviseUnsetPreferredLocation, cu.CPUDevice))
	check(t, m.Advise(cu.MemAdviseSetReadMostly, 0))
	check(t, m.Advise(cu.MemAdviseUnsetReadMostly, 0))
	wantError(t, m.Advise(12345, 0), cu.ErrorInvalidValue, "advise on managed buffer")
	for round := range uint32(3) {
		check(t, m.Prefetch(s, g.Device()))
		check(t, s.Launch(fill, ferry.Grid(m.Len(), 256), m, 7+round, uint64(m.Len())))
		check(t, m.Range(5, 50_000).Prefetch(s, cu.CPUDevice))
		for i, got := range m.ReadSlice() {
			if got != 7+round {
				t.Fatalf("element %d is %d, want %d", i, got, 7+round)
			}
		}
	}
	open := gate(t, s)
	check(t, ferry.Copy(s, device, m))
	if m.ReadSlice() == nil { // must return although the gate is shut
		t.Error("ReadSlice is nil")
	}
	waits(t, "Wait", open, func() { check(t, m.Wait(context.Background())) })
	closeAll(t, device, code, m, m)
	wantError(t, m.Prefetch(s, g.Device()), ferry.ErrClosed, "prefetch managed buffer")
	wantError(t, m.Advise(cu.MemAdviseSetReadMostly, 0), ferry.ErrClosed, "advise")
	wantError(t, (*ferry.Managed[int])(nil).Prefetch(s, g.Device()), cu.ErrorInvalidValue, "nil")
	closeAll(t, s)
}
