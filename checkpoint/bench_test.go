package checkpoint_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/checkpoint"
)

// many returns a file of n tensors of some bytes.
func many(n, size int) []byte {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return manyIn(all, size)
}

// shuffled is many with a header that has the tensors in any order.
func shuffled(n, size int) []byte { return manyIn(rand.New(rand.NewPCG(1, 2)).Perm(n), size) }

// manyIn returns a file whose header has tensors in an order.
func manyIn(order []int, size int) []byte {
	var head strings.Builder
	for n, i := range order {
		fmt.Fprintf(&head, `%c"model.layers.%d.weight":{"dtype":"BF16","shape":[%d],"data_offsets":[%d,%d]}`, "{,"[min(n, 1)], i, size/2, i*size, (i+1)*size)
	}
	return safetensors(head.String()+"}", make([]byte, len(order)*size))
}

// BenchmarkOpen reads headers, with the tensors in the order of their bytes and in any order.
func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{300, 100_000} {
		for i, file := range [][]byte{many(n, 2), shuffled(n, 2)} {
			b.Run(fmt.Sprintf("tensors=%d/order=%s", n, []string{"bytes", "any"}[i]), func(b *testing.B) {
				b.SetBytes(int64(len(file) - 2*n))
				b.ReportAllocs()
				for b.Loop() {
					if c, err := checkpoint.OpenReaderAt("m", bytes.NewReader(file), int64(len(file))); err != nil {
						b.Fatal(c, err)
					}
				}
			})
		}
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
