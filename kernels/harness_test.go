package kernels_test

// How the tests of the CUDA headers work: they compile C++ with each compiler, run it on the
// software GPU, and compare the results with Go.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/compile"
	"github.com/ferrygpu/ferry/internal/test/compiletest"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/kernels"
)

// build is one way to compile a source.
type build struct {
	compiler, arch string
	level          string // "-O2", or "-O0"
}

func (b build) String() string { return filepath.Base(b.compiler) + b.level + "/" + b.arch }

// builds returns one of the ways to compile, drawn by the seed and the test's name, and all of
// them with FERRY_FULL=1: the newest compiler for each architecture, the oldest for the last one that
// it knows, and the newest for the last without optimisation too.
func builds(t *testing.T, archs ...string) []build {
	clangs := compiletest.Clangs(t)
	oldest, newest := clangs[0], clangs[len(clangs)-1]
	last, archs := newestArch(t, oldest, archs), archs[:slices.Index(archs, newestArch(t, newest, archs))+1]
	all := []build{{oldest, last, "-O2"}, {newest, archs[len(archs)-1], "-O0"}}
	for _, arch := range archs {
		if newest != oldest || arch != last {
			all = append(all, build{newest, arch, "-O2"})
		}
	}
	return sample.Of(t, all, 1)
}

// newestArch returns the last architecture that a compiler knows. Clang 14 ends at sm_86.
func newestArch(t *testing.T, compiler string, archs []string) string {
	t.Helper()
	last := archs[len(archs)-1]
	if !knows(t, compiler, last) {
		return archs[len(archs)-2]
	}
	return last
}

// known has the answers of knows.
var known = map[[2]string]bool{}

// knows reports whether a compiler knows an architecture. It asks once.
func knows(t *testing.T, compiler, arch string) bool {
	t.Helper()
	key := [2]string{compiler, arch}
	yes, asked := known[key]
	if !asked {
		_, err := compiletest.Source(t.Context(), "none.cu", nil, &compile.Options{Compiler: compiler, Arch: arch})
		_, unknown := errors.AsType[*compile.ArchError](err)
		if !unknown {
			compiletest.Check(t, err)
		}
		yes = !unknown
		known[key] = yes
	}
	return yes
}

// compile returns the PTX of a source.
func (b build) compile(t *testing.T, source string) string {
	t.Helper()
	if b.level == "-O2" {
		r, err := compiletest.Source(t.Context(), "test.cu", []byte(source), &compile.Options{Compiler: b.compiler, Arch: b.arch})
		if err != nil {
			t.Fatalf("%v: %v", b, err)
		}
		return string(r.PTX)
	}
	return b.unoptimised(t, source)
}

// unoptimised compiles with -O0, for which package compile has no option.
func (b build) unoptimised(t *testing.T, source string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, kernels.Headers); err != nil {
		t.Fatal(err)
	}
	ptx := "+ptx75"
	if b.arch == "sm_90" {
		ptx = "+ptx80"
	}
	args := []string{"-x", "cuda", "--cuda-gpu-arch=" + b.arch, "--cuda-device-only", "-nostdinc",
		"-nocudainc", "-nocudalib", "-std=c++17", "-Wall", "-Werror", "-Xclang", "-target-feature", "-Xclang", ptx,
		"-O0", "-S", "-o", "-", "-I", dir, "-I", filepath.Join(dir, "compat"), "-I", filepath.Join(dir, "compat", "std"), "-include", filepath.Join(dir, "compat", "cuda_runtime.h"), "-"}
	out, log, err := compiletest.Output(t.Context(), b.compiler, args, []byte(source), strings.NewReplacer(dir, "DIR"))
	if err != nil {
		t.Fatalf("%v: %v\n%s", b, err, log)
	}
	return string(out)
}

// launch runs a kernel of PTX on the software GPU. args uploads the arguments, and after, if
// not nil, downloads the results.
func launch(t *testing.T, ptx, name string, c ferry.LaunchConfig, args func(g *ferry.GPU) []any, after func()) error {
	t.Helper()
	g, err := ferry.Open("soft")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	m, err := ferry.Load(g, []byte(ptx), nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, ptx)
	}
	k, err := m.Kernel(name)
	if err != nil {
		t.Fatal(err)
	}
	s := g.DefaultStream()
	if err := errors.Join(s.Launch(k, c, args(g)...), s.Wait(t.Context())); err != nil {
		return err
	}
	if after != nil {
		after()
	}
	return nil
}

