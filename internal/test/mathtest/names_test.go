package mathtest

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/ferrygpu/ferry/compile"
	"github.com/ferrygpu/ferry/internal/test/compiletest"
)

// TestNames compiles a source with the names and overloads of the header.
func TestNames(t *testing.T) {
	source, err := os.ReadFile("testdata/names.cu")
	if err != nil {
		t.Fatal(err)
	}
	compiletest.Compile(t, "names.cu", string(source), nil)
}

// TestFastMath: with -ffast-math the functions that CUDA documents are approximate.
func TestFastMath(t *testing.T) {
	calls := map[string]string{
		"sinf": `sin\.approx`, "cosf": `cos\.approx`, "tanf": `div\.approx`, "expf": `ex2\.approx`, "exp10f": `ex2\.approx`,
		"logf": `lg2\.approx`, "log2f": `lg2\.approx`, "log10f": `lg2\.approx`, "powf": `ex2\.approx`, "sqrtf": `sqrt\.approx`,
		"rsqrtf": `rsqrt\.approx`, "sincos_cf": `cos\.approx`, "sin": `fma\.rn\.f64`, "atanf": `div\.rn`,
	}
	ptx := clang(t, compiletest.Clang(t), []string{"-O2", "-ffast-math"}, kernelSource(slices.Collect(maps.Keys(calls))...))
	for name, want := range calls {
		body := regexp.MustCompile(`(?s)\.entry test_` + name + `\(.*?\n}`).Find(ptx)
		if !regexp.MustCompile(want).Match(body) {
			t.Errorf("%s with -ffast-math has no %s:\n%s", name, want, body)
		}
	}
}

// TestVariables: a kernel has the header's tables only if it uses them, and none that is
// visible, so that two such modules can be linked.
func TestVariables(t *testing.T) {
	for _, c := range []struct {
		statement string
		want      int
	}{{"*x += 1;", 0}, {"*x = sin(*x);", 1}} {
		source := `extern "C" __global__ void k(double *x) { ` + c.statement + ` }`
		for _, path := range compiletest.Clangs(t) {
			r := compiletest.Compile(t, "k.cu", source, &compile.Options{Compiler: path})
			variables := regexp.MustCompile(`(?m)^.*\.(const|global) .*\[\d+\] = `).FindAllString(string(r.PTX), -1)
			if len(variables) != c.want {
				t.Errorf("%s: %s has %d variables, want %d: %.80q", r.Compiler, c.statement, len(variables), c.want, variables)
			}
			if visible := regexp.MustCompile(`\.visible \.(const|global).*`).Find(r.PTX); visible != nil {
				t.Errorf("%s: %s: visible to a linker: %.80s", r.Compiler, c.statement, visible)
			}
		}
	}
}
