package convert_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/checkpoint/internal/convert"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
)

// tensor returns n numbers of a kind as random bytes, and what a kernel makes of them when both
// begin where memory begins.
func (f *fixture) tensor(t testing.TB, p convert.Pair, n int) (in, out []byte) {
	t.Helper()
	block, bytes := p.From.Block()
	_, size := p.To.Block()
	in = poison(n / block * bytes)
	return in, f.run(t, p, make([]byte, n*size), in, convert.Piece{N: n})
}

// apply returns what out is after pieces of in are converted, where whole is the conversion of all
// of in.
func apply(p convert.Pair, out, whole []byte, pieces []convert.Piece) []byte {
	block, bytes := p.From.Block()
	_, size := p.To.Block()
	out = slices.Clone(out)
	for _, piece := range pieces {
		copy(out[piece.Dst:], whole[piece.Src/bytes*block*size:][:piece.N*size])
	}
	return out
}

// TestPieces converts more pieces than a launch takes, in any order and of all lengths. Nothing else
// of the destination changes.
func TestPieces(t *testing.T) {
	for _, p := range convert.Pairs() {
		t.Run(p.String(), func(t *testing.T) {
			f := newFixture(t, p)
			block, bytes := p.From.Block()
			_, size := p.To.Block()
			in, whole := f.tensor(t, p, 40*1024)
			r := rand.New(rand.NewPCG(7, 8))
			var pieces []convert.Piece
			at := 0
			for range 300 {
				n := min(r.IntN(40), r.IntN(40)) * block
				if r.IntN(20) == 0 {
					n = r.IntN(9000) / block * block
				}
				at += r.IntN(3) * size
				pieces = append(pieces, convert.Piece{Dst: at, Src: r.IntN((40*1024-n)/block+1) * bytes, N: n})
				at += n * size
			}
			r.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
			out := poison(at)
			compareBytes(t, f.run(t, p, out, in, pieces...), apply(p, out, whole, pieces))
		})
	}
}

// TestAlignment converts to and from every byte address, and lengths around those of vectors and
// tiles.
func TestAlignment(t *testing.T) {
	for _, p := range convert.Pairs() {
		t.Run(p.String(), func(t *testing.T) {
			f := newFixture(t, p)
			block, _ := p.From.Block()
			_, size := p.To.Block()
			in, whole := f.tensor(t, p, 10*1024)
			for k := range 17 * 3 {
				// Each address of the destination with three of the source.
				to := k % 17
				from := (to*5 + k/17*3) % 17
				n := []int{1, 7, 8, 9, 31, 33, 4095, 4096, 4097, 8192, 9000}[k%11] * block
				n = min(n, 10*1024/block*block)
				out := poison(to + n*size + 33)
				want := slices.Clone(out)
				copy(want[to:], whole[:n*size])
				shifted := append(poison(from), in...)
				compareBytes(t, f.run(t, p, out, shifted, convert.Piece{Dst: to, Src: from, N: n}), want)
				if t.Failed() {
					t.Fatalf("%d numbers from byte %d to byte %d", n, from, to)
				}
			}
		})
	}
}

// TestInPlace converts pieces where they stand, at even and odd addresses.
func TestInPlace(t *testing.T) {
	for _, p := range convert.Pairs() {
		_, size := p.From.Block()
		if _, to := p.To.Block(); to != size {
			continue
		}
		t.Run(p.String(), func(t *testing.T) {
			f := newFixture(t, p)
			in, whole := f.tensor(t, p, 40*1024)
			pieces := []convert.Piece{{N: 20000}, {Dst: 40000 * size, Src: 40000 * size, N: 9}, {Dst: 20001 * size, Src: 20001 * size, N: 12000}}
			m, err := ferry.Upload(f.g, in)
			check(t, err)
			defer m.Close()
			check(t, f.k.LaunchPieces(f.s, m, m, p, pieces))
			got, err := ferry.Download(m)
			check(t, err)
			compareBytes(t, got, apply(p, in, whole, pieces))

			shifted, err := ferry.Upload(f.g, append([]byte{1}, in...))
			check(t, err)
			defer shifted.Close()
			check(t, f.k.LaunchPieces(f.s, shifted, shifted, p, []convert.Piece{{Dst: 1, Src: 1, N: 40 * 1024}}))
			got, err = ferry.Download(shifted)
			check(t, err)
			compareBytes(t, got[1:], whole)
		})
	}
}

