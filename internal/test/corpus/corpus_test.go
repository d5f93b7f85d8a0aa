package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// write writes files, whose names may have folders.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLists reads the lists of the repository, and writes them as they are.
func TestLists(t *testing.T) {
	head, all, err := readList("files.txt")
	if err != nil {
		t.Fatal(err)
	}
	files, used := 0, 0
	for _, p := range all {
		files += len(p.files)
		used += min(1, len(p.files))
		if len(p.commit) != 40 {
			t.Errorf("%s: %q is no commit", p.name, p.commit)
		}
	}
	if files < 300 || used < 12 {
		t.Errorf("%d files of %d projects, want 300 of 12", files, used)
	}
	again := filepath.Join(t.TempDir(), "files.txt")
	if err := writeList(again, head, all); err != nil {
		t.Fatal(err)
	}
	got, _ := os.ReadFile(again)
	want, _ := os.ReadFile("files.txt")
	if string(got) != string(want) {
		t.Error("the list as written differs from the list that was read")
	}
}

// TestFlags reads the flags of a makefile.
func TestFlags(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"other/x.h": "", "own/y.h": ""})
	const makefile = "CFLAGS := -std=c++17 -I../other -DN=4 -I$(X)/include \\\n  -I../nosuch\n# -DLATER\nCFLAGS += -g -DDEBUG\n"
	got := flagsOf(makefile, dir, "own")
	if want := []string{"-DN=4", "-Iother"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// findClang returns a clang, or skips the test.
func findClang(t *testing.T) string {
	for _, name := range []string{"clang++", "clang++-19", "clang++-18", "clang++-14"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no clang++")
	return ""
}

// TestChoose chooses among files: a part, a file with a library's header behind one of the project,
// a file for one system alone, and files that need nothing.
func TestChoose(t *testing.T) {
	clang := findClang(t)
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"a/whole.cu":      "#include <vector>\n#include <sys/time.h>\n#include \"part.cu\"\n#include \"shared.h\"\n",
		"a/part.cu":       "__global__ void k();\n",
		"inc/shared.h":    "#pragma once\n#include <cuda_runtime.h>\n#ifdef _WIN32\n#include <windows.h>\n#endif\n",
		"inc/library.h":   "#include <cublas_v2.h>\n",
		"b/blas.cu":       "#include \"library.h\"\n",
		"b/device.cu":     "#ifdef __CUDA_ARCH__\n#include <cub/cub.cuh>\n#endif\n",
		"b/plain.cu":      "#include \"nothing.h\"\n#if 0\n#include <mpi.h>\n#endif\n",
		"b/nothing.h":     "",
		"b/other/more.cu": "#include <cstdio>\n",
	})
	p := &project{name: "test", limit: 10, include: []string{"inc"}}
	if err := p.choose(t.Context(), clang, dir); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range p.files {
		got = append(got, f.path)
	}
	if want := []string{"a/whole.cu", "b/other/more.cu", "b/plain.cu"}; !slices.Equal(got, want) {
		t.Errorf("chose %q, want %q: %s", got, want, p.note)
	}
	const note = "6 .cu files: 1 are parts of others, 2 need a foreign header (cub/cub.cuh 1, cublas_v2.h 1), 3 of the other 3 are chosen"
	if p.note != note {
		t.Errorf("got note  %s\nwant      %s", p.note, note)
	}
	p.limit = 2
	if err := p.choose(t.Context(), clang, dir); err != nil || len(p.files) != 2 {
		t.Errorf("chose %d files, error %v, want 2", len(p.files), err)
	}
}

// TestCompile compiles a file that is right, one with an error, and one that needs what Ferry lacks.
func TestCompile(t *testing.T) {
	findClang(t)
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"inc/n.h":    "#define COUNT N\n",
		"right.cu":   "#include \"n.h\"\n__global__ void k(int *p) { *p = COUNT; }\n",
		"wrong.cu":   "__global__ void k(int *p) { *p = nosuch; }\n",
		"foreign.cu": "__global__ void k(float *o, cudaTextureObject_t t) { *o = tex1D<float>(t, 0.5f); }\n",
	})
	for name, want := range map[string]result{
		"right.cu":   {accepted, ""},
		"wrong.cu":   {failed, "wrong.cu:1:34: error: use of undeclared identifier 'nosuch'"},
		"foreign.cu": {refused, "foreign.cu:1:"},
	} {
		got := compileFile(t.Context(), dir, file{path: name, args: []string{"-Iinc", "-DN=4"}})
		if got.outcome != want.outcome || !strings.HasPrefix(got.why, want.why) {
			t.Errorf("%s: %v %q, want %v %q", name, got.outcome, got.why, want.outcome, want.why)
		}
	}
	if got := kind("a/b.cu:1:2: error: unknown type 'x'"); got != "unknown type 'x'" {
		t.Errorf("kind: got %q", got)
	}
}

// TestPrograms reads the list of programs, and checks outputs.
func TestPrograms(t *testing.T) {
	all, err := readPrograms("programs.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, projects, err := readList("files.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if !slices.ContainsFunc(projects, func(q *project) bool { return q.name == p.project }) {
			t.Errorf("%s: no project %s in files.txt", p.name, p.project)
		}
	}
	if len(all) != 40 {
		t.Errorf("%d programs, want 40", len(all))
	}
	p, err := readProgram(`a b c/d | x.cu -I.. | -n=1 | /PASS$/ /3.3/ !/FAIL|bad/`)
	if err != nil {
		t.Fatal(err)
	}
	for output, want := range map[string]string{
		"3/3\nPASS\n":        "",
		"3/3\nPASSED\n":      `check: the output has no "(?m)PASS$"`,
		"PASS\n":             `check: the output has no "(?m)3.3"`,
		"3/3\nPASS\nbadly\n": `check: the output has "bad"`,
	} {
		if got := p.verdict(output); got != want {
			t.Errorf("%q: got %q, want %q", output, got, want)
		}
	}
}

// TestProgram builds and runs programs with a command that stands for ferry.
func TestProgram(t *testing.T) {
	dir := t.TempDir()
	const ferry = "#!/bin/sh\n[ \"$4\" = right.cu ] || { echo 'x.cu:1: error: it is wrong'; exit 1; }\n" +
		"printf '#!/bin/sh\\necho \"PASS $LD_LIBRARY_PATH $1\"; [ \"$1\" != hang ] || sleep 60; exit $2' >$3; chmod +x $3\n"
	write(t, dir, map[string]string{"ferry": ferry, "p/f/right.cu": ""})
	if err := os.Chmod(filepath.Join(dir, "ferry"), 0o700); err != nil {
		t.Fatal(err)
	}
	o := options{root: dir, ferry: filepath.Join(dir, "ferry"), limit: 5 * time.Second}
	for line, want := range map[string]string{
		"a p f | right.cu | x 0 | /PASS LIB x/": "",
		"b p f | wrong.cu | |":                  "build: x.cu:1: error: it is wrong (exit status 1)",
		"c p f | right.cu | x 3 |":              "run: PASS LIB x (exit status 3)",
		"d p f | right.cu | x 0 | /nothing/":    `check: the output has no "(?m)nothing"`,
		"e p f | right.cu | hang 0 |":           "run: PASS LIB hang (not ready in 1s)",
	} {
		p, err := readProgram(line)
		if err != nil {
			t.Fatal(err)
		}
		if p.name == "e" {
			o.limit = time.Second
		}
		if _, _, got := o.program(t.Context(), &p, dir, "LIB"); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
		o.limit = 5 * time.Second
	}
}
