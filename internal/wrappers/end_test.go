package wrappers

import (
	"slices"
	"testing"
)

// TestEnd: End calls each function once, the latest first. It may be given another one meanwhile.
func TestEnd(t *testing.T) {
	var got []int
	AtEnd(func() { got = append(got, 1) })
	AtEnd(func() { got = append(got, 2); AtEnd(func() { got = append(got, 3) }) })
	End()
	if want := []int{2, 1}; !slices.Equal(got, want) {
		t.Fatalf("called %v, want %v", got, want)
	}
	End()
	End()
	if want := []int{2, 1, 3}; !slices.Equal(got, want) {
		t.Errorf("called %v, want %v", got, want)
	}
}