func compareBytes(t *testing.T, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("byte %d of %d: got %#x, want %#x", i, len(want), got[i], want[i])
			return
		}
	}
}

// TestLarge converts more than 2^32 numbers, on a GPU that has the memory.
func TestLarge(t *testing.T) {
	if os.Getenv(gputest.RequireVariable) != "1" {
		t.Skip("needs 9 GiB and a fast GPU: set " + gputest.RequireVariable + "=1")
	}
	p := convert.Pair{From: convert.E5M2, To: convert.E4M3}
	f := newFixture(t, p)
	const n = 1<<32 + 5003
	src, err := ferry.Alloc[byte](f.g, n)
	check(t, err)
	defer src.Close()
	dst, err := ferry.Alloc[byte](f.g, n)
	check(t, err)
	defer dst.Close()
	in, out := f.tensor(t, p, 1<<20)
	part, err := ferry.Upload(f.g, in)
	check(t, err)
	defer part.Close()
	for at := 0; at < n; at += len(in) {
		bytes := min(len(in), n-at)
		check(t, ferry.Copy(f.s, src.Range(at, at+bytes), part.Range(0, bytes)))
	}
	check(t, ferry.Fill(f.s, dst, 0x55))
	check(t, f.k.Launch(f.s, dst, src, p, n))
	for _, at := range []int{0, 1 << 30, 1<<32 - len(in), 1 << 32} {
		bytes := min(len(in), n-at)
		got, err := ferry.Download(dst.Range(at, at+bytes))
		check(t, err)
		compareBytes(t, got, out[:bytes])
	}
	ranges := []convert.Range{{At: 0, Bytes: n}, {At: 3, Bytes: n - 3}}
	got, err := f.k.Hash(t.Context(), f.s, src, ranges...)
	check(t, err)
	whole := bytes.Repeat(in, n/len(in)+1)[:n]
	for i, r := range ranges {
		if want := convert.Sum(whole[r.At:]); got[i] != want {
			t.Errorf("hash of %d bytes from %d on: %#x, want %#x", r.Bytes, r.At, got[i], want)
		}
	}
}

// TestFarOffsets converts and hashes behind 4 GiB of memory that is not touched.
func TestFarOffsets(t *testing.T) {
	if testing.Short() {
		t.Skip("reserves 8 GiB")
	}
	p := convert.Pair{From: convert.BF16, To: convert.F16}
	f := newFixture(t, p)
	const far, n = 1<<32 + 6, 5000
	in, out := f.tensor(t, p, n)
	src, err := ferry.Alloc[byte](f.g, far+2*n)
	check(t, err)
	defer src.Close()
	dst, err := ferry.Alloc[byte](f.g, far+2*n)
	check(t, err)
	defer dst.Close()
	check(t, ferry.Copy(f.s, src.Range(far, far+2*n), ferry.Pageable(in)))
	check(t, f.k.LaunchPieces(f.s, dst, src, p, []convert.Piece{{Dst: far, Src: far, N: n}}))
	got, err := ferry.Download(dst.Range(far, far+2*n))
	check(t, err)
	compareBytes(t, got, out)
	sums, err := f.k.Hash(t.Context(), f.s, dst, convert.Range{At: far, Bytes: 2 * n})
	check(t, err)
	if want := convert.Sum(out); sums[0] != want {
		t.Errorf("the hash is %#x, want %#x", sums[0], want)
	}
}

