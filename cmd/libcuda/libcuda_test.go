package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	_ "github.com/ferrygpu/ferry/cmd/libcuda/internal/entry" // for watch
	_ "github.com/ferrygpu/ferry/cmd/libcuda/internal/lines"
)

// arm64 asks for the library for that architecture, whose programs run under emulation.
var arm64 = os.Getenv("FERRY_LIBCUDA_ARM64") == "1"

// compiler returns the C compiler: that of CC, or gcc.
func compiler() string {
	if arm64 {
		return "aarch64-linux-gnu-gcc"
	}
	return cmp.Or(os.Getenv("CC"), "gcc")
}

// command returns the command that runs a program which is linked with the library.
func command(exe string, args ...string) *exec.Cmd {
	if arm64 {
		args = append([]string{"-L", "/usr/aarch64-linux-gnu", exe}, args...)
		exe = "qemu-aarch64-static"
	}
	return exec.Command(exe, args...)
}

// library builds the library once for all tests, and returns its folder. Tests of it skip where there
// is no C compiler; FERRY_REQUIRE_COMPILER=1 turns that into a failure.
func library(t testing.TB) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the library is for Linux")
	}
	if _, err := exec.LookPath(compiler()); err != nil {
		if os.Getenv("FERRY_REQUIRE_COMPILER") == "1" {
			t.Fatalf("FERRY_REQUIRE_COMPILER is 1, and there is no %s", compiler())
		}
		t.Skipf("no %s here, which builds the library and the programs", compiler())
	}
	watch(t, "*.c", "*.h", "*.go", "exports.map", "testdata/*.[ch]", "testdata/*/*.go")
	dir, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// watch reads files that only programs of the tests use, so that go test knows of them: it repeats
// no result of a test whose files have changed. For the packages of the library the imports do so.
func watch(t testing.TB, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("no files %s (%v)", pattern, err)
		}
		for _, file := range files {
			if _, err := os.ReadFile(file); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// buildOnce returns the folder of the library. TestMain removes it.
var buildOnce = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "libcuda")
	if err != nil {
		return "", err
	}
	built = dir
	return dir, build(dir)
})

// build builds the library into a folder, with more variables of the environment. Its flags of the compiler
// are those of ferry lib, so what one of them has compiled is in the cache for the other.
func build(dir string, env ...string) error {
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	strip := ""
	if len(env) == 0 {
		strip = "-w " // without DWARF it links faster
	}
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false", "-o", filepath.Join(dir, "libcuda.so.1"),
		"-ldflags", strip+"-extldflags '-Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic-functions -Wl,--version-script="+filepath.Join(here, "exports.map")+"'", ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "CC="+compiler(), "GOFLAGS=", "GOWORK=off")
	if arm64 {
		cmd.Env = append(cmd.Env, "GOARCH=arm64")
	}
	cmd.Env = append(cmd.Env, env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return &buildError{string(out), err}
	}
	return nil
}

var built string // the folder of the library, "" for none

type buildError struct {
	out string
	err error
}

func (e *buildError) Error() string { return "build libcuda.so.1: " + e.err.Error() + "\n" + e.out }

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// program compiles a C program of testdata against the library.
func program(t testing.TB, name string) string {
	t.Helper()
	dir := library(t)
	return compiled(t, name, filepath.Join(dir, "libcuda.so.1"), "-Wl,-rpath,"+dir)
}

// compiled compiles a C program of testdata with more arguments.
func compiled(t testing.TB, name string, args ...string) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), strings.TrimSuffix(name, ".c"))
	args = append([]string{"-std=gnu11", "-Wall", "-Werror", "-O1", "-pthread", "-o", exe, filepath.Join("testdata", name), "-ldl"}, args...)
	out, err := exec.Command(compiler(), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", compiler(), name, err, out)
	}
	return exe
}

// run runs a program and returns what it wrote to its standard output and error.
func run(t testing.TB, exe string, args ...string) string {
	t.Helper()
	out, err := command(exe, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(exe), err, out)
	}
	return string(out)
}

// TestVectorAddition runs it on a new and on an old machine, whose driver does not say what parameters
// a kernel has, and under each schedule.
func TestVectorAddition(t *testing.T) {
	exe := program(t, "vadd.c")
	for _, device := range []string{"", "soft:h200", "soft:fermi-c2050"} {
		for _, schedule := range []string{"eager", "lazy", "random:1"} {
			t.Setenv("FERRY_DEVICE", device)
			t.Setenv("FERRY_SCHEDULE", schedule)
			if got, want := run(t, exe), "vadd: 100003 elements are right\n"; got != want {
				t.Errorf("%s, %s: got %q, want %q", device, schedule, got, want)
			}
		}
	}
}

// handlersOfSignals are the functions of the C library that the library wraps, for programs that are
// linked with it (handlers.c).
var handlersOfSignals = []string{"sigaction", "signal", "bsd_signal", "ssignal", "sysv_signal", "__sysv_signal", "sigset"}

// TestExports demands every name of the driver API, the functions that install handlers, and no other.
func TestExports(t *testing.T) {
	dir := library(t)
	out, err := exec.Command("nm", "-D", "--defined-only", filepath.Join(dir, "libcuda.so.1")).Output()
	if err != nil {
		t.Skipf("no nm here: %v", err)
	}
	exported := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		exported[f[len(f)-1]] = true
	}
	text, err := os.ReadFile("names.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		if name, _, _ := strings.Cut(line, " "); strings.HasPrefix(name, "cu") {
			n++
			if !exported[name] {
				t.Errorf("%s is not exported", name)
			}
			delete(exported, name)
		}
	}
	if n < 600 {
		t.Errorf("names.txt has %d names, want 600 or more", n)
	}
	for _, name := range handlersOfSignals {
		if !exported[name] {
			t.Errorf("%s is not exported", name)
		}
		delete(exported, name)
	}
	for name := range exported {
		t.Errorf("%s is exported, and is no function of CUDA: it can clash with a name of the program", name)
	}
}

