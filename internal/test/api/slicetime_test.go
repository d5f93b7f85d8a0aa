package api

import (
	"testing"

	"github.com/ferrygpu/ferry"
)

// TestSliceTime: on a software GPU a loop over the elements by ReadSlice takes the predicted time of
// the buffer once, and once more after a copy to it.
func TestSliceTime(t *testing.T) {
	g, err := ferry.Open("soft:h200")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	const n = 1 << 20
	s, err := ferry.NewStream(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := ferry.AllocHost[byte](g, n, nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := ferry.Alloc[byte](g, n)
	if err != nil {
		t.Fatal(err)
	}
	timed := func(times int) (took int64) {
		before := g.Now()
		for i := range times {
			_ = h.ReadSlice()[i]
		}
		return int64(g.Now() - before)
	}
	once := timed(1)
	if again := timed(1000); once <= 0 || again != 0 {
		t.Errorf("the first call took %d ns, 1000 more %d ns, want none", once, again)
	}
	if err := ferry.Fill(s, d, 1); err != nil {
		t.Fatal(err)
	}
	if err := ferry.Copy(s, h, d); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := timed(1000); after < once-1 || after > once+1 { // Now rounds
		t.Errorf("after a copy 1000 calls took %d ns, want %d", after, once)
	}
	for _, c := range []interface{ Close() error }{h, d, s} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
