package simt

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestCallGraph compares what is found from components with its definition, on random calls by
// name and by pointer, recursions, and functions that cannot run.
func TestCallGraph(t *testing.T) {
	rng, folded, bounded := rand.New(rand.NewPCG(1, 2)), 0, 0
	for range 300 {
		p := load(t, newSpace(), "", randomCalls(rng)).Program
		g := &callGraph{p: p, addressed: p.addressed()}
		for _, f := range p.list {
			recurses := slices.Contains(behind(g, f), f)
			if got := newCallGraph(p).recurses[f.id]; got != recurses {
				t.Fatalf("%s recurses: %v, want %v", f.name, got, recurses)
			}
			if k := p.kernels[f.name]; k != nil {
				checkReach(t, g, k)
				bounded += map[bool]int{true: 1}[k.boundedStack]
				folded += f.folded
			}
		}
	}
	if folded == 0 || bounded < 100 || bounded > 1100 {
		t.Errorf("%d bytes are folded, %d kernels are bounded: the test shows too little", folded, bounded)
	}
}

// randomCalls returns some functions and four kernels with random calls.
func randomCalls(rng *rand.Rand) string {
	var b strings.Builder
	b.WriteString(".version 8.0\n.target sm_80\n.address_size 64\n.extern .func unknown();\n")
	for i := range 12 {
		fmt.Fprintf(&b, "%s f%d() {.reg .b64 a; .local .b8 l[%d]; .shared .b8 s[%d]; mov.u64 a,l;\n", map[bool]string{true: ".entry", false: ".func"}[i >= 8], i, 8+8*rng.IntN(9), 4+i)
		for range rng.IntN(3) {
			fmt.Fprintf(&b, "call f%d;\n", min(rng.IntN(8), max(i-1, rng.IntN(30)/4)))
		}
		switch rng.IntN(16) {
		case 0:
			b.WriteString("P: .callprototype _ (); call a,(),P;\n")
		case 1, 2:
			fmt.Fprintf(&b, "mov.u64 a,f%d;\n", rng.IntN(8))
		case 3:
			b.WriteString("alloca.u64 a,16;\n")
		case 4:
			b.WriteString("call unknown;\n")
		case 5, 6:
			b.WriteString("mov.u64 a,s; bar.sync 3;\n")
		}
		b.WriteString("ret;}\n")
	}
	return b.String()
}

// behind returns what a call of f may lead to.
func behind(g *callGraph, f *function) (all []*function) {
	var visit func(f *function)
	visit = func(f *function) {
		next := f.direct
		if f.indirect {
			next = slices.Concat(next, g.addressed)
		}
		for _, c := range next {
			if !slices.Contains(all, c) {
				all = append(all, c)
				visit(c)
			}
		}
	}
	visit(f)
	return all
}

// checkReach compares what is known about a kernel with the functions that it reaches.
func checkReach(t *testing.T, g *callGraph, k *Kernel) {
	t.Helper()
	bounded := true
	for _, f := range append(behind(g, k.fn), k.fn) {
		bounded = bounded && !f.alloca && !slices.Contains(behind(g, f), f)
	}
	if k.boundedStack != bounded {
		t.Errorf("%s is bounded: %v, want %v", k.Name, k.boundedStack, bounded)
	}
	var chain func(f *function) int
	chain = func(f *function) (most int) {
		for _, c := range f.direct {
			if !slices.Contains(behind(g, c), c) {
				most = max(most, c.findStack()+chain(c))
			}
		}
		return most
	}
	if want := chain(k.fn); !bounded && k.fn.folded != want {
		t.Errorf("%s: %d bytes are folded, want %d", k.Name, k.fn.folded, want)
	}
	barriers, shared, bad := 0, 0, false
	for _, f := range reachable(k.fn) {
		barriers, bad = max(barriers, f.barriers), bad || len(f.bad) > 0
		if len(f.shared) > 0 {
			shared++
		}
	}
	if k.Barriers != barriers || len(k.shared) != shared || (k.Unsupported != nil) != bad {
		t.Errorf("%s: %d barriers, %d shared variables, %v; want %d, %d, an error %v", k.Name, k.Barriers, len(k.shared), k.Unsupported, barriers, shared, bad)
	}
}
