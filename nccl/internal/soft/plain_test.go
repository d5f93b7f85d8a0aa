package soft

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"sync"

	"github.com/ferrygpu/ferry/nccl/internal/backend"
)

// The reference: plain Go that knows the order of reduction from its description alone, works on one
// element at a time, and rounds to narrow formats by a search in the table of all their numbers.

// period is after how many elements the data of a rank repeats. So a part of many elements has few
// different results.
const period = 4099

// input returns what a rank gives: count elements.
func input(t backend.DataType, rank, count int) []byte {
	size := t.Size()
	type source struct {
		t    backend.DataType
		rank int
	}
	once, ok := inputs.Load(source{t, rank})
	if !ok {
		rng := rand.New(rand.NewPCG(uint64(rank)+1, uint64(t)))
		list := make([]byte, 0, period*size)
		for range period {
			list = binary.LittleEndian.AppendUint64(list, plainRandom(t, rng))[:len(list)+size]
		}
		once, _ = inputs.LoadOrStore(source{t, rank}, list)
	}
	out := make([]byte, count*size)
	for n := 0; n < len(out); {
		n += copy(out[n:], once.([]byte))
	}
	return out
}

var inputs sync.Map

// plainRandom returns the bits of a number: of any integer, and of floats from -8 to 8.
func plainRandom(t backend.DataType, rng *rand.Rand) uint64 {
	switch x := rng.Float64()*16 - 8; {
	case t <= backend.Uint64:
		return rng.Uint64()
	case t == backend.Float32:
		return uint64(math.Float32bits(float32(x)))
	case t == backend.Float64:
		return math.Float64bits(x)
	default:
		return narrow[t].round(x)
	}
}

// factor returns the factor of a rank for scaled sums.
func factor(t backend.DataType, rank int) (f [8]byte) {
	rng := rand.New(rand.NewPCG(uint64(rank)+100, uint64(t)))
	binary.LittleEndian.PutUint64(f[:], plainRandom(t, rng))
	return f
}

func load(b []byte, size, i int) uint64 {
	var w [8]byte
	copy(w[:], b[i*size:(i+1)*size])
	return binary.LittleEndian.Uint64(w[:])
}

func store(b []byte, size, i int, v uint64) {
	var w [8]byte
	binary.LittleEndian.PutUint64(w[:], v)
	copy(b[i*size:(i+1)*size], w[:])
}

// table is the numbers of a narrow format, by rising value, with their bits.
type table struct {
	values []float64 // that are not negative
	bits   int
	nan    uint64
	most   uint64 // what numbers beyond the largest become
}

var narrow = map[backend.DataType]*table{
	backend.Float16:    newTable(16, 10, 15, 0x7c00, 0x7c00),
	backend.BFloat16:   newTable(16, 7, 127, 0x7f80, 0x7f80),
	backend.Float8E4M3: newTable(8, 3, 7, 0x7f, 0x7e),
	backend.Float8E5M2: newTable(8, 2, 15, 0x7c, 0x7b),
}

// newTable lists the numbers below the bits of the first that is none.
func newTable(bits, fraction, bias int, end, most uint64) *table {
	t := &table{bits: bits, most: most, nan: 1<<(bits-1) - 1}
	for v := range end {
		e, f := int(v>>fraction), float64(v&(1<<fraction-1))/float64(uint64(1)<<fraction)
		x := math.Ldexp(1+f, e-bias)
		if e == 0 {
			x = math.Ldexp(f, 1-bias)
		}
		t.values = append(t.values, x)
	}
	return t
}

func (t *table) value(v uint64) float64 {
	sign, u := v>>(t.bits-1)&1, v&(1<<(t.bits-1)-1)
	x := math.NaN()
	switch {
	case u < uint64(len(t.values)):
		x = t.values[u]
	case u == t.most:
		x = math.Inf(1)
	}
	if sign != 0 {
		x = -x
	}
	return x
}

// round returns the bits of the nearest number, the even one of two.
func (t *table) round(x float64) uint64 {
	sign := uint64(0)
	if math.Signbit(x) {
		sign = 1 << (t.bits - 1)
	}
	x = math.Abs(x)
	last := len(t.values) - 1
	beyond := t.values[last] + (t.values[last]-t.values[last-1])/2
	switch {
	case x != x:
		return t.nan
	case x >= beyond:
		return sign | t.most
	}
	i := sort.SearchFloat64s(t.values, x)
	switch {
	case i > last:
		i = last
	case i > 0 && t.values[i] != x:
		below, above := x-t.values[i-1], t.values[i]-x
		if below < above || below == above && (i-1)%2 == 0 {
			i--
		}
	}
	return sign | uint64(i)
}

