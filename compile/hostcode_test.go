package compile_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/compile"
	"github.com/ferrygpu/ferry/internal/test/compiletest"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/ptx"
)

// withoutSystem makes the compiler one that finds no headers of the system.
func withoutSystem(t *testing.T) {
	t.Helper()
	path, err := exec.LookPath(compiletest.Clang(t))
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "clang")
	text := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *'-E -v -x c++'*) exit 1;; *) exec '%s' \"$@\";; esac\n", path)
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv(compile.ClangVariable, script)
}

// wholePrograms are sources with host code, and kernels named k.
var wholePrograms = []struct {
	name, source string
	kernels      string // in the PTX
	warning      string // if the system's headers are there
	out          []int32
}{
	{"constants of C99", `
#include <stdint.h>
extern "C" __global__ void k(int *o) { o[threadIdx.x] = threadIdx.x == 0 ? UINT16_C(0x7E00) : threadIdx.x == 1 ? INT16_C(-2) : threadIdx.x == 2 ? UINT8_C(7) : threadIdx.x == 3 ? INT8_C(-3) : (int)(INTMAX_C(5) + UINTMAX_C(6)); }
`, "k", "", []int32{0x7e00, -2, 7, -3, 11, 11, 11, 11}},
	{"host headers", `
#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>
#include <unistd.h>
extern "C" __global__ void k(int *o) { o[threadIdx.x] = std::max((int)threadIdx.x, 3); }
int main() { std::vector<int> v(3); std::ofstream f("x"); std::map<std::string, int> m; std::cout << v.size() << std::endl; k<<<1, 32>>>(0); return (int)v.size() + getpid(); }
`, "k", "", []int32{3, 3, 3, 3, 4, 5, 6, 7}},
	{"assert without a header", `
extern "C" __global__ void k(int *o) { assert(threadIdx.x < 8); o[threadIdx.x] = 1; }
`, "k", "", []int32{1, 1, 1, 1, 1, 1, 1, 1}},
	{"trap in host code", `
#include <stdio.h>
static int layout(int t) { switch (t) { case 1: return 2; default: printf("bad\n"); __trap(); } return 0; }
template <int L> __global__ void k(int *o) { o[threadIdx.x] = L; }
void f(int *o) { if (layout(1) == 2) k<2><<<1, 32>>>(o); }
`, "_Z1kILi2EEvPi", "host code left out", []int32{2, 2, 2, 2, 2, 2, 2, 2}},
	{"placement new", `
#include <new>
struct P { int a, b; __device__ P(int x) : a(x), b(2 * x) {} };
extern "C" __global__ void k(int *o) { __shared__ alignas(8) char m[8 * 32]; P *p = new (m + 8 * threadIdx.x) P(threadIdx.x); o[threadIdx.x] = p->a + p->b; }
`, "k", "", []int32{0, 3, 6, 9, 12, 15, 18, 21}},
	{"a function declared for both sides", `
int __device__ __host__ f(int x);
int f(int x) { return x + 1; }
extern "C" __global__ void k(int *o) { o[threadIdx.x] = f(threadIdx.x); }
`, "k", "", []int32{1, 2, 3, 4, 5, 6, 7, 8}},
	{"a header that is not there", `
#include "foreign/library.h"
#include <another_library.hpp>
static foreign_handle handle;
struct Context { foreign_handle h; int n; void run(foreign_stream s) { foreign_call(h, s); } };
template <class T> __global__ void k(T *o, int n) { o[threadIdx.x] = n; }
foreign_status run(int *o) {
    Context c;
    if (foreign_open(&c.h) != FOREIGN_OK) { fprintf(stderr, "no %d {", 1); return 1; }
    for (auto &x : foreign_list(c)) x.visit([&](int i) { k<int><<<1, i, 0, c.h.stream>>>(o, 3); });
    k<unsigned><<<foreign_grid(1), 32>>>((unsigned *)o, 4);
    return FOREIGN_OK;
}
int main() { int *o; foreign_stream s; k<int><<<1, 32, 0, s>>>(o, 5); k<long><<<1, 32>>>(foreign_pointer, 5); return 0; }
`, "_Z1kIiEvPT_i _Z1kIjEvPT_i _Z1kIlEvPT_i", "library.h' file not found; device code does not need it", []int32{5, 5, 5, 5, 5, 5, 5, 5}},
	{"launches of templates", `
#include <missing.h>
template <class T> __global__ void k(T *o) { o[threadIdx.x] = 4; }
template <class T, int n> __global__ void arguments(T *o) { o[threadIdx.x] = n; }
template <class T> __global__ void deduced(T *o) { }
template <int n> __global__ void named(int *o) {}
template <int n> __global__ void called(int *o) { o[threadIdx.x] = n; }
void calls(missing_t m, void **a, int *o) {
    missing(cudaLaunchKernel((const void *)&called<1>, 1, 32, a, 0, 0));
    if (missing(cudaLaunchCooperativeKernel(reinterpret_cast<void *>(called<(2 > 1) + 1>), 1, 32, a))) return;
    missing_t c = cudaLaunchKernelExC(&m.config, (void*)called<3>, a);
    cudaLaunchKernelEx(&m.config, called<4>, o);
    cudaLaunchKernel(m.kernel, 1, 32, a); cudaLaunchKernel(named<m.n>, 1, 32, a);
}
template <class T> void launcher(int n) { missing_stream s; missing_pointer<T> p; arguments<T, 3><<<n, 32, 0, s>>>(p); }
int main() { missing_t *p; k<int><<<missing(1), 32>>>((int *)p); deduced<<<1, 32>>>(p); launcher<float>(3); launcher<int>(3); }
`, "_Z1kIiEvPT_ _Z6calledILi1EEvPi _Z6calledILi2EEvPi _Z6calledILi3EEvPi _Z6calledILi4EEvPi _Z9argumentsIfLi3EEvPT_ _Z9argumentsIiLi3EEvPT_", "kernel deduced is a template, whose launch in host code does not compile | kernel named is a template", []int32{4, 4, 4, 4, 4, 4, 4, 4}},
	{"macros for the device", `
#include <missing.h>
#define BOTH __host__ __device__
#define INLINE_BOTH(T) BOTH inline T
INLINE_BOTH(int) twice(int x) { return 2 * x; }
#ifdef UNKNOWN
void host() {
#else
void host(int) {
#endif
    missing();
}
extern "C" __global__ void k(int *o) { o[threadIdx.x] = twice(threadIdx.x); }
`, "k", "host code left out: use of undeclared identifier 'missing'", []int32{0, 2, 4, 6, 8, 10, 12, 14}},
	{"a branch that is constant", `
#include <missing.h>
template <class T> __global__ void k(T *o) { o[threadIdx.x] = 2; }
void run(int *o) { if constexpr (Missing::enabled) { k<int><<<1, 32>>>(o); } }
`, "_Z1kIiEvPT_", "host code left out", []int32{2, 2, 2, 2, 2, 2, 2, 2}},
	{"virtual functions", `
#include <new>
struct Shape { __device__ __noinline__ Shape() {} __device__ virtual int area() const = 0; __device__ virtual int none() const = delete; };
struct Square : Shape { int n; __device__ Square(int n) : n(n) {} __device__ int none() const override = delete; __device__ int area() const override { return n * n; } };
struct Row : Shape { int n; __device__ Row(int n) : n(n) {} __device__ int none() const override = delete; __device__ int area() const override { return -n; } };
extern "C" __global__ void k(int *o) { Shape *s = threadIdx.x % 2 ? (Shape *)new Square(threadIdx.x) : new Row(threadIdx.x); o[threadIdx.x] = s->area(); }
struct Host { virtual int f() = 0; };
struct Own : Host { int f() override { return 3; } };
int main() { Host *h = new Own; return h->f(); }
`, "k", "", []int32{0, 1, -2, 9, -4, 25, -6, 49}},
	{"a namespace that a macro opens", `
#define NAMESPACE(x) namespace x
NAMESPACE(foo) {
extern "C" __global__ void k(int *o) { o[threadIdx.x] = 1; }
int z;
` + manyErrors + `}
`, "k", "host code left out", []int32{1, 1, 1, 1, 1, 1, 1, 1}},
}

