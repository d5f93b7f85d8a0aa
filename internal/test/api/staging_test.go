package api

import (
	"bytes"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestStaging: the ring page-locks nothing before it is used, Warm page-locks what a transfer needs,
// and a limit bounds what copies of all kinds page-lock. The data are right within each limit.
func TestStaging(t *testing.T) {
	for name, d := range map[string]cu.Driver{
		"default": softDriver(t, "h200", 1, softgpu.Random),
		"holding": &gputest.Holding{Driver: softDriver(t, "h200", 1, softgpu.Eager)},
	} {
		t.Run("device="+name, func(t *testing.T) {
			g := must(ferry.OpenDriver(d, 0))(t)
			s := must(ferry.NewStream(g, nil))(t)
			ring := g.Staging()
			at := must(ring.Stats())(t)
			if at.Locked != 0 || at.MostLocked != 0 || at.InUse != 0 || at.Limit != at.MostSlots*at.SlotBytes+at.MostSmallSlots*at.SmallSlotBytes {
				t.Errorf("at first: %+v", at)
			}
			check(t, ring.Warm(t.Context()))
			warm := must(ring.Stats())(t)
			if warm.Slots != warm.MostSlots || warm.SmallSlots == 0 || warm.Locked != warm.Slots*warm.SlotBytes+warm.SmallSlots*warm.SmallSlotBytes {
				t.Errorf("warm: %+v", warm)
			}
			moveParts(t, g, s)
			if after := must(ring.Stats())(t); after.Locked != warm.Locked {
				t.Errorf("after a transfer in each direction: %+v, was %+v", after, warm)
			}
			for _, limit := range []int{at.SlotBytes, at.SlotBytes + at.SmallSlotBytes, 3 * at.SlotBytes} {
				check(t, g.Wait(t.Context()))
				check(t, ring.SetLimit(limit))
				moveParts(t, g, s)
				if now := must(ring.Stats())(t); now.Locked > limit || now.Limit != limit || now.Locked == 0 {
					t.Errorf("limit %d: %+v", limit, now)
				}
			}
			wantError(t, ring.SetLimit(at.SlotBytes-1), cu.ErrorInvalidValue, "below one slot of", "set the limit of the staging ring")
			check(t, ring.SetLimit(0))
			if got := must(ring.Stats())(t).Limit; got != at.Limit {
				t.Errorf("the limit is %d again, want %d", got, at.Limit)
			}
			if n := testing.AllocsPerRun(100, func() { at, _ = g.Staging().Stats() }); n != 0 {
				t.Errorf("Stats allocates %g times", n)
			}
			closeAll(t, s, g)
			wantError(t, ring.Warm(t.Context()), ferry.ErrClosed, "warm the staging ring")
			wantError(t, last(ring.Stats()), ferry.ErrClosed, "state of the staging ring")
		})
	}
}

// moveParts moves 20 MiB to the device and back, in parts of several sizes.
func moveParts(t *testing.T, g *ferry.GPU, s *ferry.Stream) {
	t.Helper()
	want := make([]byte, 20<<20)
	fillRandom(want)
	device := must(ferry.Alloc[byte](g, len(want)))(t)
	defer closeAll(t, device)
	var parts []ferry.ReadPart
	var memory []ferry.Memory[byte]
	for at, n := 0, 1000; at < len(want); n *= 3 {
		end := min(at+n, len(want))
		parts = append(parts, ferry.ReadPart{Src: bytes.NewReader(want), Off: int64(at), Dst: device.Range(at, end)})
		memory = append(memory, device.Range(at, end))
		at = end
	}
	must(ferry.CopyParts(t.Context(), s, parts, nil))(t)
	var got bytes.Buffer
	must(ferry.CopyPartsTo(t.Context(), s, &got, memory, nil))(t)
	wantBytes(t, got.Bytes(), want)
	clear(got.Bytes())
	check(t, ferry.Copy(s, ferry.Pageable(got.Bytes()), device))
	wantBytes(t, got.Bytes(), want)
}