// plainOp returns x op y of one element.
func plainOp(t backend.DataType, op backend.OpCode, x, y uint64) uint64 {
	switch t {
	case backend.Int8, backend.Int32, backend.Int64:
		shift := 64 - 8*t.Size()
		a, b := int64(x<<shift)>>shift, int64(y<<shift)>>shift
		switch op {
		case backend.Prod:
			return uint64(a * b)
		case backend.Max:
			return uint64(max(a, b))
		case backend.Min:
			return uint64(min(a, b))
		}
		return uint64(a + b)
	case backend.Uint8, backend.Uint32, backend.Uint64:
		switch op {
		case backend.Prod:
			return x * y
		case backend.Max:
			return max(x, y)
		case backend.Min:
			return min(x, y)
		}
		return x + y
	case backend.Float32:
		return uint64(math.Float32bits(float32(plainFloat(op, float64(math.Float32frombits(uint32(x))), float64(math.Float32frombits(uint32(y)))))))
	case backend.Float64:
		return math.Float64bits(plainFloat(op, math.Float64frombits(x), math.Float64frombits(y)))
	}
	f := narrow[t]
	return f.round(plainFloat(op, f.value(x), f.value(y)))
}

// plainFloat computes in float64. The sum and the product of two float32 or narrower numbers,
// rounded to float64 and then to their type, are rounded as if once.
func plainFloat(op backend.OpCode, x, y float64) float64 {
	switch op {
	case backend.Prod:
		return x * y
	case backend.Max:
		return math.Max(x, y)
	case backend.Min:
		return math.Min(x, y)
	}
	return x + y
}

// plainReduce reduces one element: values of ranks in the order of reduction, each after its factor.
func plainReduce(t backend.DataType, op backend.OpCode, values []uint64, from int) uint64 {
	n := len(values)
	given := func(rank int) uint64 {
		v := values[rank]
		switch {
		case op == backend.PreMulSum:
			f := factor(t, rank)
			return cut(t, plainOp(t, backend.Prod, v, load(f[:], t.Size(), 0)))
		case op == backend.Avg && t > backend.Uint64:
			return plainOp(t, backend.Prod, v, oneOver(t, n))
		}
		return v
	}
	acc := given(from)
	for i := 1; i < n; i++ {
		acc = cut(t, plainOp(t, op, acc, given((from+i)%n)))
	}
	if op == backend.Avg && t <= backend.Uint64 {
		shift := 64 - 8*t.Size()
		if t == backend.Int8 || t == backend.Int32 || t == backend.Int64 {
			return uint64(int64(acc<<shift) >> shift / int64(n))
		}
		return acc / uint64(n)
	}
	return acc
}

// cut drops the bits above the type's.
func cut(t backend.DataType, v uint64) uint64 { return v & (^uint64(0) >> (64 - 8*t.Size())) }

func oneOver(t backend.DataType, n int) uint64 {
	x := 1 / float64(n)
	switch t {
	case backend.Float32:
		return uint64(math.Float32bits(float32(x)))
	case backend.Float64:
		return math.Float64bits(x)
	}
	return narrow[t].round(x)
}

// sendCount returns how many elements a rank reads in a call of a count.
func sendCount(c *backend.Call, n int) int {
	switch c.Kind {
	case backend.ReduceScatter, backend.AllToAll, backend.Scatter:
		return n * c.Count
	}
	return c.Count
}

// plain returns what a rank writes, nil if it writes nothing. Rank r sends to r+1 in pairs.
func plain(c *backend.Call, n, rank int) []byte {
	size := c.Type.Size()
	part := c.Count * size
	switch c.Kind {
	case backend.AllReduce:
		out := make([]byte, 0, part)
		for p := range n {
			out = append(out, plainPart(c, n, (p+1)%n, p*c.Count/n, (p+1)*c.Count/n)...)
		}
		return out
	case backend.ReduceScatter:
		return plainPart(c, n, (rank+1)%n, rank*c.Count, (rank+1)*c.Count)
	case backend.Reduce:
		if rank != c.Peer {
			return nil
		}
		return plainPart(c, n, (rank+1)%n, 0, c.Count)
	case backend.Broadcast:
		return input(c.Type, c.Peer, c.Count)
	case backend.AllGather, backend.Gather:
		if c.Kind == backend.Gather && rank != c.Peer {
			return nil
		}
		var out []byte
		for r := range n {
			out = append(out, input(c.Type, r, c.Count)...)
		}
		return out
	case backend.Scatter:
		return input(c.Type, c.Peer, n*c.Count)[rank*part : (rank+1)*part]
	case backend.AllToAll:
		var out []byte
		for r := range n {
			out = append(out, input(c.Type, r, n*c.Count)[rank*part:(rank+1)*part]...)
		}
		return out
	case backend.Recv:
		return input(c.Type, (rank+n-1)%n, c.Count)
	}
	panic(fmt.Sprint("no reference for kind ", c.Kind))
}

// plainPart reduces the elements from first to end, beginning at a rank.
func plainPart(c *backend.Call, n, from, first, end int) []byte {
	size := c.Type.Size()
	var ins [][]byte
	for r := range n {
		ins = append(ins, input(c.Type, r, min(sendCount(c, n), period)))
	}
	out, known, results := make([]byte, (end-first)*size), make([]bool, period), make([]uint64, period)
	values := make([]uint64, n)
	for i := first; i < end; i++ {
		at := i % period
		if !known[at] {
			for r := range n {
				values[r] = load(ins[r], size, at)
			}
			results[at], known[at] = plainReduce(c.Type, c.Op.Code, values, from), true
		}
		store(out, size, i-first, results[at])
	}
	return out
}
