package simt

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// The tests of this file run the kernels of corpus.cu and compute the same in Go.

var rng = rand.New(rand.NewPCG(1, 2))

var edgeInts = []int32{0, 1, -1, 2, 31, 32, 33, 255, math.MaxInt32, math.MinInt32, math.MinInt32 + 1, 0x55555555}

var edgeFloats = []float32{
	0, float32(math.Copysign(0, -1)), 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3.4028235e38, -3.4028235e38,
	float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 1e-45, -1e-45, 1.1754944e-38, 5.877e-39,
	2147483648, -2147483648, 4294967296, 1e10, -1e10, 0.99999994, 16777217, 8388608.5,
}

// pairs returns every pair of edges, and n random pairs.
func pairs[T any](edges []T, n int, random func() T) (a, b []T) {
	for _, x := range edges {
		for _, y := range edges {
			a, b = append(a, x), append(b, y)
		}
	}
	for range n {
		a, b = append(a, random()), append(b, random())
	}
	return a, b
}

func randomFloat() float32 { return math.Float32frombits(rng.Uint32()) }

func randomInt() int32 { return int32(rng.Uint32() >> rng.UintN(32)) }

func blocks(n, block int) int { return (n + block - 1) / block }

func check[T comparable](t *testing.T, name string, got, want []T) {
	t.Helper()
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%s: element %d: got %v, want %v", name, i, got[i], want[i])
			return
		}
	}
}

// TestCorpusIsSupported links every kernel of the compilers' output.
func TestCorpusIsSupported(t *testing.T) {
	for _, file := range corpora {
		m := loadFile(t, newSpace(), file)
		if len(m.kernels) < 29 {
			t.Errorf("%s: got %d kernels, want 29", file, len(m.kernels))
		}
		for name, k := range m.kernels {
			if k.Unsupported != nil {
				t.Errorf("%s: %s: %v", file, name, k.Unsupported)
			}
		}
	}
}

func TestAddOneEach(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		const n = 10007
		a, b := make([]float32, n), make([]float32, n)
		for i := range a {
			a[i], b[i] = float32(i)*0.5, float32(n-i)*3
		}
		x, y, z := put(m.mem, a), put(m.mem, b), put(m.mem, make([]float32, n))
		s := mustRun(t, m.launch(t, "add_one_each", (n+255)/256, 256, x, y, z, n))
		for i, got := range valuesOf[float32](z.Data) {
			if want := a[i] + b[i]; got != want {
				t.Fatalf("element %d: got %v, want %v", i, got, want)
			}
		}
		if s.Blocks != 40 || s.Threads != 40*256 {
			t.Errorf("got %d blocks and %d threads", s.Blocks, s.Threads)
		}
		tr := s.Traffic[0]
		if tr.ReadBytes != 8*n || tr.WriteBytes != 4*n {
			t.Errorf("got %d bytes read and %d written", tr.ReadBytes, tr.WriteBytes)
		}
	})
}

func TestIntOps(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		a, b := pairs(edgeInts, 1000, randomInt)
		out := put(m.mem, make([]int32, 24*len(a)))
		mustRun(t, m.launch(t, "int_ops", blocks(len(a), 128), 128, put(m.mem, a), put(m.mem, b), out, len(a)))
		got := valuesOf[int32](out.Data)
		for i := range a {
			x, y := a[i], b[i]
			ux, uy := uint32(x), uint32(y)
			var quo, rem int32
			var uquo, urem uint32
			if y != 0 {
				quo, rem, uquo, urem = x/y, x%y, ux/uy, ux%uy
			}
			abs := max(x, -x)
			if x == math.MinInt32 {
				abs = x
			}
			want := []int32{
				x + y, x - y, x * y, quo, rem, int32(uquo), int32(urem), x & y, x | y, x ^ y, ^x,
				x << (uy & 31), x >> (uy & 31), int32(ux >> (uy & 31)), min(x, y), max(x, y), int32(min(ux, uy)), abs,
				int32(bits.OnesCount32(ux)), int32(bits.LeadingZeros32(ux)), int32(bits.Reverse32(ux)),
				int32(int64(x) * int64(y) >> 32), int32(uint64(ux) * uint64(uy) >> 32), int32(bits.TrailingZeros32(ux)+1) % 33,
			}
			for k, w := range want {
				if g := got[24*i+k]; g != w {
					t.Fatalf("operation %d of %d and %d: got %d, want %d", k, x, y, g, w)
				}
			}
		}
	})
}

