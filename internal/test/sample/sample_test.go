package sample

import (
	"slices"
	"testing"
)

func TestOf(t *testing.T) {
	items := make([]int, 100)
	for i := range items {
		items[i] = i
	}
	t.Setenv(FullVariable, "")
	t.Setenv(SeedVariable, "")
	some := Of(t, items, 10)
	if len(some) != 10 || !slices.IsSorted(some) || len(slices.Compact(slices.Clone(some))) != 10 {
		t.Errorf("10 of 100: %v", some)
	}
	if again := Of(t, items, 10); !slices.Equal(again, some) {
		t.Errorf("drawn again: %v, then %v", some, again)
	}
	t.Run("other", func(t *testing.T) {
		if other := Of(t, items, 10); slices.Equal(other, some) {
			t.Errorf("another test draws the same: %v", other)
		}
	})
	t.Setenv(SeedVariable, "7")
	if other := Of(t, items, 10); slices.Equal(other, some) {
		t.Errorf("seed 7 draws the same: %v", other)
	}
	if all := Of(t, items, 100); !slices.Equal(all, items) {
		t.Errorf("100 of 100: %v", all)
	}
	t.Setenv(FullVariable, "1")
	if all := Of(t, items, 10); !slices.Equal(all, items) {
		t.Errorf("all: %v", all)
	}
	if got := Count(1, 2); got != 2 {
		t.Errorf("Count is %d with %s=1", got, FullVariable)
	}
}
