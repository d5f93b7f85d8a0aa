package compile_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/compile"
	"github.com/ferrygpu/ferry/internal/test/compiletest"
)

// compiled compiles a file for the software GPU, and skips without a compiler.
func compiled(t *testing.T, file string, o *compile.Options) *compile.Result {
	t.Helper()
	return compiletest.File(t, file, o)
}

// TestRuns compiles a kernel and runs it.
func TestRuns(t *testing.T) {
	r := compiled(t, "testdata/saxpy.cu", nil)
	const n = 1000
	g, err := ferry.Open("soft")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	x, y := make([]float32, n), make([]float32, n)
	for i := range x {
		x[i], y[i] = float32(i), 7
	}
	got, err := saxpy(t, g, r, x, y)
	if err != nil {
		t.Fatal(err)
	}
	for i := range y {
		y[i] += 3 * x[i]
	}
	if !slices.Equal(got, y) {
		t.Errorf("got %v, want %v", got, y)
	}
}

// saxpy returns y + 3*x for the first 1000 elements.
func saxpy(t *testing.T, g *ferry.GPU, r *compile.Result, x, y []float32) ([]float32, error) {
	t.Helper()
	m, err := ferry.Load(g, r.PTX, nil)
	if err != nil {
		t.Fatalf("%s: %v", r.Compiler, err)
	}
	k, err := m.Kernel("_Z5saxpyifPKfPf")
	if err != nil {
		t.Fatal(err)
	}
	s, err := ferry.NewStream(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	dx, err := ferry.Upload(g, x)
	if err != nil {
		t.Fatal(err)
	}
	dy, err := ferry.Upload(g, y)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Launch(k, ferry.Cover(1000, 256), int32(1000), float32(3), dx, dy); err != nil {
		t.Fatal(err)
	}
	return ferry.Download(dy)
}

// TestFaultLine demands the line of the source in the report of a fault.
func TestFaultLine(t *testing.T) {
	r := compiled(t, "testdata/saxpy.cu", &compile.Options{LineInfo: true})
	g, err := ferry.Open("soft")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	_, err = saxpy(t, g, r, make([]float32, 10), make([]float32, 1000))
	if err == nil || !strings.Contains(err.Error(), " saxpy.cu:5;") {
		t.Errorf("got %v, want it to name saxpy.cu:5", err)
	}
}
