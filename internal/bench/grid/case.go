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
	name  string
	unit  string // of the size
	sizes []int
	make  func(r *rig, size int) (trial, error)
}

// trial is a case that is ready to run.
type trial struct {
	prepare func() error // before each sample, not timed; nil for nothing
	step    func() error // timed
	after   func() error // after each sample, not timed; nil for nothing
	// events is whether the time is that between two events of the rig's stream, one
	// before and one after what step submits. Otherwise it is the time of step.
	events bool
}

// powers returns the powers of two from least to most.
func powers(least, most int) (out []int) {
	for n := least; n <= most; n *= 2 {
		out = append(out, n)
	}
	return out
}

// operations are the kinds of single operations, in the order of the table.
var operations = slices.Concat(copyKinds, kernelKinds, callKinds, ownKinds, managedKinds)

// Set is a set of kinds.
type Set int

// The sets of kinds.
const (
	Operations Set = iota // one operation at many sizes
	Patterns              // patterns of use, in families; their shape matters more than their size
)

func (s Set) kinds() []kind {
	if s == Patterns {
		return patterns
	}
	return operations
}

// Kinds returns the names of all kinds of a set, in the order of the table.
func (s Set) Kinds() (out []string) {
	for _, k := range s.kinds() {
		out = append(out, k.name)
	}
	return out
}

// Cases returns all cases of a set.
func (s Set) Cases() (out []Case) {
	for _, k := range s.kinds() {
		for _, n := range k.sizes {
			out = append(out, Case{k.name, n})
		}
	}
	return out
}

// allCases returns the cases of all sets.
func allCases() []Case { return append(Operations.Cases(), Patterns.Cases()...) }

// Sizes in bytes.
const (
	kib = 1 << 10
	mib = 1 << 20
)
