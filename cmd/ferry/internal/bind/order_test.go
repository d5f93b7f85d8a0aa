package bind

import (
	"slices"
	"testing"

	"github.com/ferrygpu/ferry/ptx"
)

// TestSourceOrder demands the order of the text, whatever the order of the PTX.
func TestSourceOrder(t *testing.T) {
	src := &source{kernels: []*srcKernel{{}, {}, {}}}
	entries := []*ptx.Func{{Name: "unknown"}, {Name: "third"}, {Name: "second<int>"}, {Name: "second<float>"}, {Name: "first"}}
	texts := [][]*srcKernel{nil, {src.kernels[2]}, {src.kernels[1]}, {src.kernels[1]}, {src.kernels[0]}}
	if got, want := sourceOrder(entries, texts, src), []int{4, 3, 2, 1, 0}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}
