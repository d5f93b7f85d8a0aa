package random

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/differ"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/softgpu"
)

// threads is how many threads run a program: two warps.
const threads = 64

func software(t testing.TB) cu.Driver {
	t.Helper()
	d, err := softgpu.Open(softgpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// entry returns the launch of program i of a module.
func entry(i int) *differ.Case {
	return &differ.Case{
		Kernel: fmt.Sprint("k", i), Grid: cu.Dim3{X: 1}, Block: cu.Dim3{X: threads},
		Args: []differ.Arg{{Type: differ.U64, N: threads * Record / 8, Input: true}, {Type: differ.U64, N: threads * Record / 8}},
	}
}

// programs returns the programs of n seeds, beginning with from.
func programs(from uint64, n int) []*Program {
	all := make([]*Program, n)
	for i := range all {
		all[i] = New(from + uint64(i))
	}
	return all
}

// run runs programs with the inputs of their seeds on a driver and returns their outputs.
func run(d cu.Driver, all []*Program) ([][]byte, error) {
	return runImage(d, []byte(Module(all)), all)
}

// runImage runs programs like run. image is the result of [Module], or that compiled.
func runImage(d cu.Driver, image []byte, all []*Program) ([][]byte, error) {
	b, err := differ.Open(d, image)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	out := make([][]byte, len(all))
	for i, p := range all {
		after, err := b.Run(entry(i), [][]byte{Inputs(p.Seed, threads), make([]byte, threads*Record)})
		if err != nil {
			return nil, fmt.Errorf("program %d: %w", p.Seed, err)
		}
		out[i] = after[1]
	}
	return out, nil
}

// TestShrink shrinks programs to one instruction.
func TestShrink(t *testing.T) {
	has := func(p *Program) bool { return strings.Contains(p.Text("k"), "prmt.b32") }
	found := 0
	for seed := range uint64(40) {
		p := New(seed)
		if !has(p) {
			continue
		}
		found++
		q := Shrink(p, has)
		if len(q.body) != 1 || !strings.HasPrefix(q.body[0].text, "prmt.b32") || q.body[0].guard != "" {
			t.Errorf("seed %d: not shrunk: %+v", seed, q.body)
		}
		if !has(p) {
			t.Error("the program itself was changed")
		}
	}
	if found < 3 {
		t.Errorf("only %d programs have a permutation of bytes", found)
	}
}

// TestSame checks that a seed determines a program.
func TestSame(t *testing.T) {
	first, again, other := New(5).Text("k"), New(5).Text("k"), New(6).Text("k")
	if first != again || first == other {
		t.Error("a seed does not determine the program")
	}
}

// TestTemplates runs programs with one instruction, six of each template, on the software
// GPU.
func TestTemplates(t *testing.T) {
	g := &generator{r: rand.New(rand.NewPCG(1, 1))}
	var all []*Program
	for _, template := range slices.Concat(templates, carries, pairs, together) {
		for range sample.Count(2, 6) {
			all = append(all, &Program{body: []node{{text: g.fill(template)}}})
		}
	}
	if _, err := run(software(t), all); err != nil {
		t.Error(err)
	}
}
