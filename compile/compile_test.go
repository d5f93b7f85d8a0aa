package compile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/ptx"
)

// checkCompiler compiles the sources of testdata with a compiler, and demands the same
// kernels and the same places of errors from every one.
func checkCompiler(t *testing.T, compiler, arch string) {
	t.Helper()
	o := Options{Compiler: compiler, Arch: arch}
	t.Run("kernel", func(t *testing.T) { checkKernel(t, o) })
	t.Run("include", func(t *testing.T) { checkIncludes(t, o) })
	t.Run("lines", func(t *testing.T) { checkLines(t, o) })
	t.Run("options", func(t *testing.T) { checkOptions(t, o) })
	t.Run("errors", func(t *testing.T) { checkErrors(t, o) })
	t.Run("warning", func(t *testing.T) { checkWarning(t, o) })
	t.Run("missing header", func(t *testing.T) { checkMissing(t, o) })
	t.Run("many errors", func(t *testing.T) { checkMany(t, o) })
}

// entries compiles a file and returns the names of its kernels.
func entries(t *testing.T, file string, o Options) (*Result, string) {
	t.Helper()
	r, err := File(t.Context(), file, &o)
	if err != nil {
		t.Fatal(err)
	}
	m, err := ptx.Parse(file, string(r.PTX))
	if err != nil {
		t.Fatalf("%s: the PTX of %s: %v", file, r.Compiler, err)
	}
	var names []string
	for _, f := range m.Entries() {
		names = append(names, f.Name)
	}
	return r, strings.Join(names, " ")
}

func checkKernel(t *testing.T, o Options) {
	r, names := entries(t, "testdata/saxpy.cu", o)
	if names != "_Z5saxpyifPKfPf" || len(r.Warnings) > 0 || strings.TrimSpace(r.Log) != "" {
		t.Errorf("kernels %s, log %q", names, r.Log)
	}
	want := o.Arch
	if want == "" {
		want = DefaultArch
	}
	if r.Arch != want || !strings.Contains(string(r.PTX), ".target "+want+"\n") {
		t.Errorf("arch %q, PTX:\n%.400s", r.Arch, r.PTX)
	}
	if o.Arch != "" && o.Arch != DefaultArch && !sample.Full() {
		return
	}
	again, _ := entries(t, "testdata/saxpy.cu", o)
	if string(again.PTX) != string(r.PTX) {
		t.Error("the second PTX differs from the first")
	}
}

// saxpyByClang returns what clang makes of saxpy.cu. It runs once.
var saxpyByClang = sync.OnceValues(func() (*Result, error) {
	return File(context.Background(), "testdata/saxpy.cu", &Options{Compiler: "clang"})
})

func checkIncludes(t *testing.T, o Options) {
	o.Define = []string{"COUNT=10"}
	if _, names := entries(t, "testdata/include.cu", o); names != "squares" {
		t.Errorf("kernels %s", names)
	}
	source := []byte("#include <square.h>\nextern \"C\" __global__ void one(float *x) { *x = square(*x); }\n")
	o.Include = []string{"testdata"}
	if _, err := Source(t.Context(), "", source, &o); err != nil {
		t.Error(err)
	}
}

func checkLines(t *testing.T, o Options) {
	plain, _ := entries(t, "testdata/saxpy.cu", o)
	if strings.Contains(string(plain.PTX), ".loc") {
		t.Errorf("PTX without line info has lines")
	}
	o.LineInfo = true
	r, _ := entries(t, "testdata/saxpy.cu", o)
	m, err := ptx.Parse("saxpy.ptx", string(r.PTX))
	if err != nil {
		t.Fatal(err)
	}
	file := regexp.MustCompile(`(?m)^\s*\.file\s+(\d+)\s+"(.*)"`).FindAllStringSubmatch(string(r.PTX), -1)
	if !strings.Contains(string(r.PTX), "saxpy.cu\"") || strings.Contains(string(r.PTX), os.TempDir()) || len(m.Entries()) != 1 {
		t.Errorf("files %q", file)
	}
	if !strings.Contains(string(r.PTX), ".loc") {
		t.Error("no lines")
	}
}

