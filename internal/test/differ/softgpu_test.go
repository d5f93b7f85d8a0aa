package differ

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// targets returns the targets for which a family has PTX.
func targets(t testing.TB, family string) []string {
	files, err := filepath.Glob(filepath.Join("testdata", "ptx", family+".*.ptx"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no PTX of family %s: %v", family, err)
	}
	for i, f := range files {
		files[i] = strings.Split(filepath.Base(f), ".")[1]
	}
	if testing.Short() {
		files = slices.DeleteFunc(files, func(target string) bool { return target != "sm_90" && target != "clang" })
	}
	return slices.Sorted(slices.Values(files))
}

func source(t testing.TB, family, target string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "ptx", family+"."+target+".ptx"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func software(t testing.TB) cu.Driver {
	t.Helper()
	d, err := softgpu.Open(softgpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// bench opens a Bench and closes it when the test ends.
func bench(t testing.TB, d cu.Driver, ptx []byte) *Bench {
	t.Helper()
	b, err := Open(d, ptx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// eachModule runs a test for each family and target.
func eachModule(t *testing.T, f func(t *testing.T, family, target string)) {
	for _, family := range Families() {
		for _, target := range targets(t, family) {
			t.Run(family+"/"+target, func(t *testing.T) {
				t.Parallel()
				f(t, family, target)
			})
		}
	}
}

// TestAssert checks that a failed assertion ends the kernel with CUDA_ERROR_ASSERT.
func TestAssert(t *testing.T) {
	for _, target := range targets(t, "print") {
		d := software(t)
		b, err := Open(d, source(t, "print", target))
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(Cases, func(c Case) bool { return c.Kernel == "print_assert" })
		c := Cases[i]
		c.Args = slices.Clone(c.Args)
		c.Args[2] = value(uint32(1))
		_, err = b.Run(&c, c.Inputs(1))
		if !errors.Is(err, cu.ErrorAssert) {
			t.Errorf("%s: got %v, want CUDA_ERROR_ASSERT", target, err)
		}
		if err := b.Close(); err == nil {
			t.Errorf("%s: Close returned no error after a failed assertion", target)
		}
	}
}
