package simt

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"sort"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/ptx"
)

// space is an address space for tests: segments with gaps between them.
type space struct {
	segs []*Segment
	next uint64
}

func newSpace() *space { return &space{next: 1 << 48} }

func (s *space) Find(addr uint64) *Segment {
	i := sort.Search(len(s.segs), func(i int) bool { return s.segs[i].Base > addr })
	if i == 0 {
		return nil
	}
	if g := s.segs[i-1]; addr-g.Base < uint64(len(g.Data)) {
		return g
	}
	return nil
}

// alloc gives data an address. Its counter is 0.
func (s *space) alloc(data []byte) *Segment {
	g := &Segment{Base: s.next, Data: data}
	s.next += uint64(alignUp(len(data)+4096, 4096))
	s.segs = append(s.segs, g)
	return g
}

// bytesOf returns a slice of numbers as bytes in memory.
func bytesOf(v any) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, v)
	if err != nil {
		panic(err)
	}
	return b
}

func valuesOf[T any](b []byte) []T {
	var one T
	out := make([]T, len(b)/binary.Size(one))
	if _, err := binary.Decode(b, binary.LittleEndian, out); err != nil {
		panic(err)
	}
	return out
}

// put allocates a buffer that holds the numbers.
func put[T any](s *space, v []T) *Segment { return s.alloc(bytesOf(v)) }

// module is a linked program with its variables.
type module struct {
	*Program
	vars map[string]*Segment
	mem  *space
}

// load parses and links PTX, and allocates its variables.
func load(t testing.TB, mem *space, file, source string) *module {
	t.Helper()
	m, err := ptx.Parse(file, source)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	mod := &module{vars: map[string]*Segment{}, mem: mem}
	for _, v := range m.Vars {
		if v.Space == ptx.GlobalSpace || v.Space == ptx.ConstSpace {
			data := make([]byte, alignUp(max(v.Size(), 1), 16))
			copy(data, v.Init)
			mod.vars[v.Name] = mem.alloc(data)
		}
	}
	addr := func(name string) (uint64, bool) {
		if g := mod.vars[name]; g != nil {
			return g.Base, true
		}
		return 0, false
	}
	for _, v := range m.Vars {
		for _, r := range v.Relocs {
			a, _ := addr(r.Symbol)
			storeBytes(mod.vars[v.Name].Data[r.Offset:][:r.Size], a+uint64(r.Addend))
		}
	}
	if mod.Program, err = Link(m, addr); err != nil {
		t.Fatal(err)
	}
	return mod
}

func loadFile(t testing.TB, mem *space, name string) *module {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return load(t, mem, name, string(b))
}

// launch returns a launch of a kernel of the module.
func (m *module) launch(t testing.TB, kernel string, grid, block int, args ...any) *Launch {
	t.Helper()
	k := m.Kernel(kernel)
	if k == nil {
		t.Fatalf("no kernel %s", kernel)
	}
	return &Launch{
		Kernel: k, Grid: cu.Dim3{X: uint32(grid), Y: 1, Z: 1}, Block: cu.Dim3{X: uint32(block), Y: 1, Z: 1},
		Params: pack(t, k, args), Memory: m.mem, Counters: 1,
	}
}

func pack(t testing.TB, k *Kernel, args []any) []byte {
	t.Helper()
	if len(args) != len(k.Params) {
		t.Fatalf("kernel %s takes %d arguments, %d given", k.Name, len(k.Params), len(args))
	}
	out := make([]byte, k.ParamBytes)
	for i, a := range args {
		var b []byte
		switch a := a.(type) {
		case *Segment:
			b = bytesOf([]uint64{a.Base})
		case int:
			b = bytesOf([]int32{int32(a)})
		case []byte:
			b = a
		default:
			var err error
			if b, err = binary.Append(nil, binary.LittleEndian, a); err != nil {
				t.Fatal(err)
			}
		}
		if len(b) != k.Params[i].Size {
			t.Fatalf("argument %d has %d bytes, the parameter %d", i, len(b), k.Params[i].Size)
		}
		copy(out[k.Params[i].Offset:], b)
	}
	return out
}

// mustRun runs a launch that must succeed.
func mustRun(t testing.TB, l *Launch) Stats {
	t.Helper()
	s, err := Run(context.Background(), l)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mustFault runs a launch that must fault.
func mustFault(t testing.TB, l *Launch) *cu.Fault {
	t.Helper()
	_, err := Run(context.Background(), l)
	f, ok := errors.AsType[*cu.Fault](err)
	if !ok {
		t.Fatalf("got error %v, want a fault", err)
	}
	return f
}

// corpora are the outputs of the compilers for corpus.cu.
var corpora = []string{"corpus_nvcc.ptx", "corpus_clang.ptx"}

// eachCorpus runs a test on the output of every compiler, with uniform and affine
// registers and without them.
func eachCorpus(t *testing.T, f func(t *testing.T, m *module)) {
	for _, file := range corpora {
		for _, lanewise := range []bool{false, true} {
			name := file
			if lanewise {
				name += "/lanewise"
			}
			t.Run(name, func(t *testing.T) {
				lanewiseForTests.Store(lanewise)
				defer lanewiseForTests.Store(false)
				f(t, loadFile(t, newSpace(), file))
			})
		}
	}
}

// same32 compares floats by their bits. Every NaN equals every other NaN.
func same32(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}
