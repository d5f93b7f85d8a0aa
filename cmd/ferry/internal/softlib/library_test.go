package softlib

import (
	"context"
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ferrygpu/ferry/internal/secureenv"
)

// stub is a package that stands for cmd/libcuda.
const stub = `package main

// static int one(void) { return 1; }
import "C"

//export cuInit
func cuInit(flags uint32) int32 { return int32(C.one()) + 41 }

func main() {}
`

// user calls the function of stub.
const user = `int cuInit(unsigned flags);
int main(void) { return cuInit(0); }
`

// needs skips a test without a program.
func needs(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("no %s", name)
	}
	return path
}

// write writes a file and makes its folder.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// stubModule makes a module that stands for Ferry's.
func stubModule(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a folder, and so") // with a space and a comma
	write(t, filepath.Join(dir, "go.mod"), "module "+module+"\n\ngo 1.26.0\n")
	write(t, filepath.Join(dir, target, "main.go"), stub)
	write(t, filepath.Join(dir, "kernels", "compat", "cuda.h"), "int cuInit(unsigned);\n")
	write(t, filepath.Join(dir, "kernels", "kernels.cu"), "no header\n")
	write(t, filepath.Join(dir, target, "exports.map"), "{ global: cu*; local: *; };\n")
	return dir
}

// build runs a compiler in a folder.
func build(t *testing.T, dir string, args ...string) {
	t.Helper()
	c := exec.Command(args[0], args[1:]...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// TestBuild builds a library, runs a program on it, finds it in the cache, and builds it anew when a
// source has changed. Variables that would make another library do not count.
func TestBuild(t *testing.T) {
	gcc := needs(t, "gcc")
	t.Setenv("CC", "")
	t.Setenv("GOFLAGS", "-n") // does nothing
	t.Setenv("GOARCH", "386")
	var said []string
	b := Builder{Source: stubModule(t), Cache: filepath.Join(t.TempDir(), "a", "b"), Say: func(text string) { said = append(said, text) }}
	first, err := b.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !first.Built || len(said) != 1 || !strings.Contains(said[0], "gcc") || !strings.Contains(first.Compiler, "gcc") {
		t.Errorf("got %+v, said %q", first, said)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "user.c"), user)
	build(t, dir, gcc, "-o", "user", "user.c", "-L"+first.Folder, "-lcuda")
	c := exec.Command(filepath.Join(dir, "user"))
	c.Env = append(os.Environ(), first.Environment())
	if err := c.Run(); c.ProcessState == nil || c.ProcessState.ExitCode() != 42 {
		t.Errorf("a program on the library: %v, want the status 42", err)
	}
	checkExports(t, first.Path())
	checkCopy(t, first)
	again, err := b.Build(t.Context())
	if err != nil || again.Built || again.Folder != first.Folder || len(said) != 1 {
		t.Errorf("a second time: got %+v, %v", again, err)
	}
	write(t, filepath.Join(b.Source, "docs", "page.go"), "package docs\n")
	write(t, filepath.Join(b.Source, "cmd", "ferry", "main.go"), "package main\n")
	if same, err := b.Build(t.Context()); err != nil || same.Built {
		t.Errorf("after a change of what the library has not: got %+v, %v", same, err)
	}
	write(t, filepath.Join(b.Source, target, "more.go"), "package main\n")
	other, err := b.Build(t.Context())
	if err != nil || !other.Built || other.Folder == first.Folder {
		t.Errorf("after a change: got %+v, %v", other, err)
	}
	entries, err := os.ReadDir(b.Cache)
	if len(entries) != 2 || err != nil {
		t.Errorf("the cache has %v, %v, want two libraries", entries, err)
	}
}

// checkCopy copies a library twice to one folder, and not over that of others.
func checkCopy(t *testing.T, l *Library) {
	t.Helper()
	want, err := os.ReadFile(l.Path())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "new", "folder")
	for range 2 {
		if err := l.CopyTo(dir); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, linkName)); string(got) != string(want) || err != nil {
			t.Errorf("the copy has %d bytes, %v, want %d", len(got), err, len(want))
		}
		if got, err := os.ReadFile(filepath.Join(dir, "headers", "compat", "cuda.h")); string(got) != "int cuInit(unsigned);\n" || err != nil {
			t.Errorf("the copy's cuda.h is %q, %v", got, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "headers", "kernels.cu")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the copy has a file that is no header: %v", err)
		}
	}
	for _, name := range []string{Name, linkName} {
		other := t.TempDir()
		write(t, filepath.Join(other, "libcuda.so.580"), "of NVIDIA")
		if err := os.Symlink("libcuda.so.580", filepath.Join(other, name)); err != nil {
			t.Fatal(err)
		}
		err := l.CopyTo(other)
		if err == nil || !strings.Contains(err.Error(), name+" is there already, and is not a library of Ferry") {
			t.Errorf("over %s of others: %v", name, err)
		}
		if text, err := os.ReadFile(filepath.Join(other, "libcuda.so.580")); string(text) != "of NVIDIA" || err != nil {
			t.Errorf("%s of others is lost: %.20q, %v", name, text, err)
		}
	}
}

