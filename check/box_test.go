package check

import (
	"math/rand/v2"
	"testing"
)

// TestBoxes compares boxes with lists of their bytes.
func TestBoxes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	random := func() (x box, bytes map[uint64]bool) {
		x = box{at: r.Uint64N(60), width: 1 + r.Uint64N(6), rows: 1 + r.Uint64N(4), layers: 1 + r.Uint64N(4)}
		x.pitch = x.width + r.Uint64N(8)
		x.layer = x.pitch*x.rows + r.Uint64N(20)
		bytes = map[uint64]bool{}
		for l := range x.layers {
			for row := range x.rows {
				for i := range x.width {
					bytes[x.at+l*x.layer+row*x.pitch+i] = true
				}
			}
		}
		return x.packed(), bytes
	}
	both := 0
	for range 20_000 {
		x, xs := random()
		y, ys := random()
		want := false
		for at := range xs {
			want = want || ys[at]
		}
		if want {
			both++
		}
		if got := x.hits(&y); got != want {
			t.Fatalf("%+v hits %+v: got %v", x, y, got)
		}
		for at := range uint64(200) {
			if got := x.includes(at, at+1); got != xs[at] {
				t.Fatalf("%+v includes %d: got %v", x, at, got)
			}
		}
	}
	if both < 2000 || both > 18_000 {
		t.Errorf("%d of 20000 pairs share bytes", both)
	}
}
