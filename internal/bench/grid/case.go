package grid

import (
	"fmt"
	"hash/fnv"
	"slices"
)

// Case is one operation at one size.
type Case struct {
	Kind string `json:"kind"` // one of [Kinds]
	Size int    `json:"size"` // in bytes, or in what the kind counts
}

// String is the case's name, "copy pinned in/4096".
func (c Case) String() string { return fmt.Sprintf("%s/%d", c.Kind, c.Size) }

// Test says which half of the cases c is in: true is the half that profiles are
// tested on and never fitted to. It depends on the name alone.
func (c Case) Test() bool {
	h := fnv.New32a()
	h.Write([]byte(c.String()))
	x := h.Sum32()
	return (x^x>>15)*0x9e3779b1>>31 == 1
}

// kind is what there is to measure of one kind.
type kind struct {
	name     string
	unit     string // of its size
	min, max int    // sizes, from one power of two to another
	make     func(r *rig, size int) (trial, error)
}

// trial is one case, ready to run.
type trial struct {
	prepare func() error // before each sample, not timed; nil for nothing
	step    func() error // timed
	after   func() error // after each sample, not timed; nil for nothing
}

func (k *kind) sizes() (out []int) {
	for n := k.min; n <= k.max; n *= 2 {
		out = append(out, n)
	}
	return out
}

// kinds are all, in the order of the table.
var kinds = slices.Concat(copyKinds, kernelKinds, callKinds, ownKinds, managedKinds)

// Kinds are the names of all kinds, in the order of the table.
func Kinds() (out []string) {
	for _, k := range kinds {
		out = append(out, k.name)
	}
	return out
}

// Cases are all cases.
func Cases() (out []Case) {
	for _, k := range kinds {
		for _, n := range k.sizes() {
			out = append(out, Case{k.name, n})
		}
	}
	return out
}

// Sizes in bytes.
const (
	kib = 1 << 10
	mib = 1 << 20
)
