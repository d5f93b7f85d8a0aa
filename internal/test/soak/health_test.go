package soak

import (
	"strings"
	"testing"
)

// TestGrown: each figure that is larger in all later legs is named, and one that is larger
// in some of them is not.
func TestGrown(t *testing.T) {
	same := Health{1000, 10, 20, 9, 170, 100 << 20, 1 << 20, 1 << 30, 4 << 20, 1 << 29, 12, 30}
	legs := func(change func(*Health), from int) (all []Health) {
		for i := range 8 {
			h := same
			if i >= from {
				change(&h)
			}
			all = append(all, h)
		}
		return all
	}
	for name, change := range map[string]func(*Health){
		"goroutines": func(h *Health) { h.Goroutines++ }, "handles": func(h *Health) { h.Handles += 6 },
		"events": func(h *Health) { h.Events += 513 }, "descriptors": func(h *Health) { h.Descriptors++ },
		"threads": func(h *Health) { h.Threads += 7 }, "mappings": func(h *Health) { h.Mappings += 25 },
		"bytes of the heap": func(h *Health) { h.Heap += 2 << 20 }, "resident bytes": func(h *Health) { h.Resident += 43 << 20 },
		"locked bytes": func(h *Health) { h.Locked++ }, "bytes of address space": func(h *Health) { h.Virtual += 256 << 20 },
		"bytes of the device": func(h *Health) { h.Device += 65 << 20 },
	} {
		r := Report{Health: legs(change, 6)}
		if err := r.Flat(); err == nil || !strings.HasPrefix(err.Error(), name+" grew") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v", name, err)
		}
		r = Report{Health: legs(change, 7)} // the last leg alone
		if err := r.Flat(); err != nil {
			t.Errorf("%s in the last leg: %v", name, err)
		}
	}
	if err := (&Report{Health: legs(func(*Health) {}, 0)[:3]}).Flat(); err == nil {
		t.Error("three legs were enough")
	}
}
