package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/compile"
	"github.com/ferrygpu/ferry/internal/test/compiletest"
)

const saxpySource = `__global__ void saxpy(int n, float a, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] += a * x[i];
}
`

// fakeCompiler makes a shell script the only compiler. It is clang 19.1.7 for the calls
// that ask, and runs action to compile. It returns a folder with the file saxpy.cu.
func fakeCompiler(t *testing.T, action string) (dir string) {
	t.Helper()
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("needs a shell")
	}
	clang := filepath.Join(t.TempDir(), "clang")
	script := `#!/bin/sh
case "$*" in
--version) echo 'Debian clang version 19.1.7';;
--print-targets) echo nvptx64;;
*--print-supported-cpus) printf '\tsm_75\n\tsm_80\n\tsm_90\n' ;;
*) ` + action + `;;
esac
`
	if err := os.WriteFile(clang, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv(compile.ClangVariable, clang)
	dir = t.TempDir()
	write(t, filepath.Join(dir, "saxpy.cu"), saxpySource)
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// ptxAction is an action that prints the PTX of testdata and a warning.
func ptxAction(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("testdata/saxpy.ptx")
	if err != nil {
		t.Fatal(err)
	}
	return "/bin/cat " + path
}

// compileIn compiles saxpy.cu of a folder with clang. It returns the outputs with DIR
// instead of the folder.
func compileIn(t *testing.T, dir string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	status, stdout, stderr = ferryRun(append([]string{"compile", "--compiler", "clang", filepath.Join(dir, "saxpy.cu")}, args...)...)
	return status, strings.ReplaceAll(stdout, dir, "DIR"), strings.ReplaceAll(stderr, dir, "DIR")
}

// TestCompile demands the text, the document and the file of a compilation.
func TestCompile(t *testing.T) {
	dir := fakeCompiler(t, ptxAction(t))
	status, text, errs := compileIn(t, dir)
	if status != exitOK || errs != "" {
		t.Fatalf("status %d, stderr %q", status, errs)
	}
	golden(t, "compile.txt", text)
	ptx, err := os.ReadFile("testdata/saxpy.ptx")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "saxpy.ptx")); err != nil || string(got) != string(ptx) {
		t.Errorf("the output has %q, error %v", got, err)
	}
	_, document, _ := compileIn(t, dir, "--json", "-o", filepath.Join(dir, "other.ptx"))
	golden(t, "compile.json", document)
	if !json.Valid([]byte(document)) {
		t.Errorf("not JSON: %s", document)
	}
	status, out, errs := compileIn(t, dir, "-o", "-")
	if status != exitOK || out != string(ptx) || errs != strings.Replace(text, "DIR/saxpy.ptx", "-", 1) {
		t.Errorf("-o -: status %d, stdout %q, stderr %q", status, out, errs)
	}
}

// TestCompileFlags demands what reaches the compiler.
func TestCompileFlags(t *testing.T) {
	dir := fakeCompiler(t, `echo "$@" >&2; `+ptxAction(t))
	status, _, errs := compileIn(t, dir, "-Iinclude", "-I", "more", "-DA", "-DB=1", "-D", "C=2", "--arch", "9.0", "--lineinfo", "--fast-math", "--json")
	if status != exitOK || errs != "" {
		t.Fatalf("status %d, stderr %q", status, errs)
	}
	dir = fakeCompiler(t, `echo "k.cu:1:1: error: $*" >&2; exit 1`)
	_, _, errs = compileIn(t, dir, "-Iinclude", "-I", "more", "-DA", "-DB=1", "-D", "C=2", "--arch", "9.0", "--lineinfo", "--fast-math")
	for _, want := range []string{"--cuda-gpu-arch=sm_90 ", "+ptx78 ", "-I include -I more -DA -DB=1 -DC=2 ", "-gline-tables-only", "-ffast-math"} {
		if !strings.Contains(errs, want) {
			t.Errorf("got %q, want %q", errs, want)
		}
	}
}

