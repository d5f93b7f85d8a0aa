package convert_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/checkpoint/internal/convert"
	"github.com/ferrygpu/ferry/internal/test/gputest"
)

// many returns how many numbers a benchmark converts: fewer on the software GPU.
func many() int {
	if os.Getenv(gputest.RequireVariable) == "1" {
		return 1 << 28
	}
	return 1 << 20
}

// memory returns device memory of n bytes, with random bytes in it.
func (f *fixture) memory(b *testing.B, n int) *ferry.Device[byte] {
	b.Helper()
	m, err := ferry.Alloc[byte](f.g, n)
	check(b, err)
	b.Cleanup(func() { gputest.CloseAll(b, m) })
	part, err := ferry.Upload(f.g, poison(min(n, 1<<20)))
	check(b, err)
	defer part.Close()
	for at := 0; at < n; at += part.Len() {
		size := min(part.Len(), n-at)
		check(b, ferry.Copy(f.s, m.Range(at, at+size), part.Range(0, size)))
	}
	check(b, f.s.Wait(b.Context()))
	return m
}

// timed runs what launch queues, four times for each wait. bytes are read and written each time.
func (f *fixture) timed(b *testing.B, bytes int, launch func() error) {
	b.Helper()
	const each = 4
	check(b, launch())
	check(b, f.s.Wait(b.Context()))
	b.SetBytes(int64(each * bytes))
	b.ReportAllocs()
	for b.Loop() {
		for range each {
			check(b, launch())
		}
		check(b, f.s.Wait(b.Context()))
	}
}

// BenchmarkConvert converts one tensor, whose memory begins at a multiple of 16 bytes, or 2 bytes
// behind one. MB/s counts what is read and what is written.
func BenchmarkConvert(b *testing.B) {
	for _, p := range convert.Pairs() {
		for _, skip := range []int{0, 2} {
			b.Run(fmt.Sprintf("from=%v/to=%v/skip=%d", p.From, p.To, skip), func(b *testing.B) {
				f := newFixture(b, p)
				n := many()
				block, bytes := p.From.Block()
				_, size := p.To.Block()
				in, out := n/block*bytes, n*size
				src, dst := f.memory(b, in+16), f.memory(b, out)
				f.timed(b, in+out, func() error {
					return f.k.LaunchPieces(f.s, dst, src, p, []convert.Piece{{Src: skip, N: n}})
				})
			})
		}
	}
}

// BenchmarkPieces converts 4 KiB each of many tensors.
func BenchmarkPieces(b *testing.B) {
	p := convert.Pair{From: convert.BF16, To: convert.F16}
	f := newFixture(b, p)
	const each = 2048
	n := many() / each
	src, dst := f.memory(b, 2*n*each), f.memory(b, 2*n*each)
	var pieces []convert.Piece
	for i := range n {
		pieces = append(pieces, convert.Piece{Dst: 2 * each * i, Src: 2 * each * (i * 7 % n), N: each})
	}
	f.timed(b, 4*n*each, func() error { return f.k.LaunchPieces(f.s, dst, src, p, pieces) })
}

// BenchmarkHash hashes one range, or ranges of 4 KiB.
func BenchmarkHash(b *testing.B) {
	for _, each := range []int{0, 4096} {
		for _, skip := range []int{0, 1} {
			b.Run(fmt.Sprintf("each=%d/skip=%d", each, skip), func(b *testing.B) {
				f := newFixture(b)
				n := 4 * many()
				m := f.memory(b, n+16)
				ranges := []convert.Range{{At: skip, Bytes: n}}
				if each > 0 {
					ranges = nil
					for at := 0; at < n; at += each {
						ranges = append(ranges, convert.Range{At: at + skip, Bytes: each})
					}
				}
				sums, err := ferry.Alloc[uint64](f.g, len(ranges))
				check(b, err)
				b.Cleanup(func() { gputest.CloseAll(b, sums) })
				f.timed(b, n, func() error { return f.k.LaunchHash(f.s, sums, m, ranges) })
			})
		}
	}
}

// BenchmarkCopy is the peer: a copy within the device, of as many bytes as BF16 to F16 moves.
func BenchmarkCopy(b *testing.B) {
	f := newFixture(b)
	n := 2 * many()
	src, dst := f.memory(b, n), f.memory(b, n)
	f.timed(b, 2*n, func() error { return ferry.Copy(f.s, dst, src) })
}

// BenchmarkLoad loads the kernel of one pair, or all. The driver compiles them, unless it finds them in
// its cache on disk: set CUDA_CACHE_DISABLE=1.
func BenchmarkLoad(b *testing.B) {
	for name, pairs := range map[string][]convert.Pair{
		"pairs=1": {{From: convert.BF16, To: convert.F16}}, "pairs=all": convert.Pairs(),
	} {
		b.Run(name, func(b *testing.B) {
			g := openTest(b)
			for b.Loop() {
				k, err := convert.Load(g, pairs...)
				check(b, err)
				check(b, k.Close())
			}
		})
	}
}