func TestLongOps(t *testing.T) {
	edges := []int64{0, 1, -1, 63, 64, math.MaxInt64, math.MinInt64, math.MaxInt32, math.MinInt32, 1 << 32}
	eachCorpus(t, func(t *testing.T, m *module) {
		a, b := pairs(edges, 500, func() int64 { return int64(rng.Uint64() >> rng.UintN(64)) })
		out := put(m.mem, make([]int64, 16*len(a)))
		mustRun(t, m.launch(t, "long_ops", blocks(len(a), 64), 64, put(m.mem, a), put(m.mem, b), out, len(a)))
		got := valuesOf[int64](out.Data)
		for i := range a {
			x, y := a[i], b[i]
			ux, uy := uint64(x), uint64(y)
			var quo, rem int64
			var uquo, urem uint64
			if y != 0 {
				quo, rem, uquo, urem = x/y, x%y, ux/uy, ux%uy
			}
			hi, _ := bits.Mul64(ux, uy)
			hi -= uint64(x>>63)&uy + uint64(y>>63)&ux
			want := []int64{
				x + y, x * y, quo, rem, int64(uquo), int64(urem), x << (uy & 63), x >> (uy & 63), int64(ux >> (uy & 63)),
				int64(bits.OnesCount64(ux)), int64(bits.LeadingZeros64(ux)), int64(bits.Reverse64(ux)), int64(hi),
				int64(bit(x < y)), int64(bit(ux < uy)), int64(int32(x)),
			}
			for k, w := range want {
				if g := got[16*i+k]; g != w {
					t.Fatalf("operation %d of %d and %d: got %d, want %d", k, x, y, g, w)
				}
			}
		}
	})
}

func TestNarrowOps(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		const n = 3000
		a, b, c, d := make([]int8, n), make([]uint8, n), make([]int16, n), make([]uint16, n)
		for i := range a {
			a[i], b[i], c[i], d[i] = int8(rng.Uint32()), uint8(rng.Uint32()), int16(rng.Uint32()), uint16(rng.Uint32())
		}
		out := put(m.mem, make([]int32, 6*n))
		mustRun(t, m.launch(t, "narrow_ops", blocks(n, 96), 96, put(m.mem, a), put(m.mem, b), put(m.mem, c), put(m.mem, d), out, n))
		want := make([]int32, 0, 6*n)
		for i := range a {
			x, y, z, w := a[i], b[i], c[i], d[i]
			want = append(want, int32(x)+int32(y), int32(z)*int32(w), int32(int8(int32(x)+int32(z))), int32(uint8(int32(y)+int32(w))),
				int32(int16(int32(z)+int32(w))), int32(uint16(int32(z)-int32(y))))
		}
		check(t, "narrow_ops", valuesOf[int32](out.Data), want)
	})
}

func TestVectors(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		const n = 1001
		a, b := make([]float32, 4*n), make([]int32, 2*n)
		for i := range a {
			a[i] = float32(i)
		}
		for i := range b {
			b[i] = int32(i * 7)
		}
		wantA, wantB := make([]float32, 4*n), make([]int32, 2*n)
		for i := range n {
			for k := range 4 {
				wantA[4*i+k] = a[4*i+3-k]
			}
			wantB[2*i], wantB[2*i+1] = b[2*i+1]+1, b[2*i]-1
		}
		out, out2 := put(m.mem, make([]float32, 4*n)), put(m.mem, make([]int32, 2*n))
		mustRun(t, m.launch(t, "vectors", blocks(n, 64), 64, put(m.mem, a), out, put(m.mem, b), out2, n))
		check(t, "float4", valuesOf[float32](out.Data), wantA)
		check(t, "int2", valuesOf[int32](out2.Data), wantB)
	})
}

func TestGrid3D(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		for _, block := range [][3]uint32{{8, 4, 2}, {32, 2, 1}, {5, 3, 7}, {1, 1, 1}, {64, 1, 2}} {
			grid := [3]uint32{3, 2, 4}
			w, h, d := grid[0]*block[0], grid[1]*block[1], grid[2]*block[2]
			out := put(m.mem, make([]uint32, w*h*d))
			l := m.launch(t, "grid3d", 1, 1, out)
			l.Grid.X, l.Grid.Y, l.Grid.Z = grid[0], grid[1], grid[2]
			l.Block.X, l.Block.Y, l.Block.Z = block[0], block[1], block[2]
			mustRun(t, l)
			got := valuesOf[uint32](out.Data)
			for i := range got {
				n := uint32(i)
				if want := n%w | n/w%h<<10 | n/w/h<<20; got[i] != want {
					t.Fatalf("block %v: element %d: got %#x, want %#x", block, i, got[i], want)
				}
			}
		}
	})
}