// TestCompileErrors demands all errors of a source, as text and in the document, and that
// the old output stays.
func TestCompileErrors(t *testing.T) {
	dir := fakeCompiler(t, `for file; do :; done
name=$(/usr/bin/env sed -n '1s/^#line 1 "\(.*\)"/\1/p' "$file")
/bin/cat >&2 <<END
$name:3:13: error: use of undeclared identifier 'here'
$name:1:17: note: in this kernel
$name:5:9: warning: it is late
$name:5:17: error: expected ';'
END
exit 1`)
	old := filepath.Join(dir, "saxpy.ptx")
	write(t, old, "old")
	status, out, errs := compileIn(t, dir)
	if status != exitError || out != "" {
		t.Errorf("status %d, stdout %q", status, out)
	}
	golden(t, "compile-errors.txt", errs)
	status, document, again := compileIn(t, dir, "--json")
	if status != exitError || again != errs {
		t.Errorf("--json: status %d, stderr %q", status, again)
	}
	golden(t, "compile-errors.json", document)
	if got, err := os.ReadFile(old); err != nil || string(got) != "old" {
		t.Errorf("the old output has %q, error %v", got, err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 2 {
		t.Errorf("files %v, error %v", files, err)
	}
}

// TestCompileWarnings demands warnings on stderr, and success.
func TestCompileWarnings(t *testing.T) {
	dir := fakeCompiler(t, `echo "clang: warning: it is late" >&2; `+ptxAction(t))
	if status, out, errs := compileIn(t, dir); status != exitOK || errs != "ferry: warning: it is late\n" || !strings.Contains(out, "saxpy") {
		t.Errorf("status %d, stdout %q, stderr %q", status, out, errs)
	}
}

// TestCompileRefuses gives what only the compiler or the file system can refuse.
func TestCompileRefuses(t *testing.T) {
	dir := fakeCompiler(t, ptxAction(t))
	t.Setenv("FERRY_NVRTC", "")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--arch", "sm_86"}, "clang 19.1.7 cannot compile for it; the nearest that works is sm_80"},
		{[]string{"-o", dir}, "is a directory"},
		{[]string{"-o", filepath.Join(dir, "none", "x.ptx")}, "no such file"},
		{[]string{"-D", "1=2"}, `macro "1=2"`},
		{[]string{"--compiler", filepath.Join(dir, "saxpy.cu")}, "saxpy.cu"},
	} {
		if status, out, errs := compileIn(t, dir, c.args...); status != exitError || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%q: status %d, stdout %q, stderr %q; want %q", c.args, status, out, errs, c.want)
		}
	}
	t.Setenv(compile.ClangVariable, "")
	t.Setenv("PATH", "")
	for _, args := range [][]string{{"-o", dir}, {"-o", dir, "--json"}} { // refused before a compiler is looked for
		if status, out, errs := compileIn(t, dir, args...); status != exitError || out != "" || !strings.Contains(errs, "is a directory") {
			t.Errorf("%q: status %d, stdout %q, stderr %q", args, status, out, errs)
		}
	}
	status, _, errs := compileIn(t, dir)
	if status != exitError || !strings.Contains(errs, "PATH has no absolute directory") || !strings.Contains(errs, "apt install clang") {
		t.Errorf("no compiler: status %d, stderr %q", status, errs)
	}
}

// TestCompileUsage demands a usage error for each wrong command line.
func TestCompileUsage(t *testing.T) {
	dir := fakeCompiler(t, ptxAction(t))
	link := filepath.Join(dir, "link.cu")
	if err := os.Symlink(filepath.Join(dir, "saxpy.cu"), link); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-o", "-", "--json"}, "both write standard output"},
		{[]string{"-o", filepath.Join(dir, ".", "saxpy.cu")}, "is the source"},
		{[]string{"-o", link}, "is the source"},
		{[]string{"other.cu"}, `"other.cu" is not expected here`},
		{[]string{"--arch", "fast"}, `--arch: architecture "fast"`},
		{[]string{"--line-info"}, "not defined: --line-info"},
	} {
		if status, out, errs := compileIn(t, dir, c.args...); status != exitUsage || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%q: status %d, stdout %q, stderr %q; want %q", c.args, status, out, errs, c.want)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "saxpy.cu")); err != nil || string(text) != saxpySource {
		t.Errorf("the source is %q, error %v", text, err)
	}
}

// TestCompileAndRun compiles with the clang of this machine and runs the result.
func TestCompileAndRun(t *testing.T) {
	clang := compiletest.Clang(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "saxpy.cu"), saxpySource)
	status, out, errs := compileIn(t, dir, "--compiler", clang)
	if status != exitOK || errs != "" || !strings.Contains(out, "  _Z5saxpyifPKfPf(u32, f32, u64, u64)\n") {
		t.Fatalf("status %d, stdout %q, stderr %q", status, out, errs)
	}
	got := want(t, "run", "--device", "soft", filepath.Join(dir, "saxpy.ptx"), "--kernel", "_Z5saxpyifPKfPf", "--grid", "1", "--block", "32",
		"u32=4", "f32=2", "in:f32=1,2,3,4", "inout:f32=10,20,30,40")
	if !strings.Contains(got, "12  24  36  48") {
		t.Errorf("got %s", got)
	}
}
