package checkpoint

import (
	"testing"

	"github.com/ferrygpu/ferry/checkpoint/internal/convert"
)

// TestKinds demands that package convert gives each type that it knows the same name and the same
// blocks, and that it knows no other.
func TestKinds(t *testing.T) {
	have := map[convert.Kind]DType{}
	for d := NoDType + 1; d < dtypes; d++ {
		k := kinds[d]
		if k == 0 {
			continue
		}
		if other, twice := have[k]; twice {
			t.Errorf("%v and %v are one kind, %v", other, d, k)
		}
		have[k] = d
		numbers, size := k.Block()
		if elements, bytes := d.Block(); k.String() != d.String() || int64(numbers) != elements || int64(size) != bytes {
			t.Errorf("%v has blocks of %d elements, %d bytes; the kind %v of %d, %d", d, elements, bytes, k, numbers, size)
		}
	}
	for _, p := range convert.Pairs() {
		for _, k := range []convert.Kind{p.From, p.To} {
			if _, ok := have[k]; !ok {
				t.Errorf("no type is of kind %v", k)
			}
		}
	}
}
