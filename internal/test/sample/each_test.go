package sample

import (
	"fmt"
	"slices"
	"testing"
)

// TestOfEach: every kind is drawn, and of many items of a kind a part.
func TestOfEach(t *testing.T) {
	var items []string
	for i := range 40 {
		items = append(items, fmt.Sprintf("a%d", i))
	}
	items = append(items, "b", "c1", "c2")
	kind := func(s string) string { return s[:1] }
	t.Setenv(FullVariable, "")
	t.Setenv(SeedVariable, "")
	count := func(some []string) string {
		n := map[string]int{}
		for _, s := range some {
			n[kind(s)]++
		}
		return fmt.Sprint(n)
	}
	some := OfEach(t, items, kind, 8)
	if got := count(some); got != "map[a:5 b:1 c:1]" || len(slices.Compact(slices.Clone(some))) != 7 {
		t.Errorf("got %s: %v", got, some)
	}
	if again := OfEach(t, items, kind, 8); !slices.Equal(again, some) {
		t.Errorf("drawn again: %v, then %v", some, again)
	}
	t.Setenv(SeedVariable, "7")
	if other := OfEach(t, items, kind, 8); slices.Equal(other, some) {
		t.Errorf("seed 7 draws the same: %v", other)
	}
	t.Setenv(FullVariable, "1")
	if all := OfEach(t, items, kind, 8); !slices.Equal(all, items) {
		t.Errorf("all: %v", all)
	}
}