func TestReduceShared(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		const n = 10000
		in := make([]float32, n)
		for i := range in {
			in[i] = float32(rng.IntN(100))
		}
		g := blocks(n, 256)
		out := put(m.mem, make([]float32, g))
		mustRun(t, m.launch(t, "reduce_shared", g, 256, put(m.mem, in), out, n))
		want := make([]float32, g)
		for i, v := range in {
			want[i/256] += v
		}
		check(t, "sum", valuesOf[float32](out.Data), want)
	})
}

func TestReverseDynamic(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		const n, block = 960, 96
		in := make([]int32, n)
		want := make([]int32, n)
		for i := range in {
			in[i] = rng.Int32()
			want[i/block*block+block-1-i%block] = in[i]
		}
		out := put(m.mem, make([]int32, n))
		l := m.launch(t, "reverse_dynamic", n/block, block, put(m.mem, in), out)
		l.SharedBytes = 4 * block
		mustRun(t, l)
		check(t, "reversed", valuesOf[int32](out.Data), want)
	})
}

func TestTranspose(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		const w, h = 77, 45
		in, want := make([]float32, w*h), make([]float32, w*h)
		for i := range in {
			in[i] = rng.Float32()
			want[i%w*h+i/w] = in[i]
		}
		out := put(m.mem, make([]float32, w*h))
		l := m.launch(t, "transpose", 1, 1, put(m.mem, in), out, w, h)
		l.Grid.X, l.Grid.Y = (w+15)/16, (h+15)/16
		l.Block.X, l.Block.Y = 16, 16
		mustRun(t, l)
		check(t, "transposed", valuesOf[float32](out.Data), want)
	})
}

func TestHistogram(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		const n = 50000
		in := make([]uint8, n)
		want := make([]uint32, 256)
		for i := range in {
			in[i] = uint8(rng.ExpFloat64() * 20)
			want[in[i]]++
		}
		bins := put(m.mem, make([]uint32, 256))
		mustRun(t, m.launch(t, "histogram", 13, 128, put(m.mem, in), bins, n))
		check(t, "bins", valuesOf[uint32](bins.Data), want)
	})
}

func TestAtomics(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		const n = 5000
		x := put(m.mem, []int32{5, 3, -9, 10, 0})
		u := put(m.mem, []uint32{^uint32(0), 0, 0, 0, 0})
		l := put(m.mem, []uint64{7, 0})
		f := put(m.mem, []float32{0.5})
		s := mustRun(t, m.launch(t, "atomics", blocks(n, 224), 224, x, u, l, f, n))
		sum, xor := int32(0), uint32(0)
		for i := range int32(n) {
			sum += i
			xor ^= uint32(i)
		}
		check(t, "x", valuesOf[int32](x.Data), []int32{5 + sum, -7, n - 1, 10 + 2*n, 77})
		dec := uint32(0)
		for range n {
			if dec == 0 || dec > 99 {
				dec = 99
			} else {
				dec--
			}
		}
		check(t, "u", valuesOf[uint32](u.Data), []uint32{0, ^uint32(0), xor, n % 100, dec})
		check(t, "l", valuesOf[uint64](l.Data), []uint64{7 + uint64(sum), (n - 1) << 33})
		check(t, "f", valuesOf[float32](f.Data), []float32{n + 0.5})
		if got := s.Traffic[0].Atomics; got < 13*n {
			t.Errorf("got %d atomics, want at least %d", got, 13*n)
		}
	})
}

func TestCollatz(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		const n = 2000
		in, want := make([]uint32, n), make([]uint32, n)
		for i := range in {
			in[i] = uint32(i + 1)
			for x := in[i]; x != 1; want[i]++ {
				if x&1 != 0 {
					x = 3*x + 1
				} else {
					x >>= 1
				}
			}
		}
		out := put(m.mem, make([]uint32, n))
		mustRun(t, m.launch(t, "collatz", blocks(n, 64), 64, put(m.mem, in), out, n))
		check(t, "steps", valuesOf[uint32](out.Data), want)
	})
}

func TestRecursion(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		const n = 200
		fib := []int32{0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89}
		want := make([]int32, n)
		for i := range want {
			want[i] = fib[i%12]
		}
		out := put(m.mem, make([]int32, n))
		mustRun(t, m.launch(t, "recursion", blocks(n, 64), 64, out, n))
		check(t, "fib", valuesOf[int32](out.Data), want)
	})
}

