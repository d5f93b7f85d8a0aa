package bind

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/compile"
	"github.com/ferrygpu/ferry/internal/test/compiletest"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

// noCompiler is a compiler that must not be needed.
func noCompiler(context.Context, string, []byte, *compile.Options) (*compile.Result, error) {
	return nil, errors.New("a compiler was asked")
}

// edit replaces a text in a file, which must have it.
func edit(t *testing.T, path, old, now string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		t.Fatalf("%s has no %q", path, old)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), old, now, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

const checkedSource = `#include "p.h"
extern "C" __global__ void saxpy(int n, float a, const float *x, float *y) {}
__global__ void move(P p, P *to) {}
`

// checkedOutput is the output for checkedSource, which is compiled once.
var checkedOutput *Output

// checked returns the options of files that are up to date.
func checked(t *testing.T) (dir string, o *Options) {
	t.Helper()
	dir = writeFiles(t, "k.cu", checkedSource, "p.h", "struct P { int n; double d; };\n")
	o = &Options{Source: filepath.Join(dir, "k.cu"), Package: "k", compile: compiletest.Source}
	if checkedOutput == nil {
		checkedOutput = generate(t, o)
	}
	out := *checkedOutput
	out.GoFile, out.PTXFile = filepath.Join(dir, "k_cu.go"), filepath.Join(dir, "k.ptx")
	if err := out.Write(); err != nil {
		t.Fatal(err)
	}
	return dir, o
}

// TestCheckFresh: nothing is compiled while all hashes are right.
func TestCheckFresh(t *testing.T) {
	dir, o := checked(t)
	o.compile = noCompiler
	if err := Check(context.Background(), o); err != nil {
		t.Error(err)
	}
	// Line ends of Windows are no change.
	for _, name := range []string{"k.cu", "p.h", "k.ptx", "k_cu.go"} {
		path := filepath.Join(dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), "\n", "\r\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := Check(context.Background(), o); err != nil {
		t.Error("with the line ends of Windows:", err)
	}
}

// staleCase is a change of a file or of the options, and what Check says about it.
type staleCase struct {
	what, file, old, now string
	options              func(*Options)
	want                 []string
}

// TestCheckStale: each change is found, and named. Changes of what is compiled are drawn:
// each costs three compilations.
func TestCheckStale(t *testing.T) {
	compiled := []staleCase{
		{what: "a type", file: "k.cu", old: "float a", now: "double a", want: []string{"the source k.cu has changed", "kernel saxpy: argument 2 (a) is float in the Go file and double in the source"}},
		{what: "an element", file: "k.cu", old: "float *y", now: "double *y", want: []string{"kernel saxpy: argument 4 (y) is float * in the Go file and double * in the source"}},
		{what: "const", file: "k.cu", old: "const float *x", now: "float *x", want: []string{"kernel saxpy: argument 3 (x) is const float * in the Go file and float * in the source"}},
		{what: "a name", file: "k.cu", old: "int n,", now: "int m,", want: []string{"kernel saxpy: argument 1 is named n in the Go file and m in the source"}},
		{what: "another argument", file: "k.cu", old: "float *y)", now: "float *y, int z)", want: []string{"kernel saxpy has 4 arguments in the Go file and 5 in the source"}},
		{what: "a kernel less", file: "k.cu", old: "saxpy", now: "axpy", want: []string{"kernel saxpy is in the Go file and not in the source", "kernel axpy is in the source and not in the Go file"}},
		{what: "a body", file: "k.cu", old: "{}", now: "{ y[0] = a; }", want: []string{"the source k.cu has changed"}},
		{what: "a field", file: "p.h", old: "int n; double d;", now: "double n; double d;", want: []string{"the source p.h has changed", "struct P: field 1 (n) is int at byte 0 in the Go file and double at byte 0 in the source"}},
		{what: "a new field", file: "p.h", old: "double d;", now: "int m; double d; float e;", want: []string{"struct P has"}},
		{what: "a source less", file: "k.cu", old: "#include \"p.h\"", now: "struct P { int n; double d; };", want: []string{"the source k.cu has changed", "the source p.h is not used any more"}},
		{what: "options", options: func(o *Options) { o.Compile.Arch = "sm_90" }, want: []string{`it was made with the options "", and now they are "--arch sm_90"`}},
	}
	for _, c := range append(sample.Of(t, compiled, 3), []staleCase{
		{what: "the PTX", file: "k.ptx", old: "ret;", now: "trap;", want: []string{"k.ptx was changed after ferry bind wrote k_cu.go"}},
		{what: "the Go file", file: "k_cu.go", old: "q ferry.Queue", now: "queue ferry.Queue", want: []string{"it was changed after ferry bind wrote it"}},
		{what: "an older form", file: "k_cu.go", old: "//ferry:version \"4\"", now: "//ferry:version \"9\"", want: []string{"it was written by another version of ferry bind"}},
		{what: "another file", file: "k_cu.go", old: "//ferry:version", now: "// version", want: []string{"the file was not written by ferry bind"}},
		{what: "no file", options: func(o *Options) { o.Out = filepath.Join(filepath.Dir(o.Source), "other.go") }, want: []string{"the file does not exist"}},
	}...) {
		dir, o := checked(t)
		if c.file != "" {
			edit(t, filepath.Join(dir, c.file), c.old, c.now)
		}
		if c.options != nil {
			c.options(o)
		}
		err := Check(context.Background(), o)
		if _, stale := errors.AsType[*StaleError](err); !stale {
			t.Errorf("%s: got %v, want a StaleError", c.what, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %s", c.what, err, want)
			}
		}
		if c.what == "a body" && strings.Contains(err.Error(), "argument") {
			t.Errorf("%s: %v names an argument", c.what, err)
		}
	}
}

