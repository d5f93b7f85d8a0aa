package compile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/internal/test/sample"
)

// TestClang compiles the sources of testdata with a clang of this machine, and with another
// architecture, which is drawn. With FERRY_FULL=1 it does so with every clang and all.
func TestClang(t *testing.T) {
	sample.SkipRace(t)
	paths, _, err := clangs(os.Getenv(ClangVariable))
	all := sample.Full()
	if all {
		paths, _, err = clangs("")
	}
	if err != nil {
		t.Fatal(err)
	}
	usable := 0
	for _, path := range paths {
		c, err := probe(t.Context(), path)
		if err != nil {
			t.Log(err)
			continue
		}
		if usable++; usable > 1 && !all {
			break
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Logf("%s, newest PTX %d, %v", c.name(), c.newestPTX(), c.cpus)
			checkCompiler(t, path, DefaultArch)
			if testing.Short() {
				return
			}
			for _, a := range sample.Of(t, c.cpus, 1) {
				checkKernel(t, Options{Compiler: path, Arch: a.String()})
			}
		})
	}
	if usable == 0 {
		skipWithout(t, &NotFoundError{})
	}
}

// TestClangTooNew demands the nearest architecture from a clang that does not know one.
func TestClangTooNew(t *testing.T) {
	_, err := Source(t.Context(), "k.cu", nil, &Options{Compiler: "clang", Arch: "sm_999"})
	e, ok := errors.AsType[*ArchError](err)
	if !ok {
		skipWithout(t, err)
		t.Fatal("compiled for sm_999")
	}
	if e.Arch != "sm_999" || !strings.HasPrefix(e.Compiler, "clang ") {
		t.Errorf("%+v", e)
	}
	if _, err := Source(t.Context(), "k.cu", nil, &Options{Compiler: "clang", Arch: e.Nearest}); err != nil {
		t.Errorf("the nearest, %s: %v", e.Nearest, err)
	}
}

