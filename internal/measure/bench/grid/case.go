package grid

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
)

// Case is one operation at one size.
type Case struct {
	Kind string `json:"kind"` // one of [Kinds]
	Size int    `json:"size"` // in bytes, or in the unit of the kind
}

// String returns the case's name, such as "copy pinned in/4096".
func (c Case) String() string { return fmt.Sprintf("%s/%d", c.Kind, c.Size) }

// Test reports whether the case is for tests. Profiles are fitted to the other half of the
// cases only. The result depends on the name alone: the oldest one of a kind with several.
func (c Case) Test() bool {
	if older, ok := olderNames[c.Kind]; ok {
		c.Kind = older
	}
	h := fnv.New32a()
	h.Write([]byte(c.String()))
	x := h.Sum32()
	return (x^x>>15)*0x9e3779b1>>31 == 1
}

// Quick reports whether the case belongs to a quick measurement. It has up to five sizes of
// each kind, and no case that takes long.
func (c Case) Quick() bool {
	k := kindOf(c)
	if !strings.HasPrefix(k.unit, "bytes") {
		return c.Kind != "kernel computes" || c.Size <= 256
	}
	largest := min(16*mib, slices.Max(k.sizes))
	switch c.Size {
	case 4 * kib, 32 * kib, 256 * kib, 2 * mib, largest:
		return c.Size <= largest
	}
	return false
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

// Info describes a kind.
type Info struct {
	Kind   string `json:"kind"`
	Family string `json:"family,omitempty"` // of patterns
	Unit   string `json:"unit"`             // of the sizes
	Sizes  []int  `json:"sizes"`
	Quick  []int  `json:"quick"` // the sizes of a quick measurement
}

// About describes the kinds of a set, in the order of the table.
func (s Set) About() (out []Info) {
	for _, k := range s.kinds() {
		i := Info{Kind: k.name, Family: Case{k.name, k.sizes[0]}.Family(), Unit: k.unit, Sizes: k.sizes, Quick: []int{}}
		for _, n := range k.sizes {
			if (Case{k.name, n}).Quick() {
				i.Quick = append(i.Quick, n)
			}
		}
		out = append(out, i)
	}
	return out
}

// Unit returns the unit of the case's size, such as "bytes".
func (c Case) Unit() string { return kindOf(c).unit }

// SizeText returns the size as text, such as "4 Ki".
func (c Case) SizeText() string { return size(c.Size, kindOf(c).unit) }

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
