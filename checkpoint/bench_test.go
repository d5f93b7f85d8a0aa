package checkpoint_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/checkpoint"
)

// many returns a file of n tensors of some bytes.
func many(n, size int) []byte {
	var head strings.Builder
	for i := range n {
		fmt.Fprintf(&head, `%c"model.layers.%d.weight":{"dtype":"BF16","shape":[%d],"data_offsets":[%d,%d]}`, "{,"[min(i, 1)], i, size/2, i*size, (i+1)*size)
	}
	return safetensors(head.String()+"}", make([]byte, n*size))
}

// BenchmarkOpen reads headers.
func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{300, 100_000} {
		b.Run(fmt.Sprintf("tensors=%d", n), func(b *testing.B) {
			file := many(n, 2)
			b.SetBytes(int64(len(file) - 2*n))
			b.ReportAllocs()
			for b.Loop() {
				c, err := checkpoint.OpenReaderAt("m", bytes.NewReader(file), int64(len(file)))
				if err != nil || len(c.Tensors()) != n {
					b.Fatal(c, err)
				}
			}
		})
	}
}

// BenchmarkLoad loads small tensors to the software GPU: what Load costs for each. Those of 256 bytes are
// neighbours in memory as in the file, those of 254 bytes are not. The software GPU takes seconds to convert
// very many.
func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{300, 100_000} {
		for _, size := range []int{254, 256} {
			for _, to := range []checkpoint.DType{checkpoint.NoDType, checkpoint.F16}[:1+300/n] {
				b.Run(fmt.Sprintf("tensors=%d/bytes=%d/to=%v", n, size, to), func(b *testing.B) {
					file := many(n, size)
					c, err := checkpoint.OpenReaderAt("m", bytes.NewReader(file), int64(len(file)))
					if err != nil {
						b.Fatal(err)
					}
					s := stream(b, 0)
					b.SetBytes(int64(size * n))
					b.ReportAllocs()
					for b.Loop() {
						l, err := checkpoint.Load(b.Context(), s, c, &checkpoint.Options{To: to})
						if err != nil || l.Close() != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
