package mathtest

import (
	"math"
	"math/big"
	"math/rand/v2"
)

// kind is a type of floating-point numbers.
type kind struct {
	name, suffix string
	size         int
	digits, emin int // bits of the significand, exponent of the least normal number
	most         float64
}

var kinds = []*kind{
	{"float", "f", 32, 24, -126, math.MaxFloat32},
	{"double", "", 64, 53, -1022, math.MaxFloat64},
}

// nearest returns the nearest number of the type.
func (t *kind) nearest(x float64) float64 {
	if t.size == 32 {
		return float64(float32(x))
	}
	return x
}

// round returns the nearest number of the type.
func (t *kind) round(x *big.Float) float64 {
	if t.size == 32 {
		f, _ := x.Float32()
		return float64(f)
	}
	f, _ := x.Float64()
	return f
}

func (t *kind) bits(x float64) uint64 {
	if t.size == 32 {
		return uint64(math.Float32bits(float32(x)))
	}
	return math.Float64bits(x)
}

func (t *kind) from(bits uint64) float64 {
	if t.size == 32 {
		return float64(math.Float32frombits(uint32(bits)))
	}
	return math.Float64frombits(bits)
}

// around returns x and its neighbours, and the same with the other sign.
func (t *kind) around(x float64) []float64 {
	i := t.bits(math.Abs(x))
	var all []float64
	for _, v := range []float64{t.from(i), t.from(i + 1), t.from(max(i, 1) - 1)} {
		all = append(all, v, -v)
	}
	return all
}

// edges returns the special arguments.
func (t *kind) edges() []float64 {
	all := []float64{math.Inf(1), math.Inf(-1), math.NaN()}
	for _, e := range []int{t.emin - t.digits + 1, t.emin - 1, t.emin, -t.digits - 1, -t.digits, -t.digits / 2, -10, -2, -1, 0, 1, 2, 3, 4, 5, 10, 16, 23, 24, 30, 31, 52, 53, 63, 64, 100, -t.emin + 1} {
		all = append(all, t.around(math.Ldexp(1, e))...)
	}
	all = append(all, t.around(t.most)...)
	all = append(all, t.around(0)...)
	for i := 1; i <= 12; i++ {
		all = append(all, t.around(float64(i)*math.Pi/4)...)
		all = append(all, t.around(float64(i)/2)...)
	}
	// Borders of overflow and underflow of exponentials, of gamma, and of the reductions.
	for _, x := range []float64{
		math.Ln2 / 2, math.Sqrt2, math.Sqrt(0.5), 0.55, 0.75, 0.25, 1.75, 10, 20, 22, 27, 28, 40,
		88.72284, 89.41599, 87.33655, 103.97208, 709.782712893384, 710.4758600739439, 745.1332191019411, 708.3964185322641,
		38.53184, 44.8535, 308.25471555991675, 323.3062153431158, 128, 149, 150, 1024, 1074, 1075,
		34.04, 35.04010, 171.62437695630272, 170.5, 178.5, 184.5, 42.5, 26.543258430632299, 9.19455, 14.2, 37.5, 38.5,
		65536.5, 105615, 1e9, 1e10, 1e22, 6381956970095103 * math.Pow(2, 797), 5.3e-315, 1.4e-45,
		16367173 * math.Pow(2, 72), 2.35619449, 1.46163214497, 2.4570247382208006, 1e-20, 1e20, 1e38, 1e300, 2.57e305,
	} {
		all = append(all, t.around(t.nearest(x))...)
	}
	return all
}

// random returns an argument of one of several distributions.
func (t *kind) random(r *rand.Rand, low, high float64) float64 {
	switch r.IntN(8) {
	case 0: // near a multiple of pi/2
		x := math.Pi / 2 * float64(r.Int64N(2<<r.IntN(50)))
		if low < 0 && r.IntN(2) == 0 {
			x = -x
		}
		return t.nearest(x)
	case 1, 2: // any bits
		return t.from(r.Uint64() >> (64 - t.size))
	case 3, 4: // any exponent near 1
		x := math.Ldexp(1+r.Float64(), r.IntN(40)-30)
		if r.IntN(2) == 0 && low < 0 {
			x = -x
		}
		return t.nearest(x)
	default:
		return t.nearest(low + (high-low)*r.Float64())
	}
}

// arguments returns the arguments of a function, a slice for each parameter: the edges, in
// pairs where there are several parameters, and then random ones.
func arguments(f *function, t *kind, points int) [][]float64 {
	r := rand.New(rand.NewPCG(uint64(t.size), 1))
	edges := t.edges()
	args := make([][]float64, 3)
	add := func(x, y, z float64) {
		for i, v := range []float64{x, y, z} {
			args[i] = append(args[i], v)
		}
	}
	for i, x := range edges {
		if f.args == 1 {
			add(x, x, x)
			continue
		}
		for range 3 {
			add(x, edges[r.IntN(len(edges))], edges[r.IntN(len(edges))])
		}
		if i < 3 { // NaN and infinities with all
			for _, y := range edges {
				add(x, y, 1)
				add(y, x, 2)
			}
		}
	}
	for range points {
		x, y, z := t.random(r, f.low, f.high), t.random(r, f.low, f.high), t.random(r, f.low, f.high)
		if f.args == 2 && r.IntN(8) == 0 {
			y = x
		}
		add(x, y, z)
	}
	return args
}
