package convert_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/checkpoint/internal/convert"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/softgpu"
)

// openTest opens the device to test: FERRY_DEVICE, else the software GPU. With FERRY_REQUIRE_GPU=1
// it is a real GPU or a failure.
func openTest(t testing.TB) *ferry.GPU {
	t.Helper()
	name := os.Getenv(ferry.SpecVariable)
	var g *ferry.GPU
	var err error
	switch {
	case os.Getenv(gputest.RequireVariable) == "1":
		g, err = ferry.Open("cuda")
	case name != "":
		g, err = ferry.Open(name)
	default:
		d, e := softgpu.Open(softgpu.Options{Profile: gputest.H200(t), Devices: 1})
		check(t, e)
		g, err = ferry.OpenDriver(d, 0)
	}
	check(t, err)
	t.Cleanup(func() { gputest.CloseAll(t, g) })
	return g
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fixture has kernels on a GPU.
type fixture struct {
	g *ferry.GPU
	s *ferry.Stream
	k *convert.Kernels
}

func newFixture(t testing.TB, pairs ...convert.Pair) *fixture {
	t.Helper()
	g := openTest(t)
	k, err := convert.Load(g, pairs...)
	check(t, err)
	t.Cleanup(func() { gputest.CloseAll(t, k) })
	return &fixture{g, g.DefaultStream(), k}
}

// run converts pieces of in, and returns out as it is then.
func (f *fixture) run(t testing.TB, p convert.Pair, out, in []byte, pieces ...convert.Piece) []byte {
	t.Helper()
	src, err := ferry.Upload(f.g, in)
	check(t, err)
	dst, err := ferry.Upload(f.g, out)
	check(t, err)
	check(t, f.k.LaunchPieces(f.s, dst, src, p, pieces))
	got, err := ferry.Download(dst)
	check(t, err)
	gputest.CloseAll(t, src, dst)
	return got
}

// code returns the code at an index.
func code(b []byte, size, i int) uint32 {
	var word [4]byte
	copy(word[:], b[i*size:][:size])
	return binary.LittleEndian.Uint32(word[:])
}

// poison returns bytes that no conversion leaves by chance.
func poison(n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// sources returns codes of a format: all of 8 or 16 bits, edges and random ones of 32.
func sources(k convert.Kind) []byte {
	f := formats[k]
	var b []byte
	if f.width < 32 {
		for code := range 1 << f.width {
			b = append(b, binary.LittleEndian.AppendUint32(nil, uint32(code))[:f.width/8]...)
		}
		return b
	}
	for _, code := range edges() {
		b = binary.LittleEndian.AppendUint32(b, code)
	}
	n := 1_000_000
	if testing.Short() {
		n = 50_000
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range n {
		b = binary.LittleEndian.AppendUint32(b, r.Uint32())
	}
	return b
}

// edges returns floats of all exponents whose significands are at, beside and between those of
// shorter formats.
func edges() (codes []uint32) {
	for exponent := range uint32(256) {
		for _, bits := range []int{2, 3, 7, 10, 23} {
			unit := uint32(1) << (23 - bits)
			for _, kept := range []uint32{0, 1, 2, 3, 1<<bits - 2, 1<<bits - 1} {
				for _, rest := range []int64{0, 1, -1, int64(unit / 2), int64(unit/2) - 1, int64(unit/2) + 1} {
					fraction := uint32(int64(kept*unit)+rest) & (1<<23 - 1)
					codes = append(codes, exponent<<23|fraction, 1<<31|exponent<<23|fraction)
				}
			}
		}
	}
	return codes
}

// TestFloats compares each pair of floats with the definition of the formats: all codes of 8 and 16
// bits, and for floats of 32 bits all exponents with the edges of rounding, and random ones.
func TestFloats(t *testing.T) {
	for _, p := range convert.Pairs() {
		if n, _ := p.From.Block(); n > 1 {
			continue
		}
		t.Run(p.String(), func(t *testing.T) {
			f := newFixture(t, p)
			from, to := formats[p.From], formats[p.To]
			in := sources(p.From)
			n := len(in) / (from.width / 8)
			out := f.run(t, p, poison(n*to.width/8), in, convert.Piece{N: n})
			for i := range n {
				x := code(in, from.width/8, i)
				if got, want := code(out, to.width/8, i), from.convert(x, to); got != want {
					t.Fatalf("%#x (%v): got %#x, want %#x", x, number(from, x), got, want)
				}
			}
		})
	}
}

// number returns the number of a code, for messages.
func number(f format, code uint32) float64 {
	sign, code := f.split(code)
	v := f.number(code)
	switch over := f.overflow(); {
	case code == over && f.infinite:
		v = math.Inf(1)
	case code >= over:
		v = math.NaN()
	}
	if sign == 1 {
		v = -v
	}
	return v
}
