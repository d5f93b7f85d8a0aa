package convert_test

import (
	"compress/gzip"
	"encoding/binary"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/checkpoint/internal/convert"
)

// The files in testdata have numbers that ggml's own C code computed: github.com/ggml-org/ggml at
// commit d99724f2b141fed9e1a9f402213506c081433465, dequantize_row_* of src/ggml-quants.c, compiled by
// gcc 12.2.0 with -O2 -ffp-contract=off. A file has records of one block each: the block's bytes, its
// numbers as floats of 32 bits, as halves (GGML_FP32_TO_FP16) and as bfloat16 (GGML_FP32_TO_BF16).
// The first blocks have each kind of scale: zeros, denormal and large numbers, infinities and NaNs.
// Others have random bytes, and the last have normally distributed numbers, quantised by
// quantize_row_*_ref.

// record is what ggml says about a block.
type record struct {
	block   []byte
	numbers map[convert.Kind][]byte
}

// recordKinds are the kinds of numbers in a record, in their order.
var recordKinds = []convert.Kind{convert.F32, convert.F16, convert.BF16}

// records reads the file of a kind.
func records(t testing.TB, k convert.Kind) (all []record) {
	t.Helper()
	f, err := os.Open("testdata/" + strings.ToLower(k.String()) + ".gz")
	check(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	check(t, err)
	b, err := io.ReadAll(z)
	check(t, err)
	take := func(n int) []byte {
		taken := b[:n]
		b = b[n:]
		return taken
	}
	n, bytes := k.Block()
	for len(b) > 0 {
		r := record{take(bytes), map[convert.Kind][]byte{}}
		for _, to := range recordKinds {
			r.numbers[to] = take(n * formats[to].width / 8)
		}
		all = append(all, r)
	}
	return all
}

// TestBlocks compares GGUF's blocks with what ggml computes of them, bit by bit. A NaN has no sign and
// all other bits set.
func TestBlocks(t *testing.T) {
	for _, p := range convert.Pairs() {
		block, _ := p.From.Block()
		if block == 1 {
			continue
		}
		t.Run(p.String(), func(t *testing.T) {
			f := newFixture(t, p)
			var in, want []byte
			for _, r := range records(t, p.From) {
				in, want = append(in, r.block...), append(want, r.numbers[p.To]...)
			}
			to := formats[p.To]
			size := to.width / 8
			got := f.run(t, p, poison(len(want)), in, convert.Piece{N: len(want) / size})
			nans := 0
			for i := range len(want) / size {
				w := code(want, size, i)
				if _, rest := to.split(w); rest > to.overflow() {
					w = to.join(0, 1<<(to.width-1)-1)
					nans++
				}
				if g := code(got, size, i); g != w {
					t.Fatalf("number %d of block %d: got %#x (%v), want %#x (%v)", i%block, i/block, g, number(to, g), w, number(to, w))
				}
			}
			if nans == 0 || nans > len(want)/size/2 {
				t.Errorf("%d of %d numbers are NaN: the file does not test what it should", nans, len(want)/size)
			}
		})
	}
}

// TestRecords: the blocks have each value of 4 bits, and of 8 bits in Q8_0.
func TestRecords(t *testing.T) {
	for _, k := range []convert.Kind{convert.Q4_0, convert.Q8_0, convert.Q4_K, convert.Q6_K} {
		all := records(t, k)
		var values []uint32
		for _, r := range all {
			n, _ := k.Block()
			for i := range n {
				values = append(values, binary.LittleEndian.Uint32(r.numbers[convert.F32][4*i:]))
			}
		}
		slices.Sort(values)
		if distinct := len(slices.Compact(values)); len(all) < 40 || distinct < 500 {
			t.Errorf("%v: %d blocks with %d distinct numbers", k, len(all), distinct)
		}
	}
}