func TestNested(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		const n = 500
		in, want := make([]int32, n), make([]int32, n)
		for i := range in {
			in[i] = int32(rng.IntN(15))
			acc := int32(0)
			for a := range in[i] {
				if a%3 == 0 {
					continue
				}
				for b := a; b < 10 && b != 7; b++ {
					switch b & 3 {
					case 0:
						acc += a
					case 1:
						acc -= b
					case 2:
						acc ^= a * b
					default:
						acc++
					}
				}
			}
			want[i] = acc
		}
		out := put(m.mem, make([]int32, n))
		mustRun(t, m.launch(t, "nested", blocks(n, 160), 160, put(m.mem, in), out, n))
		check(t, "acc", valuesOf[int32](out.Data), want)
	})
}

func TestGlobals(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		const n = 100
		out, o2 := put(m.mem, make([]float32, n)), put(m.mem, make([]int32, n))
		mustRun(t, m.launch(t, "globals", 1, 32, out, o2, 32))
		var want []float32
		var want2 []int32
		for i := range 32 {
			want = append(want, float32(int(1)<<(i&7)))
			k := int32(i & 3)
			want2 = append(want2, (2*k+1)*10+2*k+2+11)
		}
		check(t, "table", valuesOf[float32](out.Data), want)
		check(t, "pairs", valuesOf[int32](o2.Data), want2)
		if got := valuesOf[int32](m.vars["counter"].Data)[0]; got != 6 {
			t.Errorf("counter: got %d, want 6", got)
		}
		if got := valuesOf[int32](m.vars["shared_with_host"].Data)[0]; got != 12 {
			t.Errorf("shared_with_host: got %d, want 12", got)
		}
	})
}

func TestStructs(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		out := put(m.mem, make([]float32, 8))
		p := bytesOf(struct {
			A int32
			B float32
			C float64
			D [8]uint8
		}{-3, 2.5, 1e10, [8]uint8{1, 2, 3, 250, 255}})
		mustRun(t, m.launch(t, "structs", 1, 1, p, out))
		check(t, "structs", valuesOf[float32](out.Data), []float32{-3, 2.5, 1e10, 1, 2, 3, 250, 255})
	})
}

func TestLocalArray(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		const n = 300
		idx, want := make([]int32, n), make([]int32, n)
		for i := range idx {
			idx[i] = rng.Int32()
			k := idx[i] & 15
			want[i] = k*k + int32(i)
		}
		out := put(m.mem, make([]int32, n))
		mustRun(t, m.launch(t, "local_array", blocks(n, 96), 96, put(m.mem, idx), out, n))
		check(t, "local", valuesOf[int32](out.Data), want)
	})
}

func TestShuffles(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		const n = 128
		in := make([]int32, n)
		for i := range in {
			in[i] = int32(rng.IntN(9)) - 2*int32(i/32%2)
		}
		out := put(m.mem, make([]int32, 7*n))
		mustRun(t, m.launch(t, "shuffles", 2, n/2, put(m.mem, in), out))
		var want []int32
		for i := range in {
			w, l := in[i/32*32:][:32], i%32
			sum, ballot, some, all := int32(0), uint32(0), int32(0), int32(1)
			for k, v := range w {
				sum += v
				ballot |= uint32(v&1) << k
				if v == 3 {
					some = 1
				}
				if v < 0 {
					all = 0
				}
			}
			up, down := w[max(l-1, 0)], w[l]
			if l+3 < 32 {
				down = w[l+3]
			}
			want = append(want, sum, up, down, w[5], int32(ballot), some, all)
		}
		check(t, "shuffles", valuesOf[int32](out.Data), want)
	})
}

func TestBits64(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		const n = 100
		in := make([]uint64, n)
		var want []uint32
		for i := range in {
			in[i] = rng.Uint64()
			v := in[i]
			b := bytesOf([]uint32{uint32(v), uint32(i)})
			perm := uint32(b[4]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
			want = append(want, uint32(v), uint32(v>>32), uint32(v<<(i&31)>>32)+perm)
		}
		out := put(m.mem, make([]uint32, 3*n))
		mustRun(t, m.launch(t, "bits64", blocks(n, 32), 32, put(m.mem, in), out, n))
		check(t, "bits64", valuesOf[uint32](out.Data), want)
	})
}

func TestBarrierCount(t *testing.T) {
	eachCorpus(t, func(t *testing.T, m *module) {
		out := put(m.mem, make([]int32, 5))
		mustRun(t, m.launch(t, "barrier_count", 5, 75, out))
		check(t, "count", valuesOf[int32](out.Data), []int32{37, 37, 37, 37, 37})
	})
}
