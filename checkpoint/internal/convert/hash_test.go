package convert_test

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/checkpoint/internal/convert"
	"github.com/ferrygpu/ferry/cu"
)

// TestSum compares the hash of a few bytes with the definition, written anew with other operations.
func TestSum(t *testing.T) {
	mixed := func(x uint64) uint64 {
		x ^= x / (1 << 30)
		x *= 0xbf58476d1ce4e5b9
		x ^= x / (1 << 27)
		x *= 0x94d049bb133111eb
		return x ^ x/(1<<31)
	}
	for n := range 40 {
		b := poison(n)
		want := mixed(uint64(n) * 0xd6e8feb86659fd93)
		padded := append(slices.Clone(b), make([]byte, 7)...)
		position := uint64(0)
		for i := 0; i < n; i += 8 {
			position += 0x9e3779b97f4a7c15
			want += mixed(binary.LittleEndian.Uint64(padded[i:]) + position)
		}
		if got := convert.Sum(b); got != want {
			t.Errorf("%d bytes: %#x, want %#x", n, got, want)
		}
	}
	// The random generator SplitMix64 with the seed 0 begins with this number.
	if got, want := convert.Sum(make([]byte, 8))-mixed(8*0xd6e8feb86659fd93&(1<<64-1)), uint64(0xe220a8397b1dcdaf); got != want {
		t.Errorf("the term of a word of zeros is %#x, want %#x", got, want)
	}
}

// TestDigest writes the same bytes in parts.
func TestDigest(t *testing.T) {
	b := poison(100)
	for first := range b {
		for second := range len(b) - first {
			var d convert.Digest
			for _, part := range [][]byte{b[:first], b[first:][:second], b[first+second:]} {
				d.Write(part)
			}
			if got, want := d.Sum64(), convert.Sum(b); got != want {
				t.Fatalf("parts of %d, %d and %d bytes: %#x, want %#x", first, second, len(b)-first-second, got, want)
			}
		}
	}
	var d convert.Digest
	if n, err := io.Copy(&d, iotest.OneByteReader(strings.NewReader(string(b)))); n != 100 || err != nil || d.Sum64() != convert.Sum(b) {
		t.Errorf("by single bytes: %d bytes, error %v, %#x, want %#x", n, err, d.Sum64(), convert.Sum(b))
	}
}

// TestSumDiffers changes bytes in the ways in which a load fails. Other bytes have another hash.
func TestSumDiffers(t *testing.T) {
	const n = 4096
	b := poison(n)
	type change struct {
		what  string
		bytes [32]byte
	}
	seen := map[uint64]change{convert.Sum(b): {"the bytes", sha256.Sum256(b)}}
	see := func(what string, b []byte) {
		t.Helper()
		h, bytes := convert.Sum(b), sha256.Sum256(b)
		if other, ok := seen[h]; ok && other.bytes != bytes {
			t.Errorf("%s: the hash is that of other bytes: %s", what, other.what)
		}
		seen[h] = change{what, bytes}
	}
	for bit := range 8 * n {
		b[bit/8] ^= 1 << (bit % 8)
		see(fmt.Sprintf("bit %d changed", bit), b)
		b[bit/8] ^= 1 << (bit % 8)
	}
	for _, size := range []int{1, 4, 8, 16, 64, 512} {
		for i := size; i+size <= n; i += size {
			swapped := slices.Concat(b[size:size+i-size], b[:size], b[i:])
			see(fmt.Sprintf("the first %d bytes moved to %d", size, i-size), swapped)
			swapped = slices.Clone(b)
			copy(swapped, b[i:i+size])
			copy(swapped[i:], b[:size])
			see(fmt.Sprintf("%d bytes at 0 and %d exchanged", size, i), swapped)
			zeroed := slices.Clone(b)
			clear(zeroed[i : i+size])
			see(fmt.Sprintf("%d bytes at %d are zeros", size, i), zeroed)
		}
	}
	for i := range n {
		see(fmt.Sprintf("the first %d bytes", i), b[:i])
		see(fmt.Sprintf("%d zeros", i), make([]byte, i))
	}
}

