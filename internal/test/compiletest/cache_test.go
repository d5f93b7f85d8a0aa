package compiletest

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/compile"
)

// fakeClang writes a program that counts its runs in a file and writes a line: enough for
// Output, which does not read what it writes.
func fakeClang(t *testing.T, dir, line string) (path string, runs func() int) {
	t.Helper()
	path, count := filepath.Join(dir, "clang"), filepath.Join(dir, "runs")
	script := "#!/bin/sh\necho x >>'" + count + "'\ncat\necho " + line + "\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path, func() int {
		text, _ := os.ReadFile(count)
		return bytes.Count(text, []byte("x"))
	}
}

// TestOutput: a clang runs once for the same flags and source, and again when one of them,
// or the clang, changes, or when the file is damaged.
func TestOutput(t *testing.T) {
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("needs a shell: ", err)
	}
	cache, dir := t.TempDir(), t.TempDir()
	t.Setenv(CacheVariable, cache)
	path, runs := fakeClang(t, dir, "first")
	want := 0
	try := func(what string, again bool, text, flag string) {
		t.Helper()
		if again {
			want++
		}
		out, log, err := Output(t.Context(), path, []string{"-O2", flag}, []byte(text), strings.NewReplacer("/tmp/1", "", "/tmp/2", ""))
		if err != nil || log != "" || !strings.HasPrefix(string(out), text) || runs() != want {
			t.Errorf("%s: %q, %q, %v after %d runs, want %d", what, out, log, err, runs(), want)
		}
	}
	try("first", true, "a", "-I/tmp/1")
	try("the same", false, "a", "-I/tmp/1")
	try("another temporary folder", false, "a", "-I/tmp/2")
	try("another flag", true, "a", "-O0")
	try("another source", true, "b", "-I/tmp/1")
	fakeClang(t, dir, "second, larger")
	try("another clang", true, "a", "-I/tmp/1")
	if err := os.Chtimes(path, time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	try("a clang of another time", true, "a", "-I/tmp/1")
	files, err := filepath.Glob(filepath.Join(cache, prefix+"*"))
	if err != nil || len(files) != want {
		t.Fatalf("%d files, want %d; %v", len(files), want, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text[:len(text)-9], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	try("damaged files", true, "a", "-I/tmp/1")
	t.Setenv(CacheVariable, "off")
	try("without a cache", true, "a", "-I/tmp/1")
}

// TestSourceKey: what decides a result is in its key, and what cannot be known has none.
func TestSourceKey(t *testing.T) {
	dir := t.TempDir()
	path, _ := fakeClang(t, dir, "x")
	name := filepath.Join(dir, "k.cu")
	seen := map[string]string{}
	key := func(what, source string, o compile.Options, want bool) string {
		t.Helper()
		o.Compiler = path
		k, _, known := sourceKey(t.Context(), name, []byte(source), &o)
		if known != want {
			t.Errorf("%s: known is %t, want %t", what, known, want)
		}
		return k
	}
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	differs := func(what, source string, o compile.Options) {
		t.Helper()
		k := key(what, source, o, true)
		if before, twice := seen[k]; twice {
			t.Errorf("%s has the key of %s", what, before)
		}
		seen[k] = what
		if again := key(what, source, o, true); again != k {
			t.Errorf("%s: the key changes", what)
		}
	}
	differs("a source", "x", compile.Options{})
	differs("another source", "y", compile.Options{})
	differs("another architecture", "x", compile.Options{Arch: "sm_90"})
	differs("a macro", "x", compile.Options{Define: []string{"A=1"}})
	differs("line info", "x", compile.Options{LineInfo: true})
	differs("fast arithmetic", "x", compile.Options{FastMath: true})
	differs("a header of Ferry", "#include \"ferry.h\"\n", compile.Options{})
	write("a.h", "#include \"b.h\"\n")
	differs("an included file", "#include \"a.h\"\n", compile.Options{})
	write("b.h", "int b;")
	differs("what that includes", "#include \"a.h\"\n", compile.Options{})
	write("b.h", "int c;")
	differs("what that includes, changed", "#include \"a.h\"\n", compile.Options{})
	first := key("any name", "x", compile.Options{}, true)
	differs("a name that matters", "assert(x)", compile.Options{})
	name = filepath.Join(dir, "other.cu")
	differs("another name with line info", "x", compile.Options{LineInfo: true})
	differs("another name that matters", "assert(x)", compile.Options{})
	if key("another name", "x", compile.Options{}, true) != first {
		t.Error("a name that only messages have changes the key")
	}
	key("an include directory", "x", compile.Options{Include: []string{dir}}, false)
	key("a name from a macro", "#define A \"a.h\"\n#include A\n", compile.Options{}, false)
	key("a test for a header", "#if __has_include(\"a.h\")\n#endif\n", compile.Options{}, false)
	write("c.h", "#include \"c.h\"\n")
	key("endless includes", "#include \"c.h\"\n", compile.Options{}, false)
}

// TestSource: the second result is the first one, and an error stays one.
func TestSource(t *testing.T) {
	cache := t.TempDir()
	t.Setenv(CacheVariable, cache)
	o := &compile.Options{Compiler: Clang(t)}
	for i, c := range []struct {
		source, again string // the names
		text          string
		o             compile.Options
	}{
		{"a/k.cu", "b/k.cu", "extern \"C\" __global__ void k(int *x) { *x = 1; }", *o},
		{"k.cu", "k.cu", "#warning \"a message\"\n__global__ void k(int *x) {}", compile.Options{Compiler: o.Compiler, LineInfo: true}},
	} {
		first := Compile(t, c.source, c.text, &c.o)
		files, err := os.ReadDir(cache)
		if err != nil || len(files) != i+1 {
			t.Fatalf("%d files are kept, want %d; %v", len(files), i+1, err)
		}
		if again := Compile(t, c.again, c.text, &c.o); again == first || !reflect.DeepEqual(again, first) {
			t.Errorf("got %+v, want %+v", again, first)
		}
		if len(first.Warnings) != i {
			t.Errorf("%d warnings, want %d", len(first.Warnings), i)
		}
	}
	// A message has the name, so it is not kept for another one.
	const noisy = "#warning \"a message\"\n__global__ void k(int *x) {}"
	for _, name := range []string{"c.cu", "d.cu"} {
		if r := Compile(t, name, noisy, o); !strings.Contains(r.Log, name) {
			t.Errorf("the messages of %s: %s", name, r.Log)
		}
	}
	for range 2 {
		if r, err := Source(t.Context(), "k.cu", []byte("__global__ void k() { wrong; }"), o); err == nil {
			t.Errorf("a wrong source gave %+v", r)
		}
	}
}

// TestPrune: the folder does not grow over its bound, keeps what was used last, and files of
// others stay. Several goroutines write at once.
func TestPrune(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(CacheVariable, dir)
	defer func(old int64) { maxCache = old }(maxCache)
	maxCache = 4000
	foreign := filepath.Join(dir, "thesis.txt")
	if err := os.WriteFile(foreign, make([]byte, 2*maxCache), 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(foreign, old, old); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 20 {
				store(strings.Repeat(string(rune('a'+i)), k+1), strings.Repeat("x", 50))
			}
		})
	}
	wg.Wait()
	files, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	size := int64(0)
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
		if err := os.Chtimes(file, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if size > maxCache {
		t.Errorf("%d bytes are kept, want at most %d", size, maxCache)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("another file of the folder: %v", err)
	}
	kept := strings.TrimPrefix(filepath.Base(files[0]), prefix)
	var text string
	if !load(kept, &text) || text != strings.Repeat("x", 50) {
		t.Fatalf("%s has %q", kept, text)
	}
	maxCache = size / 2
	store("last", text)
	for _, key := range []string{kept, "last"} {
		if !load(key, &text) {
			t.Errorf("%s was used last, and is gone", key)
		}
	}
}
