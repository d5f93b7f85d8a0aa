package softgpu

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSpace inserts and removes thousands of ranges in random order, and compares what the
// address table finds with a list.
func TestSpace(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var s space
	model := map[uint64]*region{} // by address/16
	most := 0
	for step := range 20000 {
		at := 16 * uint64(1+random.IntN(3000))
		switch r := model[at/16]; {
		case r == nil && (step < 12000 || random.IntN(3) == 0):
			r = &region{base: at, device: at, size: uint64(1 + random.IntN(16))}
			model[at/16] = r
			s.insert(addressRange{base: at, end: at + r.size, region: r})
		case r != nil && (step >= 12000 || random.IntN(8) == 0):
			delete(model, at/16)
			s.remove(r)
		}
		most = max(most, len(model))
		at += uint64(random.IntN(16))
		want := model[at/16]
		if want != nil && at >= want.base+want.size {
			want = nil
		}
		if x, ok := s.find(at); ok != (want != nil) || x.region != want {
			t.Fatalf("step %d: find(%d) = %+v, want %+v", step, at, x, want)
		}
		end := at + uint64(1+random.IntN(40))
		overlap := want
		for next := at/16 + 1; overlap == nil && next*16 < end; next++ {
			overlap = model[next]
		}
		if x, ok := s.overlaps(at, end); ok != (overlap != nil) || ok && x.region != overlap {
			t.Fatalf("step %d: overlaps(%d, %d) = %+v, want %+v", step, at, end, x, overlap)
		}
	}
	all := slices.Collect(s.all())
	sorted := slices.IsSortedFunc(all, func(a, b addressRange) int { return int(a.base) - int(b.base) })
	if len(all) != len(model) || !sorted || most < 2*maxChunk {
		t.Errorf("%d ranges, want %d; sorted: %t; at most %d", len(all), len(model), sorted, most)
	}
}
