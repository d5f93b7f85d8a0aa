package differ

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/compiletest"
	"github.com/ferrygpu/ferry/internal/test/differ/permute"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

// eachOrder runs a test on the PTX of a source in testdata/order: as the compiler wrote it,
// with its blocks in other orders, and as a compiler of this machine writes it.
func eachOrder(t *testing.T, name string, f func(t *testing.T, b *Bench)) {
	text, err := os.ReadFile(filepath.Join("testdata", "order", name+".ptx"))
	if err != nil {
		t.Fatal(err)
	}
	t.Run("as compiled", func(t *testing.T) { f(t, bench(t, software(t), text)) })
	for seed, order := range []string{"reversed", "shuffled"} {
		permuted, _, err := permute.Blocks(string(text), uint64(seed))
		if err != nil {
			t.Fatal(err)
		}
		t.Run(order, func(t *testing.T) { f(t, bench(t, software(t), []byte(permuted))) })
	}
	t.Run("compiled now", func(t *testing.T) {
		r := compiletest.File(t, filepath.Join("testdata", "order", name+".cu"), nil)
		f(t, bench(t, software(t), r.PTX))
	})
}

// run launches a kernel. It returns the contents of the last buffer.
func run(t *testing.T, b *Bench, c *Case, inputs ...any) []byte {
	t.Helper()
	data := make([][]byte, len(c.Args))
	for i, in := range inputs {
		raw, err := binary.Append(nil, binary.LittleEndian, in)
		if err != nil {
			t.Fatal(err)
		}
		if c.Args[i].Value != nil {
			t.Fatalf("argument %d is a value", i)
		}
		data[i] = raw
	}
	got, err := b.Run(c, data)
	if err != nil {
		t.Fatal(err)
	}
	return got[len(inputs)-1]
}

// block4 is a block of quantised.cu, and block8 one of the vector.
type (
	block4 struct {
		Scale, Low float32
		Q          [16]uint8
	}
	block8 struct {
		Scale, Sum float32
		Q          [32]int8
	}
)

// row returns the product of a row and the vector as the warp of quantised_rows computes
// it. Every product and sum is rounded to float32.
func row(w []block4, x []block8) float32 {
	var lanes [32]float32
	for b := range w {
		scale := w[b].Scale
		switch {
		case scale == 0:
			continue
		case !(scale < 1e30 && scale > -1e30):
			return math.Float32frombits(0x7fffffff)
		}
		dot := 0
		for i, q := range w[b].Q {
			dot += int(q&15)*int(x[b].Q[i]) + int(q>>4)*int(x[b].Q[i+16])
		}
		acc := &lanes[b%32]
		*acc += float32(float32(scale*x[b].Scale) * float32(dot))
		*acc += float32(w[b].Low * x[b].Sum)
	}
	for d := 16; d > 0; d /= 2 {
		before := lanes
		for i := range lanes {
			lanes[i] = before[i] + before[i^d]
		}
	}
	return lanes[0]
}

// quantised returns a matrix and a vector. Some blocks have no weights, and some rows have
// a scale that is not finite.
func quantised(rows, blocks int) ([]block4, []block8) {
	r := rand.New(rand.NewPCG(31, 1))
	w, x := make([]block4, rows*blocks), make([]block8, blocks)
	for i := range w {
		w[i] = block4{Scale: float32(r.NormFloat64()), Low: float32(r.NormFloat64())}
		for j := range w[i].Q {
			w[i].Q[j] = uint8(r.Uint32())
		}
		switch r.IntN(blocks * 8) {
		case 0, 1, 2, 3, 4, 5, 6, 7:
			w[i].Scale = 0
		case 8:
			w[i].Scale = float32(math.Inf(1 - 2*r.IntN(2)))
		}
	}
	for i := range x {
		x[i] = block8{Scale: float32(r.NormFloat64()), Sum: float32(r.NormFloat64() * 100)}
		for j := range x[i].Q {
			x[i].Q[j] = int8(r.Uint32())
		}
	}
	return w, x
}

// TestQuantisedProduct compares products of a quantised matrix and vector with a reference,
// bit for bit.
func TestQuantisedProduct(t *testing.T) {
	const rows, blocks = 37, 75
	w, x := quantised(rows, blocks)
	c := &Case{
		Kernel: "quantised_rows", Grid: xyz(3, 1, 1), Block: xyz(96, 1, 1),
		Args: []Arg{{Type: U8}, {Type: U8}, {Type: F32}, value(uint32(rows)), value(uint32(blocks))},
	}
	eachOrder(t, "quantised", func(t *testing.T, b *Bench) {
		got := run(t, b, c, w, x, make([]float32, rows+1))
		nan := 0
		for i := range rows {
			want := math.Float32bits(row(w[i*blocks:][:blocks], x))
			if want == 0x7fffffff {
				nan++
			}
			if g := binary.LittleEndian.Uint32(got[4*i:]); g != want {
				t.Fatalf("row %d is %v, want %v", i, math.Float32frombits(g), math.Float32frombits(want))
			}
		}
		if nan == 0 || nan == rows || binary.LittleEndian.Uint32(got[4*rows:]) != 0 {
			t.Errorf("%d of %d rows are NaN, and %x stands behind the rows", nan, rows, got[4*rows:])
		}
	})
}

