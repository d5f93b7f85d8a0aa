package check

import (
	"math/rand/v2"
	"testing"
)

// TestMemories compares memories with a list of what each address had last.
func TestMemories(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var x memories
	var last [530]*memory
	c := &call{}
	for range 20_000 {
		at := r.Uint64N(500)
		if m, in := x.find(at); m != nil {
			if in != at {
				t.Fatalf("address %d became %d", at, in)
			}
			x.remove(m, c)
		}
		m := &memory{base: at, end: at + 1 + r.Uint64N(30)}
		free := true
		for _, b := range last[m.base:m.end] {
			free = free && (b == nil || b.dead)
		}
		if free {
			x.add(m)
			for i := m.base; i < m.end; i++ {
				last[i] = m
			}
		}
		for probe, want := range last {
			live, gone := want, want
			if want == nil || want.dead {
				live = nil
			}
			if want == nil || !want.dead || want.forgotten {
				gone = nil
			}
			if m, _ := x.find(uint64(probe)); m != live {
				t.Fatalf("find(%d): got %v, want %v", probe, m, live)
			}
			if m := x.gone(uint64(probe)); m != gone {
				t.Fatalf("gone(%d): got %v, want %v", probe, m, gone)
			}
			if _, in := x.last(uint64(probe)); in != uint64(probe) {
				t.Fatalf("address %d became %d", probe, in)
			}
		}
	}
	if n := len(x.freed); n > mostFreed || n < mostFreed/2 {
		t.Errorf("%d freed allocations are remembered", n)
	}
}
