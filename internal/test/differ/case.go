package differ

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"github.com/ferrygpu/ferry/cu"
)

// Case is one kernel and its launch.
type Case struct {
	Family      string // the source is testdata/FAMILY.cu
	Kernel      string
	Grid, Block cu.Dim3 // Y and Z may be 0, which means 1
	Shared      int     // bytes of dynamic shared memory
	Args        []Arg
	Bound       Bound
	Not         []string // targets whose PTX lacks the kernel
}

// Arg is an argument: a buffer, or a number or struct if Value is set.
type Arg struct {
	Type  Type
	N     int  // elements
	Fill  Fill // fills the buffer before the launch
	Input bool // the kernel must not change it
	Value any
}

// Bound is the tolerance for floats: an absolute difference of Abs. The zero Bound demands
// equal bits.
type Bound struct {
	Abs float64
	Why string
}

// Exact reports whether b demands equal bits.
func (b Bound) Exact() bool { return b.Abs == 0 }

// On reports whether a target's PTX has the kernel.
func (c *Case) On(target string) bool { return !slices.Contains(c.Not, target) }

// Inputs returns the contents of the buffers of c before a launch, generated from seed.
// They are nil for arguments that are values.
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

// out returns a buffer filled with a pattern that no kernel writes. Every byte is
// compared, including those that the kernel must not write.
func out(t Type, n int) Arg { return Arg{Type: t, N: n, Fill: poison} }

func x(n uint32) cu.Dim3         { return cu.Dim3{X: n, Y: 1, Z: 1} }
func xy(n, m uint32) cu.Dim3     { return cu.Dim3{X: n, Y: m, Z: 1} }
func xyz(n, m, k uint32) cu.Dim3 { return cu.Dim3{X: n, Y: m, Z: k} }