func checkOptions(t *testing.T, o Options) {
	source := []byte("extern \"C\" __global__ void f(float *x) { x[0] = x[1] / x[2]; }\n")
	exact, err := Source(t.Context(), "f.cu", source, &o)
	if err != nil {
		t.Fatal(err)
	}
	o.FastMath = true
	fast, err := Source(t.Context(), "f.cu", source, &o)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(exact.PTX), "div.rn.f32") || !strings.Contains(string(fast.PTX), ".ftz.f32") {
		t.Errorf("exact:\n%s\nfast:\n%s", exact.PTX, fast.PTX)
	}
}

// checkErrors demands the lines and columns of the errors of wrong.cu, and nothing of a
// temporary directory.
func checkErrors(t *testing.T, o Options) {
	_, err := File(t.Context(), "testdata/wrong.cu", &o)
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	places := map[[2]int]bool{}
	template, column := false, -1
	if strings.HasPrefix(e.Compiler, "NVRTC 11") {
		column = 0 // not printed
	}
	for _, d := range e.Diagnostics {
		if d.Severity == "error" {
			places[[2]int{d.Line, d.Column}] = true
			template = template || d.Line == 1 && (d.Column == column || d.Column >= 55 && d.Column <= 57) // x.half
		}
		if d.File != "testdata/wrong.cu" || d.Source == "" || d.Message == "" {
			t.Errorf("%#v", d)
		}
	}
	// clang points at the function and NVRTC at the argument.
	if !places[[2]int{6, 9}] || !template || !places[[2]int{7, 12}] && !places[[2]int{7, 18}] && !places[[2]int{7, column}] || len(places) != 3 {
		t.Errorf("errors at %v:\n%v", places, e)
	}
	text := e.Error()
	for _, want := range []string{"compile testdata/wrong.cu: 3 errors, by ", "testdata/wrong.cu:6:9: error: ", "\n\ty[0] = absent + 1;\n\t       ^"} {
		if !strings.Contains(text, want) {
			t.Errorf("got\n%s\nwant it to have %q", text, want)
		}
	}
	if strings.Contains(text+e.Log, os.TempDir()) {
		t.Errorf("a temporary directory appears in\n%s\n%s", text, e.Log)
	}
}

func checkWarning(t *testing.T, o Options) {
	r, _ := entries(t, "testdata/warning.cu", o)
	for _, w := range r.Warnings {
		if w.Line == 5 && w.Severity == "warning" && w.Source == "#warning look here" && strings.Contains(w.Message, "look here") {
			return
		}
	}
	t.Errorf("warnings %+v, log:\n%s", r.Warnings, r.Log)
}

func checkMissing(t *testing.T, o Options) {
	_, err := File(t.Context(), "testdata/missing.cu", &o)
	if _, ok := errors.AsType[*Error](err); !ok {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"testdata/missing.cu:1", "helper_cuda.h belongs to the CUDA toolkit", "give its folder with -I"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got\n%v\nwant it to have %q", err, want)
		}
	}
}

func checkMany(t *testing.T, o Options) {
	source := "__global__ void f(int *x)\n{\n" + strings.Repeat("    x[0] = unknown;\n\n", 45) + "}\n"
	source = regexp.MustCompile(`unknown`).ReplaceAllStringFunc(source, func() func(string) string {
		n := 0
		return func(string) string { n++; return "unknown" + strings.Repeat("a", n) }
	}())
	_, err := Source(t.Context(), "f.cu", []byte(source), &o)
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	if len(e.Diagnostics) != maxErrors || e.More != 25 || !strings.HasSuffix(e.Error(), "\nand 25 more") {
		t.Errorf("%d diagnostics and %d more: %v", len(e.Diagnostics), e.More, e)
	}
}