// TestQuantisedBits compares products of weights in planes of bits with a reference.
func TestQuantisedBits(t *testing.T) {
	const n, vectors = 150, 5
	r := rand.New(rand.NewPCG(31, 2))
	planes, x, want := make([]uint32, 4*n), make([]int32, 32*vectors), make([]int32, n*vectors)
	for i := range planes {
		if planes[i] = r.Uint32(); r.IntN(4) == 0 {
			planes[i] = 0
		}
	}
	for i := range x {
		x[i] = r.Int32N(2001) - 1000
	}
	for v := range vectors {
		for row := range n {
			total := int32(0)
			for bit, plane := range planes[4*row:][:4] {
				if plane == 0 && bit > 1 {
					break
				}
				for i := range 32 {
					if plane>>i&1 != 0 {
						total += []int32{1, 2, 4, -8}[bit] * x[32*v+i]
					}
				}
			}
			want[v*n+row] = total
		}
	}
	c := &Case{
		Kernel: "quantised_bits", Grid: xyz(3, 1, 1), Block: xyz(64, 1, 1),
		Args: []Arg{{Type: U32}, {Type: U32}, {Type: U32}, value(uint32(n)), value(uint32(vectors))},
	}
	eachOrder(t, "quantised", func(t *testing.T, b *Bench) {
		got := run(t, b, c, planes, x, make([]int32, n*vectors))
		for i, w := range want {
			if g := int32(binary.LittleEndian.Uint32(got[4*i:])); g != w {
				t.Fatalf("product %d of row %d is %d, want %d", i/n, i%n, g, w)
			}
		}
	})
}

// limbs returns an integer of 256 bits as 32-bit words, the lowest first.
func limbs(x *big.Int) (w [8]uint32) {
	b := x.FillBytes(make([]byte, 32))
	for i := range w {
		w[i] = binary.BigEndian.Uint32(b[28-4*i:])
	}
	return w
}

// moduli are odd numbers of 256 bits, the first of them primes.
func moduli() []*big.Int {
	var all []*big.Int
	for _, text := range []string{
		"fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f", "7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffed",
		"ffffffff00000001000000000000000000000000ffffffffffffffffffffffff", "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", "f", "100000000000000000000000000000001",
	} {
		m, _ := new(big.Int).SetString(text, 16)
		all = append(all, m)
	}
	return all
}

// residues returns numbers below their modulus, which repeats every len(m) numbers.
func residues(n int, m []*big.Int) (values []*big.Int, words [][8]uint32) {
	r := rand.New(rand.NewPCG(31, 3))
	for i := range n {
		var b [32]byte
		for j := range b {
			b[j] = byte(r.Uint32())
		}
		v := new(big.Int).SetBytes(b[r.IntN(4)*8:])
		v.Mod(v, m[i%len(m)])
		values, words = append(values, v), append(words, limbs(v))
	}
	return values, words
}

func compareInverses(t *testing.T, got []byte, values, m []*big.Int) {
	t.Helper()
	none := 0
	for i, v := range values {
		want := new(big.Int).ModInverse(v, m[i%len(m)])
		if want == nil {
			want = new(big.Int)
			none++
		}
		g := slices.Clone(got[32*i:][:32])
		slices.Reverse(g)
		if new(big.Int).SetBytes(g).Cmp(want) != 0 {
			t.Fatalf("the inverse of %x modulo %x is %x, want %x", v, m[i%len(m)], g, want)
		}
	}
	if none > len(values)/2 {
		t.Errorf("%d of %d numbers have no inverse", none, len(values))
	}
}

// TestInverseBinary compares modular inverses by Euclid's algorithm with math/big.
func TestInverseBinary(t *testing.T) {
	const n = 250
	m := moduli()
	values, words := residues(n, m)
	var moduliWords [][8]uint32
	for _, x := range m {
		moduliWords = append(moduliWords, limbs(x))
	}
	c := &Case{
		Kernel: "inverse_binary", Grid: xyz(2, 1, 1), Block: xyz(64, 1, 1),
		Args: []Arg{{Type: U32}, {Type: U32}, {Type: U32}, value(uint32(n)), value(uint32(len(m)))},
	}
	eachOrder(t, "inverse", func(t *testing.T, b *Bench) {
		compareInverses(t, run(t, b, c, words, moduliWords, make([][8]uint32, n)), values, m)
	})
}

// TestInversePower compares modular inverses by Fermat's theorem with math/big.
func TestInversePower(t *testing.T) {
	const n = 96
	for _, m := range sample.Of(t, moduli()[:3], 1) {
		values, words := residues(n, []*big.Int{m})
		r := new(big.Int).Lsh(big.NewInt(1), 256)
		low := new(big.Int).Lsh(big.NewInt(1), 32)
		inv := new(big.Int).ModInverse(new(big.Int).Neg(m), low)
		one := new(big.Int).Mod(r, m)
		square := new(big.Int).Mod(new(big.Int).Mul(one, one), m)
		c := &Case{
			Kernel: "inverse_power", Grid: xyz(2, 1, 1), Block: xyz(64, 1, 1),
			Args: []Arg{{Type: U32}, {Type: U32}, value(uint32(n)), value(limbs(m)), value(limbs(one)), value(limbs(square)), value(uint32(inv.Uint64()))},
		}
		eachOrder(t, "inverse", func(t *testing.T, b *Bench) {
			compareInverses(t, run(t, b, c, words, make([][8]uint32, n)), values, []*big.Int{m})
		})
	}
}
