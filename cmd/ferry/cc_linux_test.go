package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/compiletest"
	"github.com/ferrygpu/ferry/trace"
)

// ccProgram returns the path of a program of testdata/cu.
func ccProgram(name string) string { return filepath.Join("testdata", "cu", name) }

// requireCC skips a test without a clang that makes programs, and prepares the cache. It returns the
// folder of the driver library.
func requireCC(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("clang-19"); err != nil {
		if _, err := exec.LookPath("clang"); err != nil {
			if os.Getenv(compiletest.RequireVariable) == "1" {
				t.Fatalf("%s is 1, and there is no clang", compiletest.RequireVariable)
			}
			t.Skip("no clang")
		}
	}
	return softLibrary(t)
}

// TestCC compiles and runs programs in CUDA C++ on the real library.
func TestCC(t *testing.T) {
	library := requireCC(t)
	t.Run("run", testCCRun)
	t.Run("program", func(t *testing.T) { testCCProgram(t, library) })
	t.Run("kinds", testCCKinds)
	t.Run("lines", testCCLines)
	t.Run("refused", testCCRefused)
	t.Run("headers", testCCHeaders)
	t.Run("devices", func(t *testing.T) { testCCDevices(t, library) })
	t.Run("clangs", testCCClangs)
}

// testCCRun: a program is built once, gets its arguments, and its status is that of ferry.
func testCCRun(t *testing.T) {
	if status, out, errs := ferryRun("cc", "--run", "--device", "soft", ccProgram("rules.cu")); status != exitOK || out != "0 wrong\n" {
		t.Errorf("rules: status %d, stdout %q, stderr %q", status, out, errs)
	}
	for range 2 {
		status, out, errs := ferryRun("cc", "--run", "--device", "soft", ccProgram("saxpy.cu"), "--", "3000")
		if status != exitOK || out != "3000 elements are right\n" || errs != "" {
			t.Errorf("saxpy: status %d, stdout %q, stderr %q", status, out, errs)
		}
	}
	t.Setenv("FERRY_FAULT", "cuMemAlloc:2:CUDA_ERROR_OUT_OF_MEMORY")
	status, _, errs := ferryRun("cc", "-v", "--run", "--device", "soft", ccProgram("saxpy.cu"))
	if status != 5 || !strings.Contains(errs, "cudaMalloc(&dy, n * sizeof *dy): cudaErrorMemoryAllocation: out of memory\n") || !strings.Contains(errs, "saxpy.cu: exit status 5\n") {
		t.Errorf("a call that fails: status %d, stderr %q", status, errs)
	}
}

// testCCProgram: a program that stays, under schedules, and what explain and the check say of it.
func testCCProgram(t *testing.T, library string) {
	dir := t.TempDir()
	program := filepath.Join(dir, "saxpy")
	if status, _, errs := ferryRun("cc", ccProgram("saxpy.cu"), "-O2", "-o", program); status != exitOK || errs != "" {
		t.Fatalf("status %d, stderr %q", status, errs)
	}
	for _, schedule := range []string{"", "lazy", "random:1"} {
		c := exec.Command(program)
		c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+library, "FERRY_SCHEDULE="+schedule)
		if out, err := c.CombinedOutput(); err != nil || string(out) != "1000 elements are right\n" {
			t.Errorf("schedule %q: %v, %q", schedule, err, out)
		}
	}
	text, err := os.ReadFile(ccProgram("saxpy.cu"))
	if err != nil {
		t.Fatal(err)
	}
	at := "lost (predicted), saxpy.cu" + lineOf(t, string(text), "back") + " in main"
	status, out, errs := ferryRun("explain", "--device", "soft", "--", program, "2000000")
	out = strings.Join(strings.Fields(out), " ")
	if status != exitOK || errs != "2000000 elements are right\n" || !strings.Contains(out, at) || !strings.Contains(out, "cudaMallocHost or cudaHostRegister") || strings.Contains(out, "ferry.") {
		t.Errorf("explain: status %d, stderr %q, want %s\n%s", status, errs, at, out)
	}
	if r := checkC(t, exitOK, program); len(r.Findings) != 0 {
		t.Errorf("findings:\n%s", r.Page().Text(0))
	}
}