// script writes a program into a directory.
func script(t *testing.T, path, text string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("needs a shell")
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// fakeClang writes a clang that answers as one of a version does, and runs action to
// compile.
func fakeClang(t *testing.T, path, version, cpus, action string) string {
	t.Helper()
	return script(t, path, fmt.Sprintf(`case "$*" in
--version) echo '%s';;
--print-targets) echo '    nvptx64    - NVIDIA PTX 64-bit';;
*--print-supported-cpus) printf '\tsm_20\n%s' >&2;;
*) %s;;
esac`, version, cpus, action))
}

// onlyPath makes directories the whole PATH, and hides NVRTC.
func onlyPath(t *testing.T, path string) {
	t.Helper()
	t.Setenv("PATH", path)
	t.Setenv(ClangVariable, "")
	l := newFake()
	l.major = 1
	useFake(t, l)
}

// TestChoice demands that "clang" goes before the others, the newest of these first, and
// that one which does not know the architecture is passed over.
func TestChoice(t *testing.T) {
	dir := t.TempDir()
	for _, v := range []struct{ name, version, cpus string }{
		{"clang", "Ubuntu clang version 14.0.6-1", `\tsm_80\n\tsm_86\n`},
		{"clang-9", "clang version 9.0.1", `\tsm_80\n`},
		{"clang-19", "Debian clang version 19.1.7 (3)", `\tsm_80\n\tsm_90\n\tsm_90a\n`},
		{"clang-22", "clang version 22.1.0git", `\tsm_80\n\tsm_90\n\tsm_120\n\tsm_777\n`},
	} {
		fakeClang(t, filepath.Join(dir, v.name), v.version, v.cpus, "echo PTX by "+v.name+" '$@'")
	}
	onlyPath(t, dir)
	for _, c := range []struct{ arch, compiler, want string }{
		{"", "clang 14.0.6", ""},
		{"sm_90", "clang 22.1.0", ""},
		{"sm_90a", "clang 19.1.7", ""},
		{"sm_120", "clang 22.1.0", ""},
		{"sm_777", "", "clang 14.0.6 cannot compile for it; the nearest that works is sm_86"},
		{"sm_20", "", "the nearest that works is sm_80"},
	} {
		r, err := Source(t.Context(), "k.cu", nil, &Options{Arch: c.arch})
		switch {
		case err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%q: %v", c.arch, err)
		case err == nil && r.Compiler != c.compiler:
			t.Errorf("%q: %s, want %s", c.arch, r.Compiler, c.compiler)
		}
	}
	t.Setenv(ClangVariable, "clang-19")
	if r, err := Source(t.Context(), "k.cu", nil, nil); err != nil || r.Compiler != "clang 19.1.7" {
		t.Errorf("%s: %v, error %v", ClangVariable, r, err)
	}
	if r, err := Source(t.Context(), "k.cu", nil, &Options{Compiler: "clang-22"}); err != nil || r.Compiler != "clang 22.1.0" {
		t.Errorf("by name: %v, error %v", r, err)
	}
	t.Setenv(ClangVariable, filepath.Join(dir, "clang-22"))
	if r, err := Source(t.Context(), "k.cu", nil, nil); err != nil || r.Compiler != "clang 22.1.0" {
		t.Errorf("%s: %v, error %v", ClangVariable, r, err)
	}
}

// TestNotFound demands an error that names each candidate with its reason, and how to
// install one.
func TestNotFound(t *testing.T) {
	dir := t.TempDir()
	fakeClang(t, filepath.Join(dir, "clang-13"), "clang version 13.0.1", `\tsm_80\n`, "exit 1")
	script(t, filepath.Join(dir, "clang"), `case "$*" in --version) echo 'Apple clang version 15.0.0 (clang-1500)';; *) echo '  aarch64 - AArch64';; esac`)
	script(t, filepath.Join(dir, "clang-17"), "echo gcc 12.2.0")
	script(t, filepath.Join(dir, "clang-18"), "exit 3")
	if err := os.WriteFile(filepath.Join(dir, "clang-99"), nil, 0o644); err != nil { // cannot be executed
		t.Fatal(err)
	}
	onlyPath(t, dir)
	_, err := Source(t.Context(), "k.cu", nil, nil)
	e, ok := errors.AsType[*NotFoundError](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	for i, want := range []string{
		"NVRTC 1.1 is too old",
		"/clang: Apple clang 15.0.0 has no NVPTX backend",
		"/clang-18: --version: exit status 3",
		"/clang-17: is not clang",
		"/clang-13: clang 13.0.1 is too old, want 14 or newer",
	} {
		if len(e.Tried) != 5 || !strings.Contains(e.Tried[i], want) {
			t.Errorf("tried %q, want %q at %d", e.Tried, want, i)
		}
	}
	for _, want := range append(e.Tried, "apt install clang", "dnf install", "pacman", "brew install llvm", "winget", "pip install nvidia-cuda-nvrtc") {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q:\n%v", want, err)
		}
	}
	t.Setenv("PATH", "")
	if _, err := Source(t.Context(), "k.cu", nil, nil); err == nil || !strings.Contains(err.Error(), "PATH has no absolute directory") {
		t.Errorf("an empty PATH: %v", err)
	}
	t.Setenv(ClangVariable, "bin/clang")
	if _, err := Source(t.Context(), "k.cu", nil, nil); err == nil || !strings.Contains(err.Error(), "want an absolute path") {
		t.Errorf("a relative %s: %v", ClangVariable, err)
	}
}

// TestNothingInTheWorkingDirectory puts a clang into the working directory, and names that
// directory in each way that a shell accepts. It is never executed.
func TestNothingInTheWorkingDirectory(t *testing.T) {
	dir := t.TempDir()
	mark := filepath.Join(t.TempDir(), "executed")
	for _, name := range []string{"clang", "clang-19", "clang.exe", "libnvrtc.so.13", "ptxas"} {
		script(t, filepath.Join(dir, name), "echo ran >"+mark)
	}
	t.Chdir(dir)
	for _, path := range []string{"", ".", ":", "./", "..:.", "::", filepath.Base(dir), ":/nowhere", "/nowhere:"} {
		for _, named := range []string{"", "clang", "clang-19", "./clang"} {
			onlyPath(t, path)
			t.Setenv(ClangVariable, named)
			if r, err := Source(t.Context(), "k.cu", nil, nil); err == nil {
				t.Errorf("PATH=%q: %s compiled", path, r.Compiler)
			}
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("a program in the working directory was executed")
	}
}

// TestEnvironment demands that clang's search paths lack the working directory.
func TestEnvironment(t *testing.T) {
	got := environment([]string{"A=b", "PATH=:/bin:.:x:/usr/bin:", "LD_LIBRARY_PATH=:", "CPATH=:/x", "CPLUS_INCLUDE_PATH=.", "HOME=/h"})
	want := []string{"A=b", "PATH=/bin:/usr/bin", "HOME=/h", "LC_ALL=C"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestCancelClang demands that a compiler which hangs ends with its context.
func TestCancelClang(t *testing.T) {
	dir := t.TempDir()
	started := filepath.Join(dir, "started")
	fakeClang(t, filepath.Join(dir, "clang"), "clang version 19.1.7", `\tsm_80\n`, "echo >"+started+"; exec /bin/sleep 1000")
	onlyPath(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := Source(ctx, "k.cu", nil, nil); done <- err }()
	for {
		if _, err := os.Stat(started); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := Source(ctx, "k.cu", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
	script(t, filepath.Join(dir, "clang"), "exec /bin/sleep 1000")
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Source(ctx, "k.cu", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a probe that hangs: %v", err)
	}
}

// TestCrash demands an error with the end of the log from a compiler that ends without
// naming a place.
func TestCrash(t *testing.T) {
	dir := t.TempDir()
	fakeClang(t, filepath.Join(dir, "clang"), "clang version 19.1.7", `\tsm_80\n`, "for file; do :; done; echo PLEASE submit a report on $file and $(dirname $file)/x >&2; exit 139")
	onlyPath(t, dir+string(filepath.ListSeparator)+"/usr/bin")
	_, err := Source(t.Context(), "k.cu", nil, nil)
	e, ok := errors.AsType[*Error](err)
	if !ok || !strings.Contains(e.Error(), "PLEASE submit a report on k.cu and ") || !strings.Contains(e.Error(), "compile k.cu") ||
		strings.Contains(e.Log, os.TempDir()) {
		t.Errorf("got %v", err)
	}
}

// TestNewerPTX demands another run with the PTX version that clang asks for, the lowest
// that is enough.
func TestNewerPTX(t *testing.T) {
	dir := t.TempDir()
	fakeClang(t, filepath.Join(dir, "clang"), "clang version 19.1.7", `\tsm_80\n`, `case "$*" in
*+ptx73*) echo "k.cu:1:1: error: 'f' needs target feature (sm_80|sm_90),(ptx74|ptx75|ptx85)" >&2; exit 1;;
*+ptx74*) echo "fatal error: error in backend: Cannot select: intrinsic" >&2; exit 1;;
*) for a; do case "$a" in +ptx*) echo $a;; esac; done;;
esac`)
	onlyPath(t, dir)
	r, err := Source(t.Context(), "k.cu", nil, nil)
	if err != nil || string(r.PTX) != "+ptx85\n" {
		t.Fatalf("got %+v, error %v", r, err)
	}
}

// TestNeededPTX demands the lowest version that a message asks for, then the newest.
func TestNeededPTX(t *testing.T) {
	for log, want := range map[string]int{
		"'f' needs target feature (sm_80),(ptx83|ptx78|ptx85)": 78,
		"'f' needs target feature ptx60|ptx73":                 0,
		"'f' needs target feature ptx99":                       0,
		"fatal error: error in backend: Cannot select: x":      85,
		"error: use of undeclared identifier 'ptx78'":          0,
	} {
		if got := neededPTX(log, 73, 85); got != want {
			t.Errorf("%s: %d, want %d", log, got, want)
		}
	}
}

// TestTemporary demands that no temporary file stays.
func TestTemporary(t *testing.T) {
	sample.SkipRace(t)
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	_, err := File(t.Context(), "testdata/saxpy.cu", &Options{Compiler: "clang"})
	skipWithout(t, err)
	if _, err := File(t.Context(), "testdata/wrong.cu", &Options{Compiler: "clang"}); err == nil {
		t.Error("no error")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("%v stays, error %v", left, err)
	}
}

// TestRefusedKinds: what Ferry's headers lack is named at its line.
func TestRefusedKinds(t *testing.T) {
	for source, want := range map[string]string{
		"#include <mma.h>\nusing namespace nvcuda;\n__global__ void k() { wmma::fragment<wmma::matrix_a, 8, 8, 32, wmma::experimental::precision::u4, wmma::row_major> a; }\n":  "Ferry has no fragments of 4 bits or 1 bit",
		"#include <cooperative_groups.h>\n\n__global__ void k(unsigned *p) { *p = cooperative_groups::tiled_partition<64>(cooperative_groups::this_thread_block()).size(); }\n": "Ferry has none of several warps",
	} {
		_, err := Source(t.Context(), "k.cu", []byte(source), &Options{Compiler: "clang"})
		e, ok := errors.AsType[*Error](err)
		if !ok {
			skipWithout(t, err)
		}
		if !ok || len(e.Diagnostics) == 0 || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "k.cu:3:") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestBesideToolkit compiles where clang finds a CUDA toolkit by its ptxas. That changes
// neither the PTX nor the log.
func TestBesideToolkit(t *testing.T) {
	sample.SkipRace(t)
	want, err := saxpyByClang()
	skipWithout(t, err)
	toolkit := t.TempDir()
	for name, text := range map[string]string{
		"bin/ptxas": "#!/bin/sh\n", "include/cuda.h": "#define CUDA_VERSION 13000\n", "nvvm/libdevice/libdevice.10.bc": "", "lib64/empty": "",
	} {
		file := filepath.Join(toolkit, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", filepath.Join(toolkit, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	got, err := File(t.Context(), "testdata/saxpy.cu", &Options{Compiler: "clang"})
	if err != nil || !bytes.Equal(got.PTX, want.PTX) || got.Log != "" {
		t.Errorf("error %v, log %q, PTX that begins\n%.200s", err, got.Log, got.PTX)
	}
}
