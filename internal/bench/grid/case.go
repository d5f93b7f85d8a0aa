package grid

import (
	"fmt"
	"hash/fnv"
	"slices"
)

// Case is one operation at one size.
type Case struct {
	Kind string `json:"kind"` // one of [Kinds]
	Size int    `json:"size"` // in bytes, or in the unit of the kind
}

// String returns the case's name, such as "copy pinned in/4096".
func (c Case) String() string { return fmt.Sprintf("%s/%d", c.Kind, c.Size) }

// Test reports whether the case is for tests. Profiles are fitted to the other half of the
// cases only. The result depends on the name alone.
func (c Case) Test() bool {
	h := fnv.New32a()
	h.Write([]byte(c.String()))
	x := h.Sum32()
	return (x^x>>15)*0x9e3779b1>>31 == 1
}

// kind is one kind of operation.
type kind struct {
	name     string
	unit     string // of the size
	min, max int    // sizes are the powers of two from min to max
	make     func(r *rig, size int) (trial, error)
}

// trial is a case that is ready to run.
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

// kinds are all kinds, in the order of the table.
var kinds = slices.Concat(copyKinds, kernelKinds, callKinds, ownKinds, managedKinds)

// Kinds returns the names of all kinds, in the order of the table.
func Kinds() (out []string) {
	for _, k := range kinds {
		out = append(out, k.name)
	}
	return out
}

// Cases returns all cases.
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