// testCCKinds: managed variables, groups of threads, several files and languages, the default stream of threads, a
// function that the runtime lacks.
func testCCKinds(t *testing.T) {
	for _, c := range []struct {
		words      []string
		want, says string
	}{
		{[]string{ccProgram("managed.cu")}, "11 2.5 7.5 3.5 11 1\n", ""},
		{[]string{"--default-stream=per-thread", ccProgram("managed.cu")}, "11 2.5 7.5 3.5 11 1\n", ""},
		{[]string{"-w", "-Werror", ccProgram("managed.cu")}, "11 2.5 7.5 3.5 11 1\n", ""},
		{[]string{ccProgram("managedkinds.cu")}, "6 8\n", ""},
		{[]string{ccProgram("limits.cu")}, "0 0 0 1 1 1\n", ""},
		{[]string{ccProgram("clusters.cu"), "-arch=sm_90", "--", "4"}, "clusters of 4 blocks: 0 wrong\n", ""},
		{[]string{ccProgram("groups.cu")}, "161132 161032 0\n", ""},
		{[]string{ccProgram("parts.cu"), ccProgram("other.cu"), ccProgram("version.c"), "-lcuda", "-std=c++11", "-Xcompiler", "-Wall,-Werror"}, "11 1 12000\n", ""},
		{[]string{ccProgram("perthread.cu")}, "0 3 0 1\n", ""},
		{[]string{"--default-stream", "per-thread", ccProgram("perthread.cu")}, "0 3 1 1\n", ""},
		{[]string{ccProgram("perthread.cu"), "-DCUDA_API_PER_THREAD_DEFAULT_STREAM"}, "0 3 1 1\n", ""},
		{[]string{ccProgram("refused.cu"), "-arch=sm_70", "-G", "-lineinfo"}, "cudaErrorNotSupported 32 cudaErrorNotSupported\n", "ferry cc: cudaMallocArray is not in this runtime, and returns cudaErrorNotSupported\n"},
	} {
		status, out, errs := ferryRun(append([]string{"cc", "--run", "--device", "soft"}, c.words...)...)
		if status != exitOK || out != c.want || errs != c.says {
			t.Errorf("%q: status %d, stdout %q, stderr %q, want %q, %q", c.words, status, out, errs, c.want, c.says)
		}
	}
}

// testCCClangs: every installed clang makes the programs, if all are wanted.
func testCCClangs(t *testing.T) {
	clangs := compiletest.Clangs(t)
	if len(clangs) == 1 {
		t.Skip("the others test it")
	}
	for _, clang := range clangs {
		t.Setenv("FERRY_CLANG", clang)
		for file, want := range map[string]string{"rules.cu": "0 wrong\n", "managed.cu": "11 2.5 7.5 3.5 11 1\n"} {
			if status, out, errs := ferryRun("cc", "--run", "--device", "soft", ccProgram(file)); status != exitOK || out != want || errs != "" {
				t.Errorf("%s: %s: status %d, stdout %q, stderr %q", clang, file, status, out, errs)
			}
		}
	}
}

