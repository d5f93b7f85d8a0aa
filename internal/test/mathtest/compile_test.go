package mathtest

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/compiletest"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

// TestCompile compiles the test kernels with the present header, and compares their results
// with those of the committed PTX. With -update it writes the PTX.
func TestCompile(t *testing.T) {
	r := compiletest.Compile(t, "math.cu", string(kernelSource()), nil)
	if *update {
		writePTX(t, r.PTX)
		return
	}
	same(t, newSoft(t, committedPTX(t)), newSoft(t, r.PTX), false, "go test -run 'TestCompile|TestAccuracy|TestDocs' -update")
}

// same compares all results of two devices. With -ffast-math (quick) those are left out
// that may differ.
func same(t *testing.T, want, got *device, quick bool, cure string) {
	t.Helper()
	for i := range functions {
		for _, k := range kinds {
			f := &functions[i]
			if f.approximate || f.floatOnly && k.size == 64 || quick && slices.Contains(fast, f.name+k.suffix) {
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
			for j := range w {
				a := []float64{args[0][j], args[1][j], args[2][j], k.from(w[j])}
				if w[j] != g[j] && !(quick && !finite(a)) {
					t.Errorf("%s%v = %#x, want %#x; %s", kernelName(f, k), a[:3], g[j], w[j], cure)
					break
				}
			}
		}
	}
}

// variants are options whose results must be the same.
var variants = [][]string{{"-O2"}, {"-O0"}, {"-O3", "-ffast-math"}}

// fast has the functions that -ffast-math replaces. With it infinities and NaN may differ too.
var fast = []string{"sqrtf", "rsqrtf", "expf", "exp10f", "logf", "log2f", "log10f", "powf", "sinf", "cosf", "tanf", "sincos_sf", "sincos_cf"}

// TestVariants compiles the test kernels with other options, which are drawn, and compares
// their results with those of the committed PTX. With FERRY_FULL=1 every clang of this
// machine does it with all options.
func TestVariants(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles with several options")
	}
	committed := newSoft(t, committedPTX(t))
	for _, path := range compiletest.Clangs(t) {
		for _, options := range sample.Of(t, variants, 1) {
			name := filepath.Base(path) + strings.Join(options, "")
			t.Run(name, func(t *testing.T) {
				ptx := clang(t, path, options, kernelSource())
				quick := slices.Contains(options, "-ffast-math")
				if !quick {
					checkRounding(t, ptx)
				}
				same(t, committed, newSoft(t, ptx), quick, name)
			})
		}
	}
}

// clang compiles a source of test kernels.
func clang(t *testing.T, path string, options []string, source []byte) []byte {
	t.Helper()
	args := append([]string{"-x", "cuda", "--cuda-gpu-arch=sm_80", "--cuda-device-only", "-nocudainc", "-nocudalib", "-fdeclspec",
		"-Xclang", "-target-feature", "-Xclang", "+ptx71", "-S", "-o", "-", "-I", "../../../kernels", "-include", "ferry.h"}, options...)
	out, log, err := compiletest.Output(t.Context(), path, append(args, "-"), source, strings.NewReplacer())
	if err != nil {
		t.Fatalf("%v: %s", err, log)
	}
	return out
}

var inexact = regexp.MustCompile(`(?m)^.*\b((add|sub|mul|fma|div|sqrt|rcp|mad)\.f(32|64)|approx|\.ftz).*$`)

// checkRounding finds instructions that compilers may contract, or that approximate.
func checkRounding(t *testing.T, ptx []byte) {
	t.Helper()
	if approximate := bytes.Index(ptx, []byte(".entry test_approx")); approximate > 0 { // these come last
		ptx = ptx[:approximate]
	}
	if line := inexact.Find(ptx); line != nil {
		t.Errorf("%s: this may be contracted, or approximates", line)
	}
}

// TestRounding looks for such instructions in the committed PTX.
func TestRounding(t *testing.T) { checkRounding(t, committedPTX(t)) }
