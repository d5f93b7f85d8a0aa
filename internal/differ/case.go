package differ

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"github.com/ferrygpu/ferry/cu"
)

// Case is one kernel and how it is launched.
type Case struct {
	Family      string // testdata/FAMILY.cu has it
	Kernel      string
	Grid, Block cu.Dim3 // Y and Z may be 0 for 1
	Shared      int     // bytes of dynamic shared memory
	Args        []Arg
	Bound       Bound
	Bounds      map[string]Bound // by target, where it is another one
	Not         []string         // targets whose PTX lacks the kernel
}

// Arg is an argument: a buffer, or where Value is set, a number or struct.
type Arg struct {
	Type  Type
	N     int  // elements
	Fill  Fill // what the buffer holds before the launch
	Input bool // not compared
	Value any
}

// Bound says how far floats may differ: ULP units in the last place, or Abs. The
// zero Bound is bit for bit.
type Bound struct {
	ULP, Abs float64
	Why      string
}

// Exact says whether b allows nothing.
func (b Bound) Exact() bool { return b.ULP == 0 && b.Abs == 0 }

// String is the bound in words.
func (b Bound) String() string {
	switch {
	case b.Exact():
		return "bit for bit"
	case b.Abs == 0:
		return fmt.Sprintf("%v ulp", b.ULP)
	case b.ULP == 0:
		return fmt.Sprintf("%v", b.Abs)
	}
	return fmt.Sprintf("%v ulp or %v", b.ULP, b.Abs)
}

// On says whether a target's PTX has the kernel.
func (c *Case) On(target string) bool { return !slices.Contains(c.Not, target) }

// BoundOn is the bound for a target's PTX.
func (c *Case) BoundOn(target string) Bound {
	if b, ok := c.Bounds[target]; ok {
		return b
	}
	return c.Bound
}

// Inputs is what the buffers of c hold before a launch, made from seed: nil for
// arguments that are values.
func (c *Case) Inputs(seed uint64) [][]byte {
	all := make([][]byte, len(c.Args))
	for i, a := range c.Args {
		if a.Value != nil {
			continue
		}
		h := fnv.New64a()
		fmt.Fprint(h, c.Kernel, i)
		all[i] = make([]byte, a.N*a.Type.Size())
		a.Fill(rand.New(rand.NewPCG(seed, h.Sum64())), all[i])
	}
	return all
}

func in(t Type, n int, f Fill) Arg    { return Arg{Type: t, N: n, Fill: f, Input: true} }
func inout(t Type, n int, f Fill) Arg { return Arg{Type: t, N: n, Fill: f} }
func value(v any) Arg                 { return Arg{Value: v} }

// out is a buffer that holds what no kernel writes: every byte is compared, those
// that must not be touched too.
func out(t Type, n int) Arg { return Arg{Type: t, N: n, Fill: poison} }

func x(n uint32) cu.Dim3         { return cu.Dim3{X: n, Y: 1, Z: 1} }
func xy(n, m uint32) cu.Dim3     { return cu.Dim3{X: n, Y: m, Z: 1} }
func xyz(n, m, k uint32) cu.Dim3 { return cu.Dim3{X: n, Y: m, Z: k} }