// testCCLines: findings and recordings have the lines of the program, not those of the runtime, also
// for kernels that <<<>>> launches.
func testCCLines(t *testing.T) {
	data, err := os.ReadFile(ccProgram("wrong.cu"))
	if err != nil {
		t.Fatal(err)
	}
	text, program := string(data), filepath.Join(t.TempDir(), "wrong")
	if status, _, errs := ferryRun("cc", ccProgram("wrong.cu"), "-o", program, "-O2"); status != exitOK {
		t.Fatalf("status %d, stderr %q", status, errs)
	}
	r := checkC(t, exitFound, program)
	if len(r.Findings) != 2 {
		t.Fatalf("%d findings, want 2:\n%s", len(r.Findings), r.Page().Text(0))
	}
	for i, marks := range [][]string{{"fill", "launch"}, {"allocated", "freed", "copy"}} {
		for _, mark := range marks {
			if want := "wrong.cu" + lineOf(t, text, mark); !strings.Contains(r.Findings[i].Text, want) {
				t.Errorf("the report lacks %s (%s):\n%s", want, mark, r.Findings[i].Text)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "rec.json")
	if status, out, errs := ferryRun("trace", "--device", "soft", "--record", path, "--", program); status != exitOK || !strings.Contains(out, "_Z5countPi") {
		t.Fatalf("trace: status %d, stdout %q, stderr %q", status, out, errs)
	}
	rec, err := trace.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rec.Calls {
		if c := &rec.Calls[i]; c.Name == "cuLaunchKernel" {
			if at := rec.Sites[c.Site]; at.String() != "wrong.cu"+lineOf(t, text, "launch") || at.Func != "main" {
				t.Errorf("the launch is at %v in %s", at, at.Func)
			}
		}
	}
}

// testCCHeaders: a header of the device code alone, too, belongs to what a program is made of.
func testCCHeaders(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	source := write("one.cu", `#include <cstdio>
#ifdef __CUDA_ARCH__
#include "value.h"
#endif
__managed__ int result;
__global__ void k() {
#ifdef __CUDA_ARCH__
    result = VALUE;
#endif
}
int main() { k<<<1, 1>>>(); cudaDeviceSynchronize(); std::printf("%d\n", result); }
`)
	for _, value := range []string{"7", "100"} {
		write("value.h", "#define VALUE "+value+"\n")
		if status, out, errs := ferryRun("cc", "--run", "--device", "soft", source); status != exitOK || out != value+"\n" {
			t.Errorf("status %d, stdout %q, stderr %q, want %s", status, out, errs, value)
		}
	}
}

// testCCDevices: managed variables have one device, and the use of another is an error.
func testCCDevices(t *testing.T, library string) {
	program := filepath.Join(t.TempDir(), "managed")
	if status, _, errs := ferryRun("cc", ccProgram("managedkinds.cu"), "-o", program); status != exitOK {
		t.Fatalf("status %d, stderr %q", status, errs)
	}
	c := exec.Command(program, "second")
	c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+library, "FERRY_DEVICE=soft:h200*2")
	out, err := c.CombinedOutput()
	if text := string(out); err != nil || strings.Count(text, "is in the memory of another device") != 1 || !strings.HasSuffix(text, "cudaErrorNotSupported\n6 8\n") {
		t.Errorf("%v, %q", err, text)
	}
}

// testCCRefused: what cannot be compiled is said with its name.
func testCCRefused(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-dc"}, "relocatable device code (-dc, -rdc=true, -dlink) is not supported"},
		{[]string{"-rdc=true"}, "relocatable device code"},
		{[]string{"-lcublas"}, "-lcublas: Ferry has no such library of CUDA's toolkit"},
		{[]string{"-ptx"}, "ferry compile FILE.cu makes PTX"},
		{[]string{"--default-stream", "mine"}, "--default-stream mine: want legacy or per-thread"},
		{[]string{"--device", "soft"}, "--device is for --run"},
		{[]string{"-o"}, "-o: a value is missing"},
		{[]string{"file.txt"}, "file.txt: not a source"},
	} {
		status, _, errs := ferryRun(append([]string{"cc", ccProgram("saxpy.cu")}, c.args...)...)
		if status != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%q: status %d, stderr %q, want %q", c.args, status, errs, c.want)
		}
	}
	if status, _, errs := ferryRun("cc"); status != exitUsage || !strings.Contains(errs, "no CUDA file was given") {
		t.Errorf("no file: status %d, stderr %q", status, errs)
	}
	for _, c := range []struct{ clang, want string }{
		{"no-such-clang", "apt install clang"},
		{withoutHeaders(t), "the header cmath of the C and C++ libraries is not in /no/headers; install it: apt install g++, dnf install gcc-c++, pacman -S gcc\n"},
	} {
		t.Setenv("FERRY_CLANG", c.clang)
		if status, _, errs := ferryRun("cc", ccProgram("saxpy.cu")); status != exitError || !strings.Contains(errs, c.want) {
			t.Errorf("%s: status %d, stderr %q, want %q", c.clang, status, errs, c.want)
		}
	}
}

// withoutHeaders returns a clang that looks for the system's headers in a folder that is not there.
func withoutHeaders(t *testing.T) string {
	t.Helper()
	clang, err := exec.LookPath(compiletest.Clang(t))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "clang")
	text := "#!/bin/sh\ncase \"$*\" in *'-E -v -x c++'*) printf '#include <...> search starts here:\\n /no/headers\\nEnd of search list.\\n' ;; *) exec '" + clang + "' \"$@\" ;; esac\n"
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
