package compile_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/compile"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/compiletest"
)

// integers are the managed variables of testdata/managed.cu that are integers or arrays of these,
// with their initial values. Pairs of a structure stand apart.
var integers = map[string][]int32{
	"counter": {5}, "without": {0}, "list": {1, 2, 3, 0}, "_ZL5limit": {6}, "_ZL4seen": {0}, "_ZN12_GLOBAL__N_16hiddenE": {10},
	"_ZN5space4gridE": make([]int32, 20), "_Z5valueIiE": {7}, "_ZN6HolderIiE4heldE": {8}, "shared": {9},
}

// pair is Pair of testdata/managed.h.
type pair struct {
	First  int32
	_      int32
	Second float64
}

// managedModule loads testdata/managed.cu, compiled by clang, on the software GPU.
func managedModule(t *testing.T, clang string) (*ferry.Stream, *ferry.Module) {
	t.Helper()
	const name = "testdata/managed.cu"
	source, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	r := compiletest.Compile(t, name, string(source), &compile.Options{Compiler: clang})
	if len(r.Warnings) > 0 || r.Log != "" {
		t.Errorf("warnings %v, log %q", r.Warnings, r.Log)
	}
	g, err := ferry.Open("soft")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	s, err := ferry.NewStream(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := ferry.Load(g, r.PTX, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s, m
}

// managed returns a managed variable, or fails the test.
func managed[T any](t *testing.T, m *ferry.Module, name string) *ferry.Managed[T] {
	t.Helper()
	v, err := ferry.ManagedGlobal[T](m, name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestManagedVariables uses the managed variables of a source from Go and from a kernel: each has its
// initial value, the kernel reads what Go wrote, and Go reads what the kernel wrote.
func TestManagedVariables(t *testing.T) {
	for _, path := range compiletest.Clangs(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			s, m := managedModule(t, path)
			want := writeManaged(t, m)
			checkManagedKernel(t, s, m, want)
			checkOtherVariables(t, m)
		})
	}
}

// writeManaged checks the initial values, writes others, and returns the sum that the kernel is to find.
func writeManaged(t *testing.T, m *ferry.Module) (sum int32) {
	t.Helper()
	for name, initial := range integers {
		v := managed[int32](t, m, name)
		if !slices.Equal(v.Slice(), initial) {
			t.Errorf("%s is %v at first, want %v", name, v.Slice(), initial)
		}
		for i := range v.Slice() {
			v.Slice()[i] = rand.Int32N(1 << 20)
		}
	}
	p := &managed[pair](t, m, "_ZN5space4pairE").Slice()[0]
	if p.First != 1 || p.Second != 2.5 {
		t.Errorf("the structure is %v at first", *p)
	}
	p.First, p.Second = 1000, 3.25
	for _, name := range []string{"counter", "counter", "without", "_ZL5limit", "_ZN12_GLOBAL__N_16hiddenE", "_Z5valueIiE", "_ZN6HolderIiE4heldE", "shared", "list"} {
		sum += managed[int32](t, m, name).Slice()[0]
	}
	list, grid := managed[int32](t, m, "list").Slice(), managed[int32](t, m, "_ZN5space4gridE").Slice()
	return sum + list[3] + grid[2*5+3] + 1000 + 11 // that of __managed_not
}

// checkManagedKernel launches the kernel and checks what it wrote.
func checkManagedKernel(t *testing.T, s *ferry.Stream, m *ferry.Module, want int32) {
	t.Helper()
	sum, err := ferry.Alloc[int32](s.GPU(), 1)
	if err != nil {
		t.Fatal(err)
	}
	k, err := m.Kernel("use")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Launch(k, ferry.Cover(1, 1), sum); err != nil {
		t.Fatal(err)
	}
	seen := managed[int32](t, m, "_ZL4seen").Slice()[0]
	if got, err := ferry.Download(sum); err != nil || got[0] != want || seen != want {
		t.Errorf("the kernel's sum is %v and %d, want %d (%v)", got, seen, want, err)
	}
	got, list, without := managed[pair](t, m, "_ZN5space4pairE").Slice()[0], managed[int32](t, m, "list").Slice(), managed[int32](t, m, "without").Slice()
	if got.First != 1000 || got.Second != 6.5 || list[1] != without[0] {
		t.Errorf("the kernel left %v and %v, want the second double and %d", got, list, without[0])
	}
}

// checkOtherVariables: a pointer to a managed variable is managed itself and leads there. A variable of
// the device is not managed.
func checkOtherVariables(t *testing.T, m *ferry.Module) {
	t.Helper()
	leads, counter := managed[cu.DevicePtr](t, m, "_ZN5space5leadsE").Slice()[0], managed[int32](t, m, "counter").Pointer()
	if leads != counter {
		t.Errorf("the pointer has %#x, counter is at %#x", leads, counter)
	}
	_, err := ferry.ManagedGlobal[int32](m, "__managed_not")
	if !errors.Is(err, cu.ErrorInvalidValue) || !strings.Contains(err.Error(), "is not managed: use Global") {
		t.Errorf("got %v", err)
	}
}