// words runs the kernel test(const u64 *in, u64 *out) and returns out, of n words.
func words(t *testing.T, ptx string, c ferry.LaunchConfig, in []uint64, n int) []uint64 {
	t.Helper()
	return run(t, ptx, c, in, slices.Repeat([]uint64{0xdeadbeefdeadbeef}, n))
}

// zeroed is words with an out of zeros.
func zeroed(t *testing.T, ptx string, c ferry.LaunchConfig, in []uint64, n int) []uint64 {
	t.Helper()
	return run(t, ptx, c, in, make([]uint64, n))
}

// run runs the kernel test(const u64 *in, u64 *out) and returns out.
func run(t *testing.T, ptx string, c ferry.LaunchConfig, in, out []uint64) []uint64 {
	t.Helper()
	var to *ferry.Device[uint64]
	err := launch(t, ptx, "test", c, func(g *ferry.GPU) []any {
		from, err := ferry.Upload(g, in)
		if err != nil {
			t.Fatal(err)
		}
		if to, err = ferry.Upload(g, out); err != nil {
			t.Fatal(err)
		}
		return []any{from, to}
	}, func() {
		var err error
		if out, err = ferry.Download(to); err != nil {
			t.Fatal(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// row is an expression in C++ of the words a, b and c, and what it must be.
type row struct {
	expr string
	want func(a, b, c uint64) uint64
}

// preamble is what kernels of rows begin with: R returns the bits of a value.
const preamble = `
#include <cuda_fp16.h>
#include <cuda_bf16.h>
typedef unsigned long long u64;
typedef unsigned u32;
template <class T> __device__ u64 R(T v) {
    if constexpr (sizeof(T) == 1) return __builtin_bit_cast(unsigned char, v);
    else if constexpr (sizeof(T) == 2) return __builtin_bit_cast(unsigned short, v);
    else if constexpr (sizeof(T) == 4) return __builtin_bit_cast(unsigned, v);
    else return __builtin_bit_cast(u64, v);
}
__device__ float F(u64 v) { return __uint_as_float((u32)v); }
__device__ double D(u64 v) { return __longlong_as_double((long long)v); }
__device__ half H(u64 v) { return __ushort_as_half((unsigned short)v); }
__device__ __nv_bfloat16 B(u64 v) { return __ushort_as_bfloat16((unsigned short)v); }
__device__ half2 H2(u64 v) { return __halves2half2(H(v), H(v >> 16)); }
__device__ __nv_bfloat162 B2(u64 v) { return __halves2bfloat162(B(v), B(v >> 16)); }
`

// source returns a kernel that computes all rows for three words of each thread.
func source(rows []row, n int) string {
	var s strings.Builder
	s.WriteString(preamble)
	s.WriteString("extern \"C\" __global__ void test(const u64 *in, u64 *out) {\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n")
	fmt.Fprintf(&s, "    if (i >= %d) return;\n    u64 a = in[3 * i], b = in[3 * i + 1], c = in[3 * i + 2];\n    (void)c;\n", n)
	for k, r := range rows {
		fmt.Fprintf(&s, "    out[%d * %d + i] = R(%s);\n", k, n, r.expr)
	}
	s.WriteString("}\n")
	return s.String()
}

// check compiles the rows in every way and compares them with Go for all inputs.
func check(t *testing.T, in [][3]uint64, rows []row, archs ...string) {
	t.Helper()
	var flat []uint64
	for _, v := range in {
		flat = append(flat, v[:]...)
	}
	n := len(in)
	for _, b := range builds(t, archs...) {
		t.Run(b.String(), func(t *testing.T) {
			out := words(t, b.compile(t, source(rows, n)), ferry.Cover(n, 128), flat, n*len(rows))
			for k, r := range rows {
				compareRow(t, r, in, out[k*n:][:n])
			}
		})
	}
}

// compareRow reports the first wrong result of a row.
func compareRow(t *testing.T, r row, in [][3]uint64, got []uint64) {
	t.Helper()
	for i, v := range in {
		if want := r.want(v[0], v[1], v[2]); got[i] != want {
			t.Errorf("%s with a=%#x b=%#x c=%#x: got %#x, want %#x", r.expr, v[0], v[1], v[2], got[i], want)
			return
		}
	}
}

// triples returns all combinations of edge values, shortened to a size that runs quickly.
func triples(edges []uint64) [][3]uint64 {
	var all [][3]uint64
	for i, a := range edges {
		for j, b := range edges {
			all = append(all, [3]uint64{a, b, edges[(i*7+j*3)%len(edges)]})
		}
	}
	return all
}