// manyErrors is host code with an error in each of 25 lines.
var manyErrors = func() (text string) {
	for i := range 25 {
		text += fmt.Sprintf("int a%[1]d() { return undefined%[1]d(); } int z%[1]d;\n", i)
	}
	return text
}()

// TestWholePrograms compiles sources as they are and runs their kernels, with the system's
// headers and without.
func TestWholePrograms(t *testing.T) {
	sample.SkipRace(t)
	for _, system := range []bool{true, false} {
		t.Run(fmt.Sprintf("system=%v", system), func(t *testing.T) {
			if !system {
				withoutSystem(t)
			}
			for _, c := range sample.Of(t, wholePrograms, 2) {
				t.Run(c.name, func(t *testing.T) {
					r := compiletest.Compile(t, "k.cu", c.source, &compile.Options{Compiler: "clang"})
					checkWarnings(t, r, c.warning, system)
					m, err := ptx.Parse("k.ptx", string(r.PTX))
					if err != nil {
						t.Fatal(err)
					}
					var names []string
					for _, f := range m.Entries() {
						names = append(names, f.Name)
					}
					if slices.Sort(names); strings.Join(names, " ") != c.kernels {
						t.Errorf("kernels %q, want %q", names, c.kernels)
					}
					if got := runKernel(t, r.PTX, strings.Fields(c.kernels)[0], len(m.Entries()[0].Params)); !slices.Equal(got, c.out) {
						t.Errorf("got %v, want %v", got, c.out)
					}
				})
			}
		})
	}
}

// checkWarnings demands warnings, which " | " parts, and none if the text is empty.
func checkWarnings(t *testing.T, r *compile.Result, want string, system bool) {
	t.Helper()
	var all []string
	for _, w := range r.Warnings {
		all = append(all, w.String())
	}
	text := strings.Join(all, "\n")
	lacks := func(part string) bool { return !strings.Contains(text, part) }
	if want == "" && system && text != "" || slices.ContainsFunc(strings.Split(want, " | "), lacks) {
		t.Errorf("warnings:\n%s\nwant %q", text, want)
	}
}

