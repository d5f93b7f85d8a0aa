package mathtest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/ferrygpu/ferry/compile"
)

// TestCompile compiles the test kernels with the present header, and compares their results
// with those of the committed PTX. With -update it writes the PTX.
func TestCompile(t *testing.T) {
	r, err := compile.Source(context.Background(), "math.cu", kernelSource(), nil)
	if _, missing := errors.AsType[*compile.NotFoundError](err); missing {
		t.Skip(err)
	}
	if err != nil {
		if e, ok := errors.AsType[*compile.Error](err); ok {
			t.Fatal(e.Log)
		}
		t.Fatal(err)
	}
	if *update {
		writePTX(t, r.PTX)
		return
	}
	same(t, newSoft(t, committedPTX(t)), newSoft(t, r.PTX), func(*function, *kind) bool { return true }, "go test -run 'TestCompile|TestAccuracy|TestDocs' -update")
}

// same compares all results of two devices.
func same(t *testing.T, want, got *device, both func(*function, *kind) bool, cure string) {
	t.Helper()
	for i := range functions {
		for _, k := range kinds {
			f := &functions[i]
			if !both(f, k) {
				continue
			}
			args := arguments(f, k, 100)
			w, err := want.run(f, k, args)
			if err != nil {
				t.Fatal(err)
			}
			g, err := got.run(f, k, args)
			if err != nil {
				t.Fatal(err)
			}
			if slices.Equal(w, g) {
				continue
			}
			for j := range w {
				if w[j] != g[j] {
					t.Errorf("%s(%v, %v, %v) = %#x, want %#x; %s", kernelName(f, k), args[0][j], args[1][j], args[2][j], g[j], w[j], cure)
					break
				}
			}
		}
	}
}