// TestSplit demands that the notes of an error that is not kept are not kept either.
func TestSplit(t *testing.T) {
	var all []Diagnostic
	for i := range maxErrors + 2 {
		all = append(all, Diagnostic{Line: i, Severity: severityError}, Diagnostic{Line: i, Severity: severityNote})
	}
	all = append(all, Diagnostic{Severity: severityWarning}, Diagnostic{Severity: severityNote})
	errs, warnings, more := split(all)
	if len(errs) != 2*maxErrors || errs[len(errs)-1].Line != maxErrors-1 || len(warnings) != 2 || more != 2 {
		t.Errorf("%d errors and notes, %d warnings and notes, %d more", len(errs), len(warnings), more)
	}
}

// TestRelativeFiles demands names of line info that do not depend on the machine.
func TestRelativeFiles(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"./k.cu": "k.cu", filepath.ToSlash(here) + "/a/k.cu": "a/k.cu", "/other/k.cu": "/other/k.cu", "ferry/core.h": "ferry/core.h"} {
		if got := string(relativeFiles([]byte("\t.file\t1 \"" + name + "\", 1, 2\n"))); got != "\t.file\t1 \""+want+"\", 1, 2\n" {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

// TestBothCompilers demands the same kernels with the same parameters from both.
func TestBothCompilers(t *testing.T) {
	nvrtc, err := File(t.Context(), "testdata/saxpy.cu", &Options{Compiler: "nvrtc"})
	if _, missing := errors.AsType[*NotFoundError](err); missing {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	clang, err := saxpyByClang()
	skipWithout(t, err)
	var layouts [2][]ptx.Param
	for i, r := range []*Result{clang, nvrtc} {
		m, err := ptx.Parse(r.Compiler, string(r.PTX))
		if err != nil {
			t.Fatal(err)
		}
		layouts[i], _ = m.Entries()[0].ParamLayout()
	}
	if len(layouts[0]) != 4 || len(layouts[1]) != 4 {
		t.Fatalf("parameters %v and %v", layouts[0], layouts[1])
	}
	for i, p := range layouts[0] {
		if p.Offset != layouts[1][i].Offset || p.Size != layouts[1][i].Size {
			t.Errorf("parameter %d: %+v and %+v", i, p, layouts[1][i])
		}
	}
}

// TestByteOrderMark compiles a source that begins with one. It has no column.
func TestByteOrderMark(t *testing.T) {
	sample.SkipRace(t)
	r, err := Source(t.Context(), "k.cu", []byte("\ufeff__global__ void k() {}\r\n"), nil)
	skipWithout(t, err)
	if !strings.Contains(string(r.PTX), "_Z1kv") {
		t.Errorf("no kernel in %s", r.PTX)
	}
	_, err = Source(t.Context(), "k.cu", []byte("\ufeff__device__ int x = y;\n"), nil)
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	last := e.Diagnostics[len(e.Diagnostics)-1] // NVRTC also refuses the variable
	if last.Column != 20 || last.Source != "__device__ int x = y;" {
		t.Errorf("got %v", err)
	}
}

// skipWithout is compiletest.Check, which tests in this package cannot import.
func skipWithout(t *testing.T, err error) {
	t.Helper()
	_, missing := errors.AsType[*NotFoundError](err)
	switch {
	case missing && os.Getenv("FERRY_REQUIRE_COMPILER") != "1":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
}

// TestBadInput demands an error before any compiler is asked.
func TestBadInput(t *testing.T) {
	big := filepath.Join(t.TempDir(), "big.cu")
	f, err := os.Create(big)
	if err == nil {
		err = errors.Join(f.Truncate(maxSource+1), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	source := func(name, text string, o Options) func() error {
		return func() error { _, err := Source(nil, name, []byte(text), &o); return err } //lint:ignore SA1012 nil is allowed
	}
	file := func(path string) func() error {
		return func() error { _, err := File(context.Background(), path, nil); return err }
	}
	for _, c := range []struct {
		call func() error
		want string
	}{
		{source("k.cu", "", Options{Arch: "ampere"}), `architecture "ampere": want a name such as sm_80`},
		{source("k.cu", "", Options{Arch: "8"}), `architecture "8"`},
		{source("k.cu", "", Options{Compiler: "gcc"}), `compiler "gcc": want nvrtc, clang or an absolute path`},
		{source("k.cu", "", Options{Compiler: "./clang"}), `want nvrtc, clang or an absolute path`},
		{source("k.cu", "", Options{Compiler: t.TempDir()}), "is a directory"},
		{source("k.cu", "", Options{Compiler: filepath.Join(t.TempDir(), "clang")}), "no such file"},
		{source("k.cu", "", Options{Define: []string{"-o/x"}}), `macro "-o/x": want NAME`},
		{source("k.cu", "", Options{Define: []string{"A\nB"}}), "want NAME"},
		{source("k.cu", "", Options{Include: []string{""}}), `include directory ""`},
		{source("k.cu", "a\x00b", Options{}), "zero byte"},
		{source("k\n.cu", "", Options{}), "control character"},
		{file("testdata"), "not a regular file"},
		{file("testdata/none.cu"), "no such file"},
		{file(big), "more than 64 MiB"},
	} {
		if err := c.call(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// TestMissingHeader demands whose a header is.
func TestMissingHeader(t *testing.T) {
	sample.SkipRace(t)
	for message, want := range map[string]string{
		"'cub/block/block_reduce.cuh' file not found":   "cub/block/block_reduce.cuh belongs to the CUDA toolkit, which Ferry's headers replace in part: templates",
		`cannot open source file "cuda_runtime.h"`:      "cuda_runtime.h belongs to the CUDA toolkit",
		`could not open source file "curand_kernel.h" `: "curand_kernel.h belongs to the CUDA toolkit",
		"'vector' file not found":                       "vector belongs to the C or C++ library",
		"'cstdarg' file not found":                      "cstdarg belongs to the C or C++ library",
		"'custom.h' file not found":                     "custom.h is not in the directory of the source",
		"'cuda_utils.h' file not found":                 "cuda_utils.h is not in the directory of the source",
	} {
		if got := missingHint(missingHeader(message)); !strings.HasPrefix(got, want) || !strings.Contains(got, ": ") {
			t.Errorf("%s: %q", message, got)
		}
	}
	if name := missingHeader("expected ';'"); name != "" {
		t.Errorf("a header %q", name)
	}
}

// TestArch demands the forms of names, and the nearest architecture.
func TestArch(t *testing.T) {
	for name, want := range map[string]string{
		"": "sm_80", "sm_80": "sm_80", "80": "sm_80", "compute_80": "sm_80", "8.0": "sm_80", "SM_90A": "sm_90a",
		"9.0a": "sm_90a", "12.0": "sm_120", "100f": "sm_100f", " 75 ": "sm_75",
	} {
		if a, err := parseArch(name); err != nil || a.String() != want {
			t.Errorf("%q: %v, error %v; want %s", name, a, err, want)
		}
	}
	known := []arch{{75, ""}, {80, ""}, {90, ""}, {90, "a"}, {100, "a"}}
	for number, want := range map[int]string{30: "sm_75", 76: "sm_75", 86: "sm_80", 999: "sm_90"} {
		if got := nearest(arch{number, ""}, known); got.String() != want {
			t.Errorf("nearest to %d: %v, want %s", number, got, want)
		}
	}
	for name, want := range map[string]int{"50": 73, "75": 73, "80": 73, "86": 73, "87": 74, "90": 78, "90a": 80, "120": 87, "120f": 88} {
		a, err := parseArch(name)
		if v, known := lowestPTX(a); err != nil || v != want || !known {
			t.Errorf("PTX for %s: %d, want %d", name, v, want)
		}
	}
	if _, known := lowestPTX(arch{130, ""}); known {
		t.Error("the PTX version of an unknown architecture is known")
	}
}