// runKernel runs a kernel that fills eight integers. The second parameter, if there is one, is 5.
func runKernel(t *testing.T, text []byte, name string, params int) []int32 {
	t.Helper()
	g, err := ferry.Open("soft")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	m, err := ferry.Load(g, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	k, err := m.Kernel(name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ferry.NewStream(g, nil)
	if err != nil {
		t.Fatal(err)
	}
	o, err := ferry.Alloc[int32](g, 8)
	if err != nil {
		t.Fatal(err)
	}
	args := []any{o, int32(5)}[:params]
	if err := s.Launch(k, ferry.Cover(8, 8), args...); err != nil {
		t.Fatal(err)
	}
	got, err := ferry.Download(o)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestDeviceErrors demands that what device code needs and is not there is an error that says so.
func TestDeviceErrors(t *testing.T) {
	sample.SkipRace(t)
	for _, c := range sample.Of(t, []struct{ name, source, want string }{
		{"missing header", "#include <foreign.h>\n__global__ void k(foreign *o) { o->n = 1; }\n", "'foreign.h' file not found"},
		{"its type", "#include <foreign.h>\n__global__ void k(foreign *o) { o->n = 1; }\n", "unknown type name 'foreign'"},
		{"class with a missing member", "#include <foreign.h>\nstruct S { int a; foreign f; int b; };\n__global__ void k(S s, int *o) { *o = s.b; }\n", "unknown type name 'S'"},
		{"device function", "void host() { undefined(); }\n__device__ void f() { unknown(); }\n", "use of undeclared identifier 'unknown'"},
		{"device function in a macro", "#define DEV __device__ __forceinline__\nDEV void f() { unknown(); }\n", "use of undeclared identifier 'unknown'"},
		{"device lambda", "template <class F> __global__ void k(F f) { f(); }\nvoid host() { k<<<1, 1>>>([=] __device__ () { unknown(); }); }\n", "use of undeclared identifier 'unknown'"},
		{"device method", "struct S { int n; void host() { unknownHost(); }\n __device__ int get() { return unknown; } };\n", "use of undeclared identifier 'unknown'"},
		{"method of a local class", "void host() { struct S { __device__ int get() { return unknown; } }; }\n", "use of undeclared identifier 'unknown'"},
		{"launch", "__global__ void child(int *o) {}\n__global__ void k(int *o) { child<<<1, 32>>>(o); }\n", "a kernel cannot launch kernels"},
		{"texture object", "__global__ void k(cudaTextureObject_t t, int *o) { *o = tex2D<int>(t, 1, 2); }\n", "Ferry has no textures"},
		{"texture reference", "texture<float, 2> t;\n__global__ void k(float *o) { *o = tex2D(t, 1, 2); }\n", "Ferry has no textures"},
		{"texture of vectors", "texture<float4, 2, cudaReadModeElementType> t;\n__global__ void k(float4 *o) { float4 v = tex2D(t, 1, 2); *o = v; }\n", "1 error, by clang"},
		{"surface", "__global__ void k(cudaSurfaceObject_t s) { surf2Dwrite(1, s, 4, 2); }\n", "Ferry has no textures and no surfaces"},
	}, 4) {
		t.Run(c.name, func(t *testing.T) {
			_, err := compile.Source(t.Context(), "k.cu", []byte(c.source), &compile.Options{Compiler: "clang"})
			if compiletest.Missing(err) {
				compiletest.Skip(t, err)
			}
			if _, ok := errors.AsType[*compile.Error](err); !ok || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "unknownHost") {
				t.Errorf("an error in host code is shown: %v", err)
			}
		})
	}
}

// TestHostCodeInHeader leaves out host code of a header of the program.
func TestHostCodeInHeader(t *testing.T) {
	sample.SkipRace(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("own.h", "#include <foreign.h>\n__device__ inline int one() { return 1; }\ninline void host() { foreign_call(1); }\n")
	file := write("k.cu", "#include \"own.h\"\nextern \"C\" __global__ void k(int *o) { o[threadIdx.x] = one(); }\n")
	r := compiletest.File(t, file, &compile.Options{Compiler: "clang"})
	if got := runKernel(t, r.PTX, "k", 1); got[7] != 1 {
		t.Errorf("got %v", got)
	}
	checkWarnings(t, r, "own.h:3:22: warning: host code left out", true)
	write("own.h", "#include <foreign.h>\n__device__ inline int one() { return foreign_one(); }\ninline void host() { foreign_call(1); }\n")
	_, err := compile.File(t.Context(), file, &compile.Options{Compiler: "clang"})
	if err == nil || !strings.Contains(err.Error(), "own.h:2:38: error: use of undeclared identifier 'foreign_one'") || strings.Contains(err.Error(), "foreign_call") {
		t.Errorf("got %v", err)
	}
}
