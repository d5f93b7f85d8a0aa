package kernelrace

import "testing"

// TestCopiesThatEnd: a barrier keeps no copy that its thread has waited for, also none that only
// fills with zeros.
func TestCopiesThatEnd(t *testing.T) {
	for _, reads := range []int{0, 4} {
		d := New(64)
		d.Values = noValues{}
		b := d.Block(0, 64*4)
		for range 20 {
			for i := range 64 {
				b.Copy(i, &Copy{To: uint64(4 * i), From: uint64(4 * i), Bytes: 4, Reads: reads, Inst: 1, Source: 2})
				b.Commit(i)
				b.WaitGroups(i, 0)
			}
			meet(b)
		}
		if len(b.started) != 0 || len(b.landing) != 0 || len(d.leaving) != 0 {
			t.Errorf("reads of %d bytes: %d copies are kept, %d words written, %d read", reads, len(b.started), len(b.landing), len(d.leaving))
		}
		if got := raceCount(d); got != 0 {
			t.Errorf("reads of %d bytes: %d races", reads, got)
		}
	}
}
