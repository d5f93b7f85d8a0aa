package random

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Program is a random program. Its statements can be removed one by one.
type Program struct {
	Seed uint64
	body []node
}

// node is an instruction, a branch or a loop.
type node struct {
	text        string // of an instruction
	guard       string // of an instruction, such as "@%p1 "; for a branch only the predicate
	inner, rest []node // the body of a loop or branch; the else part of a branch
	iterations  int    // of a loop
}

// generator generates nodes.
type generator struct {
	r         *rand.Rand
	templates []string
	straight  bool // no loops
	depth     int
	left      int // instructions to generate
}

// The recorded corpus has the seeds up to recordedSeeds. Programs up to firstSeeds do not get
// newer templates, so that their text stays the same.
const (
	firstSeeds    = 384
	recordedSeeds = 512
)

// New returns the program of a seed.
func New(seed uint64) *Program {
	g := &generator{r: rand.New(rand.NewPCG(seed, 11)), templates: templates}
	if seed > firstSeeds {
		g.newer()
	}
	g.left = 8 + g.r.IntN(32)
	return &Program{Seed: seed, body: g.block(true)}
}

// newer chooses among all templates. A third of the programs have many pairs.
func (g *generator) newer() {
	g.templates = slices.Concat(templates, carries)
	if g.straight = g.r.IntN(3) == 0; g.straight {
		for range 4 {
			g.templates = append(g.templates, pairs...)
		}
	}
}

// block returns a few nodes. uniform means that all threads of a warp execute them.
func (g *generator) block(uniform bool) []node {
	var all []node
	for n := 2 + g.r.IntN(5); g.left > 0 && (n > 0 || g.depth == 0); n-- {
		all = append(all, g.node(uniform))
	}
	return all
}

func (g *generator) node(uniform bool) node {
	g.left--
	if g.depth < 2 {
		switch g.r.IntN(14) {
		case 0:
			g.depth++
			defer func() { g.depth-- }()
			n := node{guard: g.predicate(), inner: g.block(false)}
			if g.r.IntN(2) == 0 {
				n.rest = g.block(false)
			}
			return n
		case 1:
			if g.straight {
				break
			}
			g.depth++
			defer func() { g.depth-- }()
			return node{iterations: 2 + g.r.IntN(3), inner: g.block(uniform)}
		}
	}
	if uniform && g.r.IntN(10) == 0 {
		return node{text: g.fill(together[g.r.IntN(len(together))])}
	}
	n := node{text: g.fill(g.templates[g.r.IntN(len(g.templates))])}
	if g.r.IntN(5) == 0 && !strings.Contains(n.text, "\n") && !unguarded(n.text) {
		n.guard = "@" + g.predicate() + " "
	}
	return n
}

// unguarded reports whether ptxas miscompiles an instruction under a predicate. See
// [Miscompiled].
func unguarded(text string) bool {
	return strings.HasPrefix(text, "testp.") || strings.HasPrefix(text, "set.") && strings.Contains(text, ".f32.s32")
}

// Miscompiled returns programs that ptxas of driver 580.159 compiles against the ISA.
// testp and set.f32.s32 write in threads whose predicate is false. The negative of -32768
// is shifted and widened as 32768. A shift of 16 bits by 2^31 or by a cnot does not shift.
// Random programs avoid these instructions.
func Miscompiled() []*Program {
	return []*Program{
		{Seed: 37, body: []node{{guard: "@%p1 ", text: "testp.number.f32 %p3, %f3;"}}},
		{Seed: 129, body: []node{{guard: "@%p0 ", text: "testp.number.f64 %p1, %g0;"}}},
		{Seed: 338, body: []node{{guard: "@%p3 ", text: "testp.normal.f32 %p1, %f4;"}}},
		{Seed: 321, body: []node{{text: "neg.s16 %h3, %h3;"}, {text: "shr.s16 %h2, %h3, 8;"}}},
		{Seed: 1753135121749376, body: []node{{text: "shr.s16 %h2, %h0, -2147483648;"}}},
		{Seed: 1753135121755255, body: []node{{text: "cnot.b32 %r5, %r5;"}, {text: "shl.b16 %h1, %h0, %r5;"}}},
		{Seed: 108, body: []node{{guard: "@%p3 ", text: "set.ne.f32.s32 %f2, %r6, %r2;"}}},
	}
}

func (g *generator) predicate() string {
	return []string{"", "!"}[g.r.IntN(2)] + fmt.Sprintf("%%p%d", g.r.IntN(4))
}

// Text returns the program as an entry of a module.
func (p *Program) Text(name string) string {
	var s strings.Builder
	fmt.Fprintf(&s, ".visible .entry %s(.param .u64 in, .param .u64 out) {\n%s", name, prologue)
	w := &writer{s: &s}
	w.nodes(p.body, 0)
	s.WriteString(epilogue)
	return s.String()
}

// writer writes nodes, with unique labels and loop counters.
type writer struct {
	s     *strings.Builder
	label int
}

func (w *writer) nodes(all []node, depth int) {
	for _, n := range all {
		switch {
		case n.text != "":
			fmt.Fprintf(w.s, "\t%s%s\n", n.guard, n.text)
		case n.iterations > 0:
			w.loop(n, depth)
		default:
			w.branch(n, depth)
		}
	}
}

func (w *writer) loop(n node, depth int) {
	w.label++
	l := w.label
	fmt.Fprintf(w.s, "\tmov.u32 %%c%d, 0;\nL%d:\n", depth, l)
	w.nodes(n.inner, depth+1)
	fmt.Fprintf(w.s, "\tadd.u32 %%c%d, %%c%d, 1;\n\tsetp.lt.u32 %%q, %%c%d, %d;\n\t@%%q bra L%d;\n", depth, depth, depth, n.iterations, l)
}

func (w *writer) branch(n node, depth int) {
	w.label += 2
	other, end := w.label-1, w.label
	negated := "!" + n.guard
	if strings.HasPrefix(n.guard, "!") {
		negated = n.guard[1:]
	}
	fmt.Fprintf(w.s, "\t@%s bra L%d;\n", negated, other)
	w.nodes(n.inner, depth+1)
	fmt.Fprintf(w.s, "\tbra L%d;\nL%d:\n", end, other)
	w.nodes(n.rest, depth+1)
	fmt.Fprintf(w.s, "L%d:\n", end)
}

// Module returns PTX with programs as entries k0, k1 and so on.
func Module(programs []*Program) string {
	var s strings.Builder
	s.WriteString(".version 8.3\n.target sm_90\n.address_size 64\n")
	for i, p := range programs {
		s.WriteString(p.Text(fmt.Sprint("k", i)))
	}
	return s.String()
}
