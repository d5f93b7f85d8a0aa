package bind

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// summary lists what a source has: its kernels with their names and comments.
func (s *source) summary() string {
	var b strings.Builder
	for _, k := range s.kernels {
		fmt.Fprintf(&b, "%s(", k.name())
		for i, p := range k.params {
			if i > 0 {
				b.WriteString(", ")
			}
			fmt.Fprintf(&b, "%s: %s", p.name, spell(p.typ))
		}
		b.WriteString(")")
		if len(k.doc) > 0 {
			fmt.Fprintf(&b, " // %s", strings.Join(k.doc, " | "))
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// TestScanKernels reads kernels that are written in many ways.
func TestScanKernels(t *testing.T) {
	for _, c := range []struct{ src, want string }{
		{"", ""},
		{"int x; void f(int) {}", ""},
		{`__global__ void k() {}`, `k()`},
		{"\ufeff__global__ void k() {}", `k()`},
		{`__global__ void k(void) {}`, `k()`},
		{`extern "C" __global__ void k(int n, float *x) {}`, `k(n: int, x: float *)`},
		{"extern \"C\" {\n__global__ void k(int n);\n}", `k(n: int)`},
		{`void __global__ k(int n) {}`, `k(n: int)`},
		{`static __global__ __launch_bounds__(256, 2) void k(int n) {}`, `k(n: int)`},
		{`__global__ void __launch_bounds__(N*(2+1)) k(int n) {}`, `k(n: int)`},
		{`__global__ __attribute__((used)) void k(int n) {}`, `k(n: int)`},
		{`[[gnu::used]] __global__ void [[maybe_unused]] k(int n) {}`, `k(n: int)`},
		{`__global__ auto k(int n) -> void {}`, `k(n: int)`},
		{`__global__ typename std::enable_if<(N > 2), void>::type k(int n) {}`, `k(n: int)`},
		{`__global__ void k(const float *__restrict__ x, float *const y, const volatile int* z) {}`, `k(x: const float *__restrict__, y: float *const, z: const volatile int *)`},
		{`__global__ void k(unsigned, unsigned n, unsigned long long, long long int w, struct P p, P, const P, const P c, ns::P, ns::P q, P *) {}`,
			`k(: unsigned, n: unsigned, : unsigned long long, w: long long int, p: struct P, : P, : const P, c: const P, : ns::P, q: ns::P, : P *)`},
		{`__global__ void k(float x[], float m[4][5], float (*rows)[16], void (*f)(int, float), int (&r)[3]) {}`,
			`k(x: float[], m: float[4][5], rows: float (*)[16], f: void (*)(int, float), r: int (&)[3])`},
		{`__global__ void k(vec<float, 3> v, pair<int, vec<int, 2>> *w, std::array<T, (N > 2)> a) {}`,
			`k(v: vec<float, 3>, w: pair<int, vec<int, 2>> *, a: std::array<T, (N> 2)>)`},
		{`__global__ void k(int n = 3, int m = a < b, int o = f(1, 2), P p = P{1, 2}) {}`, `k(n: int, m: int, o: int, p: P)`},
		{`__global__ void k(const __grid_constant__ P p, int n) {}`, `k(p: const __grid_constant__ P, n: int)`},
		{"namespace a { namespace b::c { __global__ void k(int n) {} } __global__ void l() {} } __global__ void m() {}", "a::b::c::k(n: int)\na::l()\nm()"},
		{"namespace { __global__ void k() {} }", "k()"},
		{"#ifdef A\nnamespace a {\n#else\nnamespace b {\n#endif\n__global__ void k() {}\n}\n__global__ void l() {}", "b::k()\nl()"},
		{"namespace fs = std::filesystem; using namespace a; inline namespace v1 { __global__ void k() {} }", "v1::k()"},
		{`__global__ void ns::k(int n) {}`, `ns::k(n: int)`},
		{"template <class T, int N = (3 > 2)> __global__ void k(T *x) {}\ntemplate __global__ void k<float, 3>(float *);\ntemplate <> __global__ void k<int>(int *x) {}",
			"k(x: T *)\nk(: float *)\nk(x: int *)"},
		{"#define KERNEL extern \"C\" __global__ void\nKERNEL k(int n) {}", "k(n: int)"},
		{"#define GLOBAL __global__\n#define KERNEL(name, T) GLOBAL void name##_##T\nKERNEL(add, int)(int *x) {}\nKERNEL(add, float)(float *x) {}", "add_int(x: int *)\nadd_float(x: float *)"},
		{"#define K __global__ void\n#undef K\nK k(int n) {}", ""},
		{"#define K \\\n  __global__ \\\n  void\nK k(int n) {}", "k(n: int)"},
		{"#define K K __global__\nK void k(int n) {}", "k(n: int)"},
		{"#define F(x) F(x) F(x) __global__\nF(F(1)); F(2) void k(int n) {}", "k(n: int)"},
		{"// about k\n__global__ void k() {}", "k() // about k"},
		{"// one\n// two\n//\n// three\ntemplate <class T>\n__global__ void k() {}", "k() // one | two |  | three"},
		{"/** one\n * two\n */\n__global__ void k() {}", "k() // one | two"},
		{"/*****\n * one\n *****/\n__global__ void k() {}", "k() // one"},
		{"// not about k\n\n__global__ void k() {}", "k()"},
		{"int x; // about x\n__global__ void k() {}", "k()"},
		{"/* one */ // two\n__global__ void k() {}", "k() // two"},
		{"// about k\n#define X\n__global__ void k() {}", "k()"},
		{"__global__ void k(int a, // first\n  /* second */ int b) {}", "k(a: int, b: int)"},
		{"// __global__ void no() {}\n/* __global__ void no() {} */\nconst char *s = \"__global__ void no() {}\", *r = R\"x(__global__ void no() {} )\" )x\";\n__global__ void k() {}", "k()"},
		{"#if A\nvoid f() {\n#else\nvoid f(int) {\n#endif\n}\nnamespace n { __global__ void k() {} }\n__global__ void l() {}", "n::k()\nl()"},
		{"int a = 1'000, b = '{', c = '\\''; __global__ void k() {}", "k()"},
		{"__global__ void \xc3\xa4(int \xc3\xb6) {}", "\xc3\xa4(\xc3\xb6: int)"},
		{"__global__", ""}, {"__global__ void", ""}, {"__global__ void k", ""}, {"__global__ void k(", "k()"}, {"__global__ void k(int", "k(: int)"},
		{"__global__ void k(int n", "k(n: int)"}, {"__global__ ;", ""}, {"#define", ""}, {"#define X(", ""}, {"\"", ""}, {"/*", ""}, {"R\"(", ""}, {"}}}} __global__ void k() {}", "k()"},
		{"__global__ void k(...) {}", "k(: ...)"},
		{"struct S { __global__ void no; }; __global__ void k() {}", "k()"},
		{"__global__ void k(int n)\r\n{}\r\n// about l\r\n__global__ void l() {}", "k(n: int)\nl() // about l"},
	} {
		if got := scan(c.src).summary(); got != c.want {
			t.Errorf("%s:\ngot  %q\nwant %q", c.src, got, c.want)
		}
	}
}

// TestScanText keeps a signature as it was written.
func TestScanText(t *testing.T) {
	src := "__global__ void ns::k( const float* __restrict__ x,float*y , vec<float,3> v,float (*m)[16], unsigned long long n=3,P&&p,const char**names ){}"
	want := "void k(const float *__restrict__ x, float *y, vec<float, 3> v, float (*m)[16], unsigned long long n = 3, P &&p, const char **names)"
	if got := scan(src).kernels[0].text; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestScanRecords reads structures. One with parts that Go cannot have is not plain.
func TestScanRecords(t *testing.T) {
	for _, c := range []struct{ src, name, want string }{
		{"struct P { int a; float *b, c, d[3]; };", "P", "a b c d"},
		{"struct P { };", "P", ""},
		{"namespace n { struct P { int a; }; }", "n::P", "a"},
		{"typedef struct { int a; } P;", "P", "a"},
		{"typedef struct Q { int a; } P;", "Q", "a"},
		{"typedef struct { int a; } *P;", "P", "absent"},
		{"struct __align__(16) P { int a; };", "P", "a"},
		{"struct alignas(16) P final { int a; };", "P", "a"},
		{"struct P { alignas(16) float a; float b __attribute__((aligned(8))); __align__(8) int c; };", "P", "a! b! c!"},
		{"struct P { int a = 3; P() = default; P(int x) : a(x) {} ~P() {} int get() const { return a; } static int s; enum E { x, y }; using T = int; float b{1}; };", "P", "a b"},
		{"struct P { P(int x) : a{x}, b{x} { f(); } int a, b; };", "P", "a b"},
		{"struct P { __device__ float operator()(int i) const { return a; } bool operator<(P o) const; float a; };", "P", "a"},
		{"struct P { void (*f)(int); float (*m)[4]; };", "P", "f m"},
		{"struct P { struct Q { int x; } q, *r; struct Q s; enum E { a } e; };", "P", "q r s e"},
		{"struct P { struct Q { int x; }; Q q; };", "P::Q", "x"},
		{"struct P { struct { int x; } q; int y; };", "P", "q y"},
		{"struct P { vec<float, 3> v; std::array<int, (2 > 1)> a; unsigned long long n; const int c; };", "P", "v a n c"},
		{"class P { public: int a; };", "P", "a"},
		{"template <class T> struct P { T a[4]; template <class U> void f(U u) { } int b; };", "P", "a b"},
		{"class P { int a; };", "P", "not plain"},
		{"struct P { private: int a; };", "P", "not plain"},
		{"struct P : Q { int a; };", "P", "not plain"},
		{"struct P { int a : 3; };", "P", "not plain"},
		{"struct P { union { int a; float b; }; };", "P", "not plain"},
		{"struct P { virtual void f(); int a; };", "P", "not plain"},
		{"struct P {\n#ifdef X\nint a;\n#endif\nint b; };", "P", "not plain"},
		{"union P { int a; float b; };", "P", "not plain"},
		{"struct P *f(struct P *p); struct P;", "P", "absent"},
		{"struct P { int a;", "P", "a"},
	} {
		got := "absent"
		if all := scan(c.src).records[c.name]; len(all) > 0 {
			r := all[0]
			var names []string
			for _, f := range r.fields {
				names = append(names, f.name+map[bool]string{true: "!"}[f.aligned])
			}
			if got = strings.Join(names, " "); !r.plain {
				got = "not plain"
			}
		}
		if got != c.want {
			t.Errorf("%s:\ngot  %q\nwant %q", c.src, got, c.want)
		}
	}
}

// TestScanIncludes finds the files of the same project.
func TestScanIncludes(t *testing.T) {
	s := scan("#include \"a.h\"\n #  include \"b/c.h\" // why\n#include <d.h>\n// #include \"e.h\"\n#include MACRO\n")
	if want := []string{"a.h", "b/c.h"}; !slices.Equal(s.includes, want) {
		t.Errorf("got %q, want %q", s.includes, want)
	}
}

// FuzzScan: every text has a result, and what it names is in the text.
func FuzzScan(f *testing.F) {
	for _, s := range []string{"__global__ void k(int n, float (*m)[3] = f<a>(b)) {}", "#define K(a, b) a##b __global__\nK(x, y) void k();", "struct P { int a : 3, *b; struct { } c; };",
		"namespace a::b { extern \"C\" { template <class T> __global__ void k(T<int> t) {} } }", "/* x */ // y\n__global__ void k(){}", "R\"x(\n)x\" '\\'' 1'0 #if\n#else\n#endif", "#define A A A\n#define B A __global__ B A\nB B B"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		s := scan(src)
		for _, k := range s.kernels {
			for _, n := range append(slices.Clone(k.path), k.text) {
				if n == "" {
					t.Errorf("a kernel has no name: %+v", k)
				}
			}
			spelledTypes(k.params)
			goName(k.name())
		}
		for name, all := range s.records {
			for _, f := range all[0].fields {
				if all[0].plain && (f.name == "" || name == "") {
					t.Errorf("%s is plain, but has a field without name", name)
				}
			}
		}
	})
}