// TestImports demands that the library does without what opens NVIDIA's library: two of a kind in one
// process, or a library that loads itself, would be the end of it.
func TestImports(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1", "GOOS=linux")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	const module = "github.com/ferrygpu/ferry"
	deps := strings.Fields(string(out))
	for _, dep := range deps {
		switch dep {
		case module, module + "/libcuda", module + "/internal/dl", "github.com/ebitengine/purego":
			t.Errorf("the library imports %s", dep)
		}
	}
	if !strings.Contains(string(out), module+"/softgpu\n") {
		t.Errorf("%d packages, without softgpu", len(deps))
	}
}

// TestPrograms runs programs that check themselves.
func TestPrograms(t *testing.T) {
	for _, p := range []struct{ name, want string }{
		{"contexts.c", "contexts: right\n"},
		{"threads.c", "threads: 10000\n"},
		{"hostfunc.c", "host functions: right\n"},
		{"library.c", "library: right\n"},
		{"virtual.c", "virtual memory: right\n"},
		{"oldlaunch.c", "old launches: right\n"},
		{"small.c", "small addresses: right\n"},
	} {
		t.Run(p.name, func(t *testing.T) {
			if got := run(t, program(t, p.name)); got != p.want {
				t.Errorf("got %q, want %q", got, p.want)
			}
		})
	}
}

// TestPrint reads what a program and its kernels print by turns.
func TestPrint(t *testing.T) {
	var want strings.Builder
	for i := range 100 {
		fmt.Fprintf(&want, "program %d\nkernel %d\n", i, i)
	}
	want.WriteString("end\n")
	if got := run(t, program(t, "print.c")); got != want.String() {
		t.Errorf("got\n%s\nwant\n%s", got, want.String())
	}
}

// TestGraphs runs a program that builds graphs node by node, under each schedule: an edge that is
// missing shows where the nodes run late.
func TestGraphs(t *testing.T) {
	exe := program(t, "graphs.c")
	for _, schedule := range []string{"eager", "lazy", "random:1"} {
		t.Setenv("FERRY_SCHEDULE", schedule)
		if got, want := run(t, exe), "graphs: right\n"; got != want {
			t.Errorf("%s: got %q, want %q", schedule, got, want)
		}
	}
}

// TestMisuse runs a program that uses the API wrongly, and reads what the library says of it.
func TestMisuse(t *testing.T) {
	got := run(t, program(t, "misuse.c"))
	if !strings.HasSuffix(got, "misuse: right\n") {
		t.Errorf("got %q", got)
	}
	for _, line := range []string{
		"ferry: cuGetExportTable: CUDA_ERROR_NOT_SUPPORTED: the program asks for private tables of NVIDIA's driver, as libcudart of the CUDA toolkit does: libcuda.so.1 on the software GPU has none, so the program must use the driver API itself\n",
		"ferry: cuArrayDestroy: CUDA_ERROR_NOT_SUPPORTED: libcuda.so.1 on the software GPU does not have this function\n",
		"ferry: cuTexObjectDestroy: CUDA_ERROR_NOT_SUPPORTED: libcuda.so.1 on the software GPU does not have this function\n",
		"ferry: cuLaunchKernel: CUDA_ERROR_INVALID_VALUE: host address 0x7000000000 cannot be used\n",
	} {
		if n := strings.Count(got, line); n != 1 {
			t.Errorf("%d times in the output, want once: %q\n%s", n, line, got)
		}
	}
	if strings.Contains(got, "goroutine") {
		t.Errorf("the output has a trace of Go:\n%s", got)
	}
}

// TestLog reads what CUDA_LOG_FILE asks for: the texts of errors, of which C gets the codes.
func TestLog(t *testing.T) {
	exe, file := program(t, "misuse.c"), filepath.Join(t.TempDir(), "log")
	for _, to := range []string{"stderr", "stdout", file, ""} {
		t.Setenv("CUDA_LOG_FILE", to)
		text := run(t, exe)
		if to == file {
			read, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text = string(read)
		}
		lines := regexp.MustCompile(`(?m)^\[\d\d:\d\d:\d\d\.\d{3}\]\[\d+\]\[CUDA\]\[E\]\[cuModuleGetFunction\] .*nosuch.*$`).FindAllString(text, -1)
		if want := min(len(to), 1); len(lines) != want {
			t.Errorf("CUDA_LOG_FILE=%s: %d lines of the kernel that is not there, want %d:\n%s", to, len(lines), want, text)
		}
	}
}

// TestProcess runs a program that changes its environment, forks, and calls while it ends.
func TestProcess(t *testing.T) {
	t.Setenv("FERRY_SCHEDULE", "unknown")
	got := run(t, program(t, "process.c"))
	var lines []string
	for line := range strings.Lines(got) {
		if !strings.Contains(line, "was made by fork from one that had loaded libcuda.so.1") {
			lines = append(lines, line)
		}
	}
	if got, want := strings.Join(lines, ""), "at exit: works\ndestructor: 4 4 4\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := strings.Count(got, "was made by fork"); n != 61 {
		t.Errorf("%d children said what is wrong, want 61", n)
	}
}