// checkExports demands the name by which programs ask for a library, and that it exports nothing of
// cgo's, which would meet that of the program.
func checkExports(t *testing.T, path string) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			names = append(names, s.Name)
		}
	}
	soname, err := f.DynString(elf.DT_SONAME)
	if len(soname) != 1 || soname[0] != Name || len(names) != 1 || names[0] != "cuInit" || err != nil {
		t.Errorf("the library is %q, %v, and exports %q, want cuInit alone", soname, err, names)
	}
}

// TestBuildAtOnce: several builds of one library give one, and leave nothing else.
func TestBuildAtOnce(t *testing.T) {
	needs(t, "gcc")
	t.Setenv("CC", "")
	b := Builder{Source: stubModule(t), Cache: filepath.Join(t.TempDir(), "cache")}
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			l, err := b.Build(t.Context())
			if err != nil {
				t.Error(err)
			} else if info, err := os.Stat(l.Path()); err != nil || info.Size() == 0 {
				t.Errorf("the library: %v, %v", info, err)
			}
		})
	}
	all.Wait()
	if entries, err := os.ReadDir(b.Cache); len(entries) != 1 || err != nil {
		t.Errorf("the cache has %v, %v, want one library", entries, err)
	}
}

// TestBuildFails: an error of the compiler is shown, and leaves nothing behind.
func TestBuildFails(t *testing.T) {
	needs(t, "gcc")
	b := Builder{Source: stubModule(t), Cache: filepath.Join(t.TempDir(), "cache")}
	write(t, filepath.Join(b.Source, target, "main.go"), "package main\n\nfunc main() { unknown() }\n")
	l, err := b.Build(t.Context())
	if l != nil || err == nil || !strings.Contains(err.Error(), "build libcuda.so.1: go build in ") || !strings.Contains(err.Error(), "undefined: unknown") {
		t.Errorf("got %v, %v", l, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Build(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("an end before the begin: %v", err)
	}
	if entries, err := os.ReadDir(b.Cache); len(entries) != 0 || err != nil {
		t.Errorf("the cache has %v, %v", entries, err)
	}
}

// TestMissingTools: the error has all that is missing, and what to do.
func TestMissingTools(t *testing.T) {
	goTool := needs(t, "go")
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	t.Setenv("CC", "")
	_, err := Builder{}.Build(t.Context())
	for _, want := range []string{"there is no Go", "https://go.dev/dl", "there is no C compiler: gcc, clang and clang-22 to clang-14 were not found in PATH", "apt install gcc"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without both: %v, want %q", err, want)
		}
	}
	if err := os.Symlink(goTool, filepath.Join(bin, "go")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CC", "mycc -O1")
	_, err = Builder{}.Build(t.Context())
	if err == nil || strings.Contains(err.Error(), "no Go") || !strings.Contains(err.Error(), "mycc was not found in PATH: correct the variable CC") {
		t.Errorf("without the compiler of CC: %v", err)
	}
	script := filepath.Join(bin, "clang-19")
	write(t, script, "#!/bin/sh\necho clang version 19.1.7\necho more\n")
	if err := os.Chmod(script, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CC", "")
	if tools, err := findTools(t.Context()); err != nil || tools.compiler != script || tools.compilerName != "clang version 19.1.7" {
		t.Errorf("with a clang of another name: %+v, %v", tools, err)
	}
}

// TestPrivileged: the user who starts a privileged program must not choose the compiler.
func TestPrivileged(t *testing.T) {
	defer secureenv.Assume(true)()
	if l, err := (Builder{Source: stubModule(t), Cache: filepath.Join(t.TempDir(), "cache")}).Build(t.Context()); l != nil || err == nil || !strings.Contains(err.Error(), "not in a privileged program") {
		t.Errorf("got %v, %v", l, err)
	}
}

// TestFindSource: this test was compiled from a checkout, so that has the sources. A folder of
// another module has none, nor has one without the library.
func TestFindSource(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{"": "has no sources of it", dir: "has no sources of it"} {
		if got := unfit(path); got != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
	write(t, filepath.Join(dir, "go.mod"), "module "+module+"/v2\n")
	if got := unfit(dir); got != "has no sources of it" {
		t.Errorf("another module: got %q", got)
	}
	write(t, filepath.Join(dir, "go.mod"), "module "+module+"\n")
	if got := unfit(dir); got != "has no cmd/libcuda" {
		t.Errorf("without the library: got %q", got)
	}
	got, err := findSource(t.Context(), needs(t, "go"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := filepath.Abs("../../../..")
	if got != want || err != nil {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestKey: each change of what makes the library gives another name in the cache.
func TestKey(t *testing.T) {
	t.Setenv("CC", "")
	dir := stubModule(t)
	tool := tools{goVersion: "go1", compiler: "gcc", compilerName: "gcc 14"}
	seen, tags := map[string]string{}, ""
	next := func(what string) {
		t.Helper()
		key, err := tool.key(dir, tags)
		if err != nil {
			t.Fatal(err)
		}
		if before, again := seen[key]; again {
			t.Errorf("%s has the name of %s", what, before)
		}
		seen[key] = what
	}
	next("the beginning")
	write(t, filepath.Join(dir, "cu", "a.go"), "12")
	write(t, filepath.Join(dir, "cu", "b.go"), "3")
	next("two files")
	write(t, filepath.Join(dir, "cu", "a.go"), "1")
	write(t, filepath.Join(dir, "cu", "b.go"), "23")
	next("the same bytes in other files")
	if err := os.Rename(filepath.Join(dir, "cu", "b.go"), filepath.Join(dir, "cu", "c.go")); err != nil {
		t.Fatal(err)
	}
	next("another name")
	tool.compilerName = "gcc 15"
	next("another version of the compiler")
	tool.goVersion = "go2"
	next("another Go")
	t.Setenv("CGO_CFLAGS", "-O3")
	next("other flags")
	tags = "hosttsan"
	next("a tag")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	want, _ := tool.key(dir, tags)
	if got, err := tool.key(link, tags); got != want || err != nil {
		t.Errorf("by a link: got %s, %v, want %s", got, err, want)
	}
	if key, err := tool.key(t.TempDir(), tags); err == nil || !strings.Contains(err.Error(), "has no files") {
		t.Errorf("an empty folder: got %s, %v", key, err)
	}
	if _, err := tool.key(filepath.Join(dir, "none"), tags); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// TestCacheOfOthers: what other users can write is not loaded, nor is anything built there.
func TestCacheOfOthers(t *testing.T) {
	needs(t, "gcc")
	t.Setenv("CC", "")
	b := Builder{Source: stubModule(t), Cache: filepath.Join(t.TempDir(), "cache")}
	demand := func(path string, mode, back os.FileMode) {
		t.Helper()
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if l, err := b.Build(t.Context()); err == nil || !strings.Contains(err.Error(), path+" can be written by other users") {
			t.Errorf("%s with mode %#o: got %v, %v", path, mode, l, err)
		}
		if err := os.Chmod(path, back); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(b.Cache, "other"), "x")
	demand(b.Cache, 0o777, 0o755)
	l, err := b.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	demand(b.Cache, 0o775, 0o755)
	demand(l.Folder, 0o722, 0o700)
	demand(l.Path(), 0o757, 0o755)
	if again, err := b.Build(t.Context()); err != nil || again.Built {
		t.Errorf("at last: got %+v, %v", again, err)
	}
	b.Cache = filepath.Join(t.TempDir(), "a:b")
	if l, err := b.Build(t.Context()); err == nil || !strings.Contains(err.Error(), "has a colon or a semicolon") {
		t.Errorf("a folder that LD_LIBRARY_PATH cannot have: got %v, %v", l, err)
	}
}