// TestRefuses: what is refused, and what the error says. The destination does not change.
func TestRefuses(t *testing.T) {
	p, q := convert.Pair{From: convert.BF16, To: convert.F16}, convert.Pair{From: convert.Q4_0, To: convert.F32}
	f := newFixture(t, p, q)
	src, err := ferry.Upload(f.g, poison(100))
	check(t, err)
	dst, err := ferry.Upload(f.g, poison(100))
	check(t, err)
	const most = int(^uint(0) >> 1)
	for _, c := range []struct {
		k        *convert.Kernels
		dst, src ferry.Memory[byte]
		pair     convert.Pair
		piece    convert.Piece
		want     string
	}{
		{f.k, dst, src, p, convert.Piece{N: 51}, "convert BF16 to F16: piece 1: 51 numbers from byte 0 on are not within the source, which has 100 bytes"},
		{f.k, dst, src, p, convert.Piece{Src: 2, N: 50}, "50 numbers from byte 2 on are not within the source"},
		{f.k, dst, src, p, convert.Piece{Dst: 1, N: 50}, "50 numbers from byte 1 on are not within the destination, which has 100 bytes"},
		{f.k, dst, src, p, convert.Piece{Src: 101}, "0 numbers from byte 101 on are not within the source"},
		{f.k, dst, src, p, convert.Piece{Dst: 101}, "0 numbers from byte 101 on are not within the destination"},
		{f.k, dst, src, p, convert.Piece{N: -1}, "none may be negative"},
		{f.k, dst, src, p, convert.Piece{Src: -2, N: 1}, "none may be negative"},
		{f.k, dst, src, p, convert.Piece{Dst: -2, N: 1}, "none may be negative"},
		{f.k, dst, src, p, convert.Piece{N: most}, "numbers: a piece has at most 17592186040320"},
		{f.k, dst, src, p, convert.Piece{N: 1 << 43}, "are not within the source"},
		{f.k, dst, src, p, convert.Piece{Src: most, N: 1}, "are not within the source"},
		{f.k, dst, src, q, convert.Piece{N: 31}, "31 numbers: must be a multiple of 32"},
		{f.k, dst, src, q, convert.Piece{N: 192}, "192 numbers from byte 0 on are not within the source"},
		{f.k, dst, src, q, convert.Piece{N: 32}, "32 numbers from byte 0 on are not within the destination"},
		{f.k, dst, src, convert.Pair{From: convert.F16, To: convert.BF16}, convert.Piece{}, "the kernel is not loaded: give the pair to Load"},
		{f.k, dst, src, convert.Pair{From: 77, To: 200}, convert.Piece{}, "convert Kind(77) to Kind(200): the kernel is not loaded"},
		{f.k, nil, src, p, convert.Piece{}, "no memory given (nil)"},
		{f.k, dst, nil, p, convert.Piece{}, "no memory given (nil)"},
		{nil, dst, src, p, convert.Piece{}, "the kernel is not loaded"},
	} {
		err := c.k.LaunchPieces(f.s, c.dst, c.src, c.pair, []convert.Piece{{N: 0}, c.piece})
		if !errors.Is(err, cu.ErrorInvalidValue) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v %v: error %v, want %q", c.pair, c.piece, err, c.want)
		}
	}
	got, err := ferry.Download(dst)
	check(t, err)
	compareBytes(t, got, poison(100))
}

// TestLoad: kernels that are given twice, that do not exist, and a GPU that is closed.
func TestLoad(t *testing.T) {
	p := convert.Pair{From: convert.BF16, To: convert.F16}
	f := newFixture(t, p, p)
	f.run(t, p, make([]byte, 2), make([]byte, 2), convert.Piece{N: 1})
	for _, bad := range []convert.Pair{{}, {From: convert.F16, To: convert.F16}, {From: convert.F16, To: convert.Q4_0}, {From: convert.Q4_0, To: convert.E4M3}, {From: 99, To: 1}} {
		if _, err := convert.Load(f.g, bad); !errors.Is(err, cu.ErrorInvalidValue) || !strings.Contains(err.Error(), "there is none") {
			t.Errorf("Load of %v: error %v", bad, err)
		}
		if convert.Supported(bad.From, bad.To) {
			t.Errorf("%v is supported", bad)
		}
	}
	if _, err := convert.Load(nil, p); err == nil {
		t.Error("Load of no GPU: no error")
	}
	var none *convert.Kernels
	check(t, none.Close())
	check(t, f.k.Close())
	check(t, f.k.Close())
	m, err := ferry.Alloc[byte](f.g, 2)
	check(t, err)
	defer m.Close()
	if err := f.k.Launch(f.s, m, m, p, 1); !errors.Is(err, ferry.ErrClosed) {
		t.Errorf("Launch after Close: error %v, want ErrClosed", err)
	}
}

// TestKinds: names and sizes.
func TestKinds(t *testing.T) {
	if n := len(convert.Pairs()); n != 20+12 {
		t.Errorf("%d pairs, want 32", n)
	}
	for _, p := range convert.Pairs() {
		if n, bytes := p.From.Block(); n < 1 || bytes < 1 || p.To.String() == "" {
			t.Errorf("%v: %d numbers in %d bytes", p, n, bytes)
		}
	}
	if n, bytes := convert.Kind(0).Block(); n != 0 || bytes != 0 || convert.Kind(0).String() != "Kind(0)" {
		t.Errorf("the zero kind is %v, with %d numbers in %d bytes", convert.Kind(0), n, bytes)
	}
}
