package bind

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/compile"
	"github.com/ferrygpu/ferry/internal/test/compiletest"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with a file in testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; create it with go test -update", err)
	}
	if string(got) != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

// writeFiles writes files into a folder, by name and content in turn, and returns the folder.
func writeFiles(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		if err := os.WriteFile(filepath.Join(dir, files[i]), []byte(files[i+1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// generate makes code and fails the test if there is an error. It skips the test if it
// needs a compiler and there is none. Sources that were compiled before are not compiled again.
func generate(t *testing.T, o *Options) *Output {
	t.Helper()
	if o.compile == nil {
		o.compile = compiletest.Source
	}
	out, err := Generate(context.Background(), o)
	compiletest.Check(t, err)
	if formatted, err := format.Source(out.Go); err != nil || string(formatted) != string(out.Go) {
		t.Errorf("the code is not as gofmt writes it: %v\n%s", err, out.Go)
	}
	typecheck(t, out.Go)
	return out
}

// generateAndWrite also writes the files.
func generateAndWrite(t *testing.T, o *Options) *Output {
	t.Helper()
	out := generate(t, o)
	if err := out.Write(); err != nil {
		t.Fatal(err)
	}
	return out
}

// methods returns the methods of generated code that launch kernels.
func methods(code []byte) string {
	var lines []string
	for _, m := range regexp.MustCompile(`(?m)^func \(k\w* \*\w+\) (\w+\(\w+ ferry.Queue.*\)) error \{$`).FindAllSubmatch(code, -1) {
		line := strings.Replace(string(m[1]), "q ferry.Queue, c ferry.LaunchConfig, ", "", 1)
		lines = append(lines, strings.Replace(line, "q ferry.Queue, c ferry.LaunchConfig", "", 1))
	}
	return strings.Join(lines, "\n")
}

// TestPTX: mangled names tell types, other names do not.
func TestPTX(t *testing.T) {
	out := generate(t, &Options{Source: "testdata/mangled.ptx", Package: "mangled"})
	golden(t, "mangled_ptx.go.golden", out.Go)
	if out.PTX != nil || out.PTXFile != "testdata/mangled.ptx" || filepath.ToSlash(out.GoFile) != "testdata/mangled_ptx.go" {
		t.Errorf("files %s and %s", out.GoFile, out.PTXFile)
	}
	if got := strings.Join(out.Notes, "\n"); !strings.Contains(got, "kernel gather: not all is known of table cu.DevicePtr, type_ uint32") || strings.Contains(got, "saxpy") {
		t.Errorf("notes: %s", got)
	}
}

// TestSpace: a file name with a space is quoted for go:embed.
func TestSpace(t *testing.T) {
	ptx, err := os.ReadFile("testdata/mangled.ptx")
	if err != nil {
		t.Fatal(err)
	}
	out := generate(t, &Options{Source: filepath.Join(writeFiles(t, "my code.ptx", string(ptx)), "my code.ptx"), Package: "k"})
	if !strings.Contains(string(out.Go), "//go:embed \"my code.ptx\"\nvar myCodePTX []byte\n") {
		t.Errorf("%.400s", out.Go)
	}
}

// TestSourceWithPTX: the text of a source adds names, and the types of C++ itself, to PTX
// that another compiler made. A type that contradicts the PTX is not used.
func TestSourceWithPTX(t *testing.T) {
	ptx, err := os.ReadFile("testdata/mangled.ptx")
	if err != nil {
		t.Fatal(err)
	}
	dir := writeFiles(t, "k.ptx", string(ptx), "k.cu", `
__global__ void saxpy(int n, float a, const float *x, float *y) {}
extern "C" __global__ void gather(const uint64_t *__restrict__ table, int type, double gain, struct Unknown what, short step) {}
__global__ void changed(int n, float x) {}
`)
	out := generate(t, &Options{Source: filepath.Join(dir, "k.cu"), PTX: filepath.Join(dir, "k.ptx"), Package: "k"})
	for _, want := range []string{
		"Saxpy(n int32, a float32, x, y ferry.Memory[float32])",
		"Gather(table ferry.Memory[uint64], type_ int32, gain float64, what [20]byte, step int16)",
		"Changed(n cu.DevicePtr, x float32)", // the PTX says 8 bytes, the name says int
	} {
		if got := methods(out.Go); !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %s", got, want)
		}
	}
}

// TestTypes asks a compiler for types that are hard to read from a text.
func TestTypes(t *testing.T) {
	dir := writeFiles(t, "types.h", `
#ifndef TYPES
#define TYPES
#include "types.h"
template <class T, int N> struct vec { T v[N]; };
struct Point { float x, y; };
#endif
`, "k.cu", `
#include "types.h"
#if 0
struct Point { double z; };
extern "C" __global__ void gone(int n) {}
#endif
#define T_OF(x) x *
typedef float real;
using index_type = unsigned long long;
enum class Color { red };
enum Flag : unsigned short { on };
struct Node { Node *next; Point at; char tag; };
struct Packed { char c; int i; } __attribute__((packed));
struct __attribute__((aligned(32))) Wide { int i; };
struct Nested { struct In { short s; } in[2]; Color c; bool b; Point *p; vec<double, 2> v; };
union Both { int i; float f; };
class Private { int i; };
struct Fields { int same, Same; int _pad; float type; };
struct Callback { void (*f)(int); int &r; };
struct Empty {};
typedef struct { int unnamed_tag; } Tagged;
namespace { __global__ void hidden(const _Float16 *h) {} template <class T> __global__ void hidden2(T t) {} template __global__ void hidden2<char>(char); }
namespace a { __global__ void k(int) {} }
namespace b { __global__ void k(int, const real *const) {} }
__global__ void over(int n) {}
__global__ void over2(T_OF(float) p, index_type i, decltype(sizeof(0)) s, Color c, Flag f) {}
__global__ void nodes(const Node *n, Node by_value) {}
__global__ void odd(Packed p, Wide w, Both u, Private v, Tagged g, vec<Point, 2> t, const vec<Point, 2> *ts) {}
__global__ void nested(Nested n) {}
__global__ void names(Fields f, int func, int k, int q, int c, float ferry) {}
__global__ void pointers(float **pp, const float *const *cc, float (*m)[2][3], const float (*cm)[4], void (*fn)(float), void *v, const char *s, int &r) {}
__global__ void inner(Callback c, Empty e, volatile unsigned char *b) {}
template <class T> struct Traits; template <> struct Traits<int> { typedef double type; };
template <class T> __global__ void dependent(typename Traits<T>::type *p, T t) {}
template __global__ void dependent<int>(double *, int);
extern "C" __global__ void map(uchar4 u, const double2 *d, dim3 g) {}
struct Switch { bool on; };
struct Switches { Switch s[2]; bool all, *each; };
struct Settings { bool on; Switches *more; struct Mine { bool b[2]; } mine; };
__global__ void flags(bool b, bool *bs, const bool (*rows)[3], Settings s, Switches *p) {}
extern "C" __global__ void close() {}
__global__ void range() {}
__global__ void range_kernel() {}
__global__ void loaded() {}
extern "C" __global__ void module(int a[4]) {}
`)
	o := &Options{Source: filepath.Join(dir, "k.cu"), Package: "k", Type: "Code"}
	out := generate(t, o)
	for _, want := range []string{
		"Hidden(h ferry.Memory[uint16])", "Hidden2Char(t int8)", "AK(p0 int32)", "BK(p0 int32, p1 ferry.Memory[float32])", "Over(n int32)",
		"Over2(q ferry.Queue, config ferry.LaunchConfig, p ferry.Memory[float32], i, s uint64, c int32, f uint16)",
		"Nodes(n ferry.Memory[Node], byValue Node)",
		"Odd(p Packed, w Wide, u, v [4]byte, g Tagged, t VecPoint2, ts ferry.Memory[VecPoint2])",
		"Nested(n Nested)",
		"Names(queue ferry.Queue, config ferry.LaunchConfig, f Fields, func_, k, q, c int32, ferry_ float32)",
		"Pointers(pp, cc ferry.Memory[cu.DevicePtr], m ferry.Memory[[2][3]float32], cm ferry.Memory[[4]float32], fn, v cu.DevicePtr, s ferry.Memory[int8], r cu.DevicePtr)",
		"Inner(q ferry.Queue, config ferry.LaunchConfig, c Callback, e [1]byte, b ferry.Memory[uint8])",
		"DependentInt(p ferry.Memory[float64], t int32)",
		"Flags(b bool, bs ferry.Memory[uint8], rows ferry.Memory[[3]uint8], s Settings, p ferry.Memory[Switches])",
		"type Switch struct {\n\tOn uint8 // bool on; 0 is false\n}", "All *uint8 *// bool all; 0 is false", `type Settings struct {\n\tOn *bool *// bool on\n`, `B *\[2\]bool *// bool b\[2\]`,
		"Map(u [4]uint8, d ferry.Memory[[2]float64], g [3]uint32)",
		"CloseKernel()", "Range()", "RangeKernel()", "Loaded()", "ModuleKernel(a ferry.Memory[int32])",
		"Next *cu.DevicePtr", "F *cu.DevicePtr", "R *cu.DevicePtr", `I \[4\]byte // int i; it is not aligned`, "At *Point", "_ *\\[7\\]byte",
		"type Wide struct {\n\tI int32 // int i\n\t_ \\[28\\]byte\n}",
		"type VecPoint2 struct {\n\tV \\[2\\]Point",
		"In *\\[2\\]In ", "C *int32 ", "V *VecDouble2 ",
		"Same *int32", "Same_ *int32", "Pad *int32",
		`Name: "n", Type: "const Node \*", Size: 8, Reads: true`, `Name: "cc", Type: "const float \*const \*", Size: 8, Reads: true`, `Name: "cm", Type: "const float \(\*\)\[4\]", Size: 8, Reads: true`,
		`Name: "pp", Type: "float \*\*", Size: 8}`,
	} {
		pattern := regexp.QuoteMeta(want)
		if !strings.Contains(want, "(") || strings.Contains(want, `\`) {
			pattern = want
		}
		if !regexp.MustCompile(pattern).Match([]byte(methods(out.Go))) && !regexp.MustCompile(pattern).Match(out.Go) {
			t.Errorf("there is no %s", want)
		}
	}
	if t.Failed() {
		t.Logf("%s", out.Go)
	}
	if again := generate(t, o); string(again.Go) != string(out.Go) {
		t.Error("the same source gives other code")
	}
}

// TestCommitted: the committed files of bindtest and of the examples are those of their
// sources. Hashes say so for each, and the code of one that is drawn is made again. The compiler of this machine may write other PTX, so the lines with its hash are
// not compared, and -update writes the files only if something else differs.
func TestCommitted(t *testing.T) {
	t.Setenv("GOPACKAGE", "")
	sources, err := filepath.Glob("../../../../examples/kernels/*/*.cu")
	if err != nil || len(sources) < 3 {
		t.Fatalf("examples %q, error %v", sources, err)
	}
	single, err := filepath.Glob("../../../../examples/*/*_cu.go")
	if err != nil || len(single) < 3 {
		t.Fatalf("examples %q, error %v", single, err)
	}
	sources = append(sources, "bindtest/kernels.cu")
	for _, s := range single {
		sources = append(sources, strings.TrimSuffix(s, "_cu.go")+".cu")
	}
	again := sources
	if !*update {
		again = sample.Of(t, sources, 1)
	}
	for _, source := range sources {
		t.Run(filepath.Base(source), func(t *testing.T) {
			checkCommitted(t, &Options{Source: source}, slices.Contains(again, source))
		})
	}
}

func checkCommitted(t *testing.T, o *Options, again bool) {
	o.compile = compiletest.Source
	stale := Check(context.Background(), o)
	if stale != nil && !*update {
		t.Fatal(stale)
	}
	if !again {
		return
	}
	out := generate(t, o)
	committed, err := os.ReadFile(out.GoFile)
	if err != nil && !*update {
		t.Fatal(err)
	}
	hashes := regexp.MustCompile(`(?m)^//ferry:(ptx|sum) .*\n`)
	got, want := hashes.ReplaceAll(out.Go, nil), hashes.ReplaceAll(committed, nil)
	switch {
	case stale == nil && string(got) == string(want):
	case !*update:
		t.Errorf("%s: run go generate ./...: got\n%s", out.GoFile, got)
	default:
		if err := out.Write(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestErrors: bad input has errors that say what to do.
func TestErrors(t *testing.T) {
	dir := writeFiles(t, "none.cu", "int x;", "template.cu", "template <class T> __global__ void f(T *x) {}", "wrong.cu", "__global__ void f( {}\n",
		"clash.cu", `extern "C" __global__ void a_b() {} extern "C" __global__ void aB() {}`,
		"none.ptx", ".version 7.0\n.target sm_80\n.address_size 64\n", "garbage.ptx", "\x7fELF\x00\x01", "empty.ptx", "", "a[b].ptx", "")
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Source: in("absent.cu")}, "absent.cu"},
		{Options{Source: in("absent.ptx")}, "absent.ptx"},
		{Options{Source: dir}, "is a directory: name the file with the kernels"},
		{Options{Source: os.DevNull}, "not a regular file"},
		{Options{Source: in("none.cu")}, "it has no kernels: a kernel is a function with __global__"},
		{Options{Source: in("template.cu")}, "1 __global__ functions in the text are not compiled, such as f (templates need"},
		{Options{Source: in("wrong.cu")}, "error: "},
		{Options{Source: in("clash.cu"), Package: "p"}, "kernels void a_b() and void aB() would both become the method AB: rename one of them"},
		{Options{Source: in("none.ptx")}, "it has no kernels"},
		{Options{Source: in("garbage.ptx")}, "garbage.ptx"},
		{Options{Source: in("empty.ptx")}, "empty.ptx"},
		{Options{Source: in("none.cu"), Out: in("x.txt")}, "must be a .go file"},
		{Options{Source: in("none.cu"), Out: in("x_test.go")}, "must be a .go file that is no test"},
		{Options{Source: in("none.ptx"), PTX: in("none.ptx")}, "the source is PTX already"},
		{Options{Source: in("none.ptx"), Out: filepath.Join(dir, "sub", "x.go")}, "go:embed reaches no other files"},
		{Options{Source: "testdata/mangled.ptx", Type: "lower"}, `the type "lower" is not an exported Go name`},
		{Options{Source: in("a[b].ptx")}, `go:embed does not take a file with the name "a[b].ptx"`},
		{Options{Source: "testdata/mangled.ptx", Type: "A B"}, `is not an exported Go name`},
	} {
		_, err := Generate(context.Background(), &c.o)
		if compiletest.Missing(err) {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %s", c.o, err, c.want)
		}
	}
}

// TestPackage: the name comes from the options, go generate, other files or the folder.
func TestPackage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "My-Kernels")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	name := func(o string) string {
		t.Helper()
		f := &files{Options: &Options{Package: o}, out: filepath.Join(dir, "k_cu.go")}
		got, err := f.packageName()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	t.Setenv("GOPACKAGE", "")
	if got := name(""); got != "mykernels" {
		t.Errorf("from the folder: %s", got)
	}
	for file, pkg := range map[string]string{"a_test.go": "a_test", "b.go": "real", "k_cu.go": "old"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte("package "+pkg+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := name(""); got != "real" {
		t.Errorf("from a file: %s", got)
	}
	t.Setenv("GOPACKAGE", "env")
	if got := name(""); got != "real" {
		t.Errorf("go generate runs in another folder: %s", got)
	}
	t.Chdir(dir)
	if a, b := name(""), name("given"); a != "env" || b != "given" {
		t.Errorf("got %s and %s", a, b)
	}
	t.Setenv("GOPACKAGE", "env_test")
	if got := name(""); got != "env" {
		t.Errorf("from a test outside of the package: %s", got)
	}
}

// TestLayoutCheck: fields that do not explain the size of a structure are not used.
func TestLayoutCheck(t *testing.T) {
	i, c := scalar("int"), scalar("char")
	for _, x := range []struct {
		fields      []layoutField
		aligned     bool
		size, align int
		want        bool
	}{
		{[]layoutField{{"a", i, 0, 4}}, false, 4, 4, true},
		{[]layoutField{{"a", c, 0, 1}, {"b", i, 4, 4}}, false, 8, 4, true},
		{[]layoutField{{"a", c, 0, 1}, {"b", i, 8, 4}}, false, 12, 4, false},
		{[]layoutField{{"a", c, 0, 1}, {"b", i, 8, 4}}, true, 12, 4, true},
		{[]layoutField{{"a", i, 4, 4}}, false, 8, 4, false},
		{[]layoutField{{"a", i, 0, 4}, {"b", i, 0, 4}}, false, 4, 4, false},
		{[]layoutField{{"a", i, 0, 4}}, false, 8, 4, false},
		{[]layoutField{{"a", i, 0, 4}}, false, 32, 32, true},
	} {
		l := &layout{size: x.size, align: x.align, fields: x.fields}
		rec := &srcRecord{fields: make([]srcField, len(x.fields)), plain: true}
		rec.fields[len(rec.fields)-1].aligned = x.aligned
		if l.check(rec); (l.fields != nil) != x.want {
			t.Errorf("%+v: %v %s", x, l.fields, l.why)
		}
	}
}

// TestProbeFails: a question that the compiler refuses costs only its own answer, and few
// compilations.
func TestProbeFails(t *testing.T) {
	var asked []string
	p := &prober{source: []byte("// source\n"), compile: func(_ context.Context, _ string, source []byte, _ *compile.Options) (*compile.Result, error) {
		text := string(source)
		asked = append(asked, text)
		if strings.Contains(text, "wrong") {
			return nil, &compile.Error{Log: "wrong"}
		}
		ptx := ""
		for i := range strings.Count(text, "(ferry_tag<right>)") {
			ptx += fmt.Sprintf(".visible .entry _Z12ferry_bind_%d9ferry_tagIPFviEJEE(\n", i)
		}
		return &compile.Result{PTX: []byte(ptx)}, nil
	}}
	const wrong = 5
	questions := slices.Repeat([]string{"ferry_tag<right>"}, 16)
	questions[wrong] = "ferry_tag<wrong>"
	answers, err := p.ask(context.Background(), questions)
	if err != nil || len(answers) != len(questions) || len(asked) != 1+2*4 { // twice the logarithm
		t.Errorf("%v, %v after %d compilations", answers, err, len(asked))
	}
	for i, answer := range answers {
		if (answer == nil) != (i == wrong) {
			t.Errorf("answer %d is %v", i, answer)
		}
	}
	if !strings.HasPrefix(asked[0], "// source\n") {
		t.Errorf("asked %s", asked[0])
	}
	p.compile = func(context.Context, string, []byte, *compile.Options) (*compile.Result, error) {
		return nil, context.Canceled
	}
	if _, err := p.ask(context.Background(), []string{"a", "b"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