// TestHash compares the hash of ranges with that of the CPU: all alignments, lengths around words,
// threads and tiles, and more ranges than a launch takes.
func TestHash(t *testing.T) {
	f := newFixture(t)
	const tile = 1 << 16
	b := poison(3*tile + 100)
	var ranges []convert.Range
	for at := range 17 {
		for n := range 40 {
			ranges = append(ranges, convert.Range{At: at, Bytes: n})
		}
		for _, around := range []int{4096, tile, 3 * tile} {
			for _, n := range []int{-16, -9, -8, -1, 0, 1, 8, 17} {
				if around > 4096 && at%8 > 1 {
					continue
				}
				ranges = append(ranges, convert.Range{At: at, Bytes: around + n})
			}
		}
	}
	f.compareHashes(t, b, ranges)
	var short []convert.Range
	r := rand.New(rand.NewPCG(5, 6))
	for range 1000 {
		at := r.IntN(len(b))
		short = append(short, convert.Range{At: at, Bytes: r.IntN(min(300, len(b)-at+1))})
	}
	f.compareHashes(t, b, short)
	f.compareHashes(t, b, slices.Repeat([]convert.Range{{}}, 500))
}

func (f *fixture) compareHashes(t *testing.T, b []byte, ranges []convert.Range) {
	t.Helper()
	m, err := ferry.Upload(f.g, b)
	check(t, err)
	defer m.Close()
	got, err := f.k.Hash(t.Context(), f.s, m, ranges...)
	check(t, err)
	for i, r := range ranges {
		if want := convert.Sum(b[r.At:][:r.Bytes]); got[i] != want {
			t.Errorf("range %d, %d bytes from %d on: %#x, want %#x", i, r.Bytes, r.At, got[i], want)
		}
	}
}

// TestHashEnds hashes to the end of memory, behind which nothing may be read.
func TestHashEnds(t *testing.T) {
	f := newFixture(t)
	for n := 17; n < 50; n++ {
		f.compareHashes(t, poison(n), []convert.Range{{At: 1, Bytes: n - 1}, {At: 4, Bytes: n - 4}, {At: 7, Bytes: n - 7}})
	}
}

// TestHashInBatch hashes in a batch that is submitted twice.
func TestHashInBatch(t *testing.T) {
	f := newFixture(t)
	b := poison(1000)
	m, err := ferry.Upload(f.g, b)
	check(t, err)
	sums, err := ferry.Alloc[uint64](f.g, 2)
	check(t, err)
	var batch ferry.Batch
	check(t, f.k.LaunchHash(&batch, sums, m, []convert.Range{{0, 500}, {3, 997}}))
	for range 2 {
		check(t, f.s.Submit(&batch))
		got, err := ferry.Download(sums)
		check(t, err)
		if want := []uint64{convert.Sum(b[:500]), convert.Sum(b[3:])}; !slices.Equal(got, want) {
			t.Errorf("got %#x, want %#x", got, want)
		}
	}
}

// TestHashRefuses: what is refused, and what the error says.
func TestHashRefuses(t *testing.T) {
	f := newFixture(t)
	m, err := ferry.Upload(f.g, poison(100))
	check(t, err)
	sums, err := ferry.Upload(f.g, []uint64{7})
	check(t, err)
	const most = int(^uint(0) >> 1)
	for _, c := range []struct {
		k    *convert.Kernels
		sums ferry.Memory[uint64]
		m    ferry.Memory[byte]
		r    []convert.Range
		want string
	}{
		{f.k, sums, m, []convert.Range{{1, 100}}, "range 0: 100 bytes from byte 1 on are not within the memory, which has 100 bytes"},
		{f.k, sums, m, []convert.Range{{101, 0}}, "range 0: 0 bytes from byte 101 on"},
		{f.k, sums, m, []convert.Range{{-1, 5}}, "range 0: 5 bytes from byte -1 on"},
		{f.k, sums, m, []convert.Range{{5, -1}}, "range 0: -1 bytes from byte 5 on"},
		{f.k, sums, m, []convert.Range{{most, most}}, "are not within the memory"},
		{f.k, sums, m, []convert.Range{{}, {}}, "the memory for the results has 1 words: must have one for each"},
		{f.k, sums, m, nil, "hash 0 ranges: the memory for the results has 1 words"},
		{f.k, nil, m, []convert.Range{{}}, "no memory given (nil)"},
		{f.k, sums, nil, []convert.Range{{}}, "no memory given (nil)"},
		{nil, sums, m, []convert.Range{{}}, "no kernels given (nil)"},
	} {
		err := c.k.LaunchHash(f.s, c.sums, c.m, c.r)
		if !errors.Is(err, cu.ErrorInvalidValue) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want %q", c.r, err, c.want)
		}
	}
	if got, err := ferry.Download(sums); err != nil || got[0] != 7 {
		t.Errorf("sums are %d, error %v: want 7 as before", got, err)
	}
}

// BenchmarkSum hashes on the CPU.
func BenchmarkSum(b *testing.B) {
	data := poison(1 << 20)
	b.SetBytes(1 << 20)
	for b.Loop() {
		convert.Sum(data)
	}
}