// TestCheckWithoutCompiler: the reasons that need no compiler are told without one.
func TestCheckWithoutCompiler(t *testing.T) {
	dir, o := checked(t)
	o.compile = noCompiler
	edit(t, filepath.Join(dir, "k.cu"), "float a", "double a")
	if err := Check(context.Background(), o); err == nil || !strings.Contains(err.Error(), "k.cu has changed") || !strings.Contains(err.Error(), "a compiler was asked") {
		t.Errorf("got %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "k.ptx")); err != nil {
		t.Fatal(err)
	}
	if err := Check(context.Background(), o); err == nil || !strings.Contains(err.Error(), "the PTX cannot be read") {
		t.Errorf("got %v", err)
	}
}

// TestCheckPTX: code that was made from PTX needs no source and no compiler.
func TestCheckPTX(t *testing.T) {
	ptx, err := os.ReadFile("testdata/mangled.ptx")
	if err != nil {
		t.Fatal(err)
	}
	dir := writeFiles(t, "k.ptx", string(ptx))
	o := &Options{Source: filepath.Join(dir, "k.ptx"), Package: "k", compile: noCompiler}
	generateAndWrite(t, o)
	if err := Check(context.Background(), o); err != nil {
		t.Error(err)
	}
	edit(t, filepath.Join(dir, "k.ptx"), ".param .f64 gain", ".param .f32 gain")
	if err := Check(context.Background(), o); err == nil || !strings.Contains(err.Error(), "kernel gather: argument 3 (gain) is .f64 in the Go file and .f32 in the source") {
		t.Errorf("got %v", err)
	}
}

// TestOptionText: folders are recorded as seen from the Go file.
func TestOptionText(t *testing.T) {
	f := &files{Options: &Options{PTX: "out/sub/k.ptx", Compile: compile.Options{Arch: "sm_90", Include: []string{"out/inc", "lib"}, Define: []string{"N=3"}, FastMath: true, LineInfo: true}}, out: "out/k_cu.go", ptx: "out/sub/k.ptx"}
	if got, want := f.optionText(), "-D N=3 -I inc -I ../lib --fast-math --lineinfo --ptx sub/k.ptx"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	f.compiled = true
	if got, want := f.optionText(), "--arch sm_90 -D N=3 -I inc -I ../lib --fast-math --lineinfo"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestStamp: what is written can be read again.
func TestStamp(t *testing.T) {
	s := &stamp{version: 3, options: `-D A="b c"`, sources: []hashed{{"a b.cu", "12"}}, ptx: hashed{"k.ptx", "34"},
		kernels: []signature{{name: "k<float, 4>", parts: []part{{"x", "const float *"}, {"\n", "\""}}}, {name: "l"}}, structs: []signature{{name: "P", parts: []part{{"int n", "at byte 0"}}}}}
	got, ok := readStamp([]byte("package p\n" + s.String() + "// other\n//ferry:\n//ferry:x\n//ferry:kernel \"open\n"))
	if !ok || got.String() != s.String() {
		t.Errorf("got\n%vwant\n%v", got, s)
	}
}
