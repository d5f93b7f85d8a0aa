package hostmap

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// depth returns the depth of a tree, and checks its order, its heap and its ends.
func depth(t *testing.T, p *part) int {
	t.Helper()
	if p == nil {
		return 0
	}
	furthest := p.end
	for _, child := range []*part{p.left, p.right} {
		if child != nil {
			furthest = max(furthest, child.furthest)
			if child.priority > p.priority || child.before(p) != (child == p.left) {
				t.Fatal("a child is on the wrong side of its parent, or above it")
			}
		}
	}
	if p.furthest != furthest {
		t.Fatalf("the furthest end is %d, want %d", p.furthest, furthest)
	}
	return 1 + max(depth(t, p.left), depth(t, p.right))
}

// TestParts compares the tree with a list, while parts come and go.
func TestParts(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 2))
	var s parts
	var all []*part
	for range 3000 {
		start := random.Uint64N(1000)
		end := start + 1 + random.Uint64N(50)
		if len(all) > 0 && random.IntN(3) == 0 {
			i := random.IntN(len(all))
			s.release(all[i])
			if all[i].entries == 0 {
				all = slices.Delete(all, i, i+1)
			}
		} else {
			all = append(all, s.add(ownerOf(start, end), 1+random.IntN(2)))
		}
		var got, want []*part
		s.visit(start, end, func(p *part) { got = append(got, p) })
		for _, p := range all {
			if p.start < end && start < p.end {
				want = append(want, p)
			}
		}
		slices.SortFunc(want, func(a, b *part) int {
			if a.before(b) {
				return -1
			}
			return 1
		})
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %d parts share bytes with %d-%d, want %d", seed, len(got), start, end, len(want))
		}
	}
	if d := depth(t, s.root); d > 60 {
		t.Errorf("seed %d: %d parts have a depth of %d", seed, len(all), d)
	}
}

// overlapping registers n ranges that all overlap, each with one more byte than the one before
// it, or n ranges apart, and releases them in an order. It returns the steps of the Map.
func overlapping(t *testing.T, n int, apart bool, order func(n int) []int) int {
	t.Helper()
	m := new(Map)
	owners, entries := make([]*Owner, n), make([][]*Entry, n)
	for i := range owners {
		start, end := uint64(i), uint64(i+3000)
		if apart {
			start, end = uint64(4*i), uint64(4*i+3)
		}
		owners[i] = ownerOf(start, end)
		all, fresh, err := m.Claim(claim(owners[i]))
		if err != nil || len(fresh) != 1 {
			t.Fatalf("%d fresh entries, %v", len(fresh), err)
		}
		m.Finish(fresh[0], false)
		entries[i] = all
	}
	for _, i := range order(n) {
		for _, e := range entries[i] {
			last, err := m.Release(e, owners[i], nil)
			if err != nil {
				t.Fatal(err)
			}
			if last {
				m.Finish(e, true)
			}
		}
	}
	if len(m.entries) != 0 || m.parts.root != nil || m.changes != 0 {
		t.Errorf("%d entries and some owners are left, %d changes", len(m.entries), m.changes)
	}
	return m.steps
}

// TestOverlappingSteps: to register and to release a buffer, the Map looks at each of its
// entries a few times, and not at all owners of each entry. Buffers that share nothing cost a
// few steps each.
func TestOverlappingSteps(t *testing.T) {
	orders := map[string]func(n int) []int{
		"as registered": func(n int) []int {
			all := make([]int, n)
			for i := range all {
				all[i] = i
			}
			return all
		},
		"the other way round": func(n int) []int {
			all := make([]int, n)
			for i := range all {
				all[i] = n - 1 - i
			}
			return all
		},
		"any order": rand.Perm,
	}
	for name, order := range orders {
		const n = 500
		if entries, got := n*(n+1)/2, overlapping(t, n, false, order); got > 3*entries {
			t.Errorf("%s: %d steps for %d buffers that overlap and have %d entries in all", name, got, n, entries)
		}
		if got := overlapping(t, 2*n, true, order); got > 3*2*n {
			t.Errorf("%s: %d steps for %d buffers apart", name, got, 2*n)
		}
	}
}
