package api

import (
	"bytes"
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/libcuda"
	"github.com/ferrygpu/ferry/softgpu"
	"github.com/ferrygpu/ferry/trace"
)

// TestOpenNames: each form of a name opens what the comment of Open says.
func TestOpenNames(t *testing.T) {
	fermi := filepath.Join(t.TempDir(), "mine.json")
	text := must(os.ReadFile("profile/fermi-c2050.json"))(t)
	check(t, os.WriteFile(fermi, text, 0o600))
	for _, c := range []struct {
		name, profile, text string
		ordinals            []int
	}{
		{"soft", "h200", "soft:h200 (software, predicts NVIDIA H200)", []int{0}},
		{"soft:h200", "h200", "soft:h200 (software, predicts NVIDIA H200)", []int{0}},
		{"soft:fermi-c2050", "fermi-c2050", "soft:fermi-c2050 (software, predicts Tesla C2050)", []int{0}},
		{"soft:" + fermi, "fermi-c2050", "soft:fermi-c2050 (software, predicts Tesla C2050)", []int{0}},
		{"soft:h200*2", "h200", "soft:h200*2 device 0 (software, predicts NVIDIA H200)", []int{0, 1}},
		{"soft*3", "h200", "soft:h200*3 device 0 (software, predicts NVIDIA H200)", []int{0, 1, 2}},
	} {
		all, err := ferry.OpenAll(c.name)
		if err != nil {
			t.Errorf("OpenAll(%q): %v", c.name, err)
			continue
		}
		if len(all) != len(c.ordinals) {
			t.Errorf("OpenAll(%q) returns %d GPUs, want %d", c.name, len(all), len(c.ordinals))
		}
		for i, g := range all {
			if int(g.CUDevice()) != c.ordinals[i] || !g.Emulated() || g.Profile() != c.profile || g.Fallback() != nil {
				t.Errorf("OpenAll(%q)[%d] is device %d of %q, emulated %t, fallback %v", c.name, i, int(g.CUDevice()), g.Profile(), g.Emulated(), g.Fallback())
			}
			closeAll(t, g)
		}
		g := must(ferry.Open(c.name))(t)
		if got := g.String(); got != c.text {
			t.Errorf("Open(%q) is %q, want %q", c.name, got, c.text)
		}
		closeAll(t, g)
	}
}

// TestOpenNamesRefused: the error for a bad name says what is wrong with it.
func TestOpenNamesRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		parts []string
	}{
		{"soft:", []string{"no profile", "fermi-c2050", "h200"}},
		{"soft:gtx9000", []string{`open "soft:gtx9000"`, `no profile "gtx9000"`, "fermi-c2050, gh200, h100-pcie, h200"}},
		{"soft:nowhere.json", []string{"nowhere.json", "no such file"}},
		{"soft:h200*0", []string{`"0" is not a number of devices`}},
		{"soft:h200*", []string{"not a number of devices"}},
		{"soft:h200*-1", []string{"not a number of devices"}},
		{"soft:h200*1000", []string{"1000 devices"}},
		{"softly", []string{"no such device", "cuda:1", "soft:h200"}},
		{"Cuda", []string{"no such device"}},
		{"cuda:", []string{"not a device number"}},
		{"cuda:x", []string{`"x" is not a device number`}},
		{"cuda:-1", []string{"not a device number"}},
		{"cuda:GPU-", []string{`"GPU-" is not a device number, a UUID or a PCI address`}},
		{"cuda:GPU-wxyz", []string{"cuda:GPU-8932f937 or cuda:0000:1b:00.0"}},
		{"cuda:0000:1b:00.9", []string{"not a device number, a UUID or a PCI address"}},
		{"soft:GPU-8932f937", []string{`no profile "GPU-8932f937"`}},
	} {
		g, err := ferry.Open(c.name)
		if err == nil {
			t.Errorf("Open(%q) returns %v, want an error", c.name, g)
			closeAll(t, g)
			continue
		}
		wantError(t, err, err, c.parts...)
		if _, err := ferry.OpenAll(c.name); err == nil {
			t.Errorf("OpenAll(%q) returns no error", c.name)
		}
	}
}

// TestOpenWithoutGPU: without a driver library, "cuda" is an error, and "" opens the software
// GPU, whose Fallback says why.
func TestOpenWithoutGPU(t *testing.T) {
	t.Setenv(libcuda.LibraryVariable, "/nonexistent/libcuda.so.1")
	t.Setenv(ferry.SpecVariable, "")
	for _, name := range []string{"cuda", "cuda:0"} {
		g, err := ferry.Open(name)
		if err == nil && !g.Emulated() {
			closeAll(t, g)
			t.Skip("the driver library was opened by another test")
		}
		wantError(t, err, err, "open "+`"`+name+`"`, "/nonexistent/libcuda.so.1", `"soft" opens the software GPU`)
	}
	g := must(ferry.Open(""))(t)
	defer closeAll(t, g)
	if !g.Emulated() {
		t.Fatalf(`Open("") is %v`, g)
	}
	if _, ok := errors.AsType[*libcuda.OpenError](g.Fallback()); !ok {
		t.Errorf("Fallback is %v, want a *libcuda.OpenError", g.Fallback())
	}
}

// fallbackHint returns the line on standard error with a reason.
func fallbackHint(reason string) string {
	return "ferry: no NVIDIA GPU could be opened" + reason + ", using soft:h200 (software, predicts NVIDIA H200): times are predictions" +
		" (FERRY_DEVICE=cuda reports what was tried; FERRY_DEVICE=soft or FERRY_QUIET=1 suppresses this line)\n"
}

// TestFallbackHint: when Open("") falls back to the software GPU, the process says so on standard
// error once. It does not with FERRY_QUIET=1, and when the software GPU was asked for. Likewise it
// names a misspelled variable.
func TestFallbackHint(t *testing.T) {
	if os.Getenv("FERRY_HINT_CHILD") != "" {
		for range 2 {
			closeAll(t, must(ferry.Open(""))(t))
		}
		all := must(ferry.OpenAll(""))(t)
		closeAll(t, all[0])
		os.Exit(len(all))
	}
	hint := fallbackHint(": /nonexistent/libcuda.so.1: cannot open shared object file: No such file or directory")
	for _, c := range []struct{ device, quiet, more, want string }{
		{"", "", "", hint},
		{"", "0", "", hint},
		{"", "1", "", ""},
		{"soft", "", "", ""},
		{"soft", "1", "FERRY_CHEK=1", ""},
		{"soft", "", "FERRY_CHEK=1", "ferry: no variable of Ferry: FERRY_CHEK (nearest: FERRY_CHECK); ferry help environment lists all (FERRY_QUIET=1 suppresses this line)\n"},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFallbackHint$")
		cmd.Env = append(os.Environ(), "FERRY_HINT_CHILD=1", libcuda.LibraryVariable+"=/nonexistent/libcuda.so.1",
			ferry.SpecVariable+"="+c.device, "FERRY_QUIET="+c.quiet, c.more)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 1 {
			t.Errorf("%+v: %v, want exit status 1", c, err)
		}
		if got := stderr.String(); got != c.want {
			t.Errorf("%s=%q FERRY_QUIET=%q: standard error is %q, want %q", ferry.SpecVariable, c.device, c.quiet, got, c.want)
		}
	}
}

// TestOpenVariable: Open("") opens what FERRY_DEVICE names.
func TestOpenVariable(t *testing.T) {
	t.Setenv(ferry.SpecVariable, "soft:fermi-c2050")
	g := must(ferry.Open(""))(t)
	if got := g.Profile(); got != "fermi-c2050" {
		t.Errorf("Open(\"\") with %s set emulates %q", ferry.SpecVariable, got)
	}
	closeAll(t, g)
	t.Setenv(ferry.SpecVariable, "sofa")
	_, err := ferry.Open("")
	wantError(t, err, cu.ErrorInvalidValue, "FERRY_DEVICE=sofa")
}

// TestOpenDriver opens a device by its ordinal. A nil driver and bad ordinals are refused.
func TestOpenDriver(t *testing.T) {
	_, err := ferry.OpenDriver(nil, 0)
	wantError(t, err, cu.ErrorInvalidValue, "nil")
	d := softDriver(t, "h200", 2, softgpu.Eager)
	for _, ordinal := range []int{-1, 2, 1 << 40} {
		_, err := ferry.OpenDriver(d, ordinal)
		wantError(t, err, cu.ErrorInvalidDevice, "the driver has 2")
	}
	g := must(ferry.OpenDriver(d, 1))(t)
	opened, _ := cu.As[*softgpu.Driver](g.Driver()) // FERRY_CHECK wraps it
	if int(g.CUDevice()) != 1 || opened != d || g.CUContext() == 0 {
		t.Errorf("device %d, context %d", int(g.CUDevice()), g.CUContext())
	}
	closeAll(t, g)
}

// environmentReads are the uses of the environment outside of internal/secureenv, each with the
// reason why a privileged program may have it: what the variable can do.
var environmentReads = map[string]string{
	"cmd/ferry/files.go: exec.LookPath(words[0])":                                    "finds the program that its user names, as the start of it does",
	"cmd/libcuda/internal/entry/environment.go: os.Environ()":                        "names of variables, which are read as the others are",
	"cmd/libcuda/internal/entry/environment.go: os.LookupEnv(name)":                  "compared with what the program has set, and read as the others are",
	"cmd/ferry/internal/load/meter.go: os.MkdirTemp(\"\", \"ferry-load-\")":          "a folder for a recording",
	"internal/measure/bench/load/program.go: os.Environ()":                           "a command of this repository",
	"internal/test/corpus/programs.go: os.Environ()":                                 "a command of this repository",
	"internal/test/corpus/programs.go: os.MkdirTemp(\"\", \"ferry-corpus-\")":        "a command of this repository",
	"internal/test/others/main.go: os.Environ()":                                     "a command of this repository",
	"internal/test/others/main.go: os.MkdirTemp(\"\", \"ferry-others-\")":            "a command of this repository",
	"internal/gen/modules.go: os.Environ()":                                          "a command of this repository",
	"internal/test/public/public.go: exec.LookPath(\"go\")":                          "a test",
	"check/options.go: os.Getenv(\"CUDA_LAUNCH_BLOCKING\")":                          "a switch",
	"check/options.go: os.Getenv(\"FERRY_LAUNCH_BLOCKING\")":                         "a switch",
	"cmd/ferry/terminal.go: os.Getenv(\"COLUMNS\")":                                  "a number",
	"cmd/ferry/terminal.go: os.Getenv(\"NO_COLOR\")":                                 "a switch",
	"cmd/ferry/terminal.go: os.Getenv(\"TERM\")":                                     "a switch",
	"compile/clang.go: os.MkdirTemp(parent, \"ferry-compile-\")":                     "/tmp in a privileged program",
	"compile/clangfind.go: os.Environ()":                                             "environment drops it in a privileged program",
	"nccl/internal/library/comm.go: os.Getenv(nvlsVariable)":                         "a switch, compared with that of other ranks",
	"internal/toolkit/toolkit.go: os.UserHomeDir()":                                  "not used in a privileged program",
	"cutest/cases_ipc.go: os.LookupEnv(partnerVariable)":                             "a test: a folder and handles for its second process",
	"cutest/file_linux.go: os.MkdirTemp(dir, \"cutest\")":                            "a test",
	"cutest/isolated.go: os.Environ()":                                               "a test",
	"cutest/isolated.go: os.LookupEnv(caseVariable)":                                 "a test: the name of a case",
	"cutest/isolated.go: os.MkdirTemp(\"\", \"cutest\")":                             "a test",
	"cutest/resources.go: os.MkdirTemp(\"\", \"cutest\")":                            "a test",
	"fault/environment.go: os.Getenv(Variable)":                                      "errors of calls",
	"internal/measure/bench/peer.go: os.MkdirTemp(\"\", \"ferry-peers-\")":           "a command of this repository",
	"internal/measure/bench/image/main.go: os.Environ()":                             "a command of this repository",
	"internal/measure/bench/image/main.go: os.MkdirTemp(\"\", \"ferry-image\")":      "a command of this repository",
	"internal/measure/bench/serve/cell/main.go: os.Getenv(\"FERRY_COMMIT\")":         "a text",
	"cmd/ferry/internal/bind/bind.go: os.Getenv(\"GOPACKAGE\")":                      "a name in generated code",
	"cmd/ferry/internal/child/child.go: os.Environ()":                                "runs the program that its user names",
	"cmd/ferry/internal/checkrun/run.go: os.MkdirTemp(\"\", \"ferry-check-\")":       "runs the program that its user names",
	"internal/checks/checks.go: os.Getenv(Variable)":                                 "a list of checks",
	"internal/test/typecheck/main.go: os.Environ()":                                  "a test",
	"internal/test/compiletest/compiletest.go: exec.LookPath(name)":                  "a test",
	"internal/test/ctest/ctest.go: exec.LookPath(compiler)":                          "a test",
	"internal/test/compiletest/cache.go: os.CreateTemp(dir, prefix+\"new-\")":        "a test",
	"internal/test/compiletest/cache.go: os.Getenv(\"PATH\")":                        "a test",
	"internal/test/compiletest/cache.go: os.Getenv(CacheVariable)":                   "a test",
	"internal/test/compiletest/cache.go: os.Getenv(compile.ClangVariable)":           "a test",
	"internal/test/compiletest/cache.go: os.UserCacheDir()":                          "a test",
	"internal/test/sample/sample.go: os.Getenv(FullVariable)":                        "a test",
	"internal/test/sample/sample.go: os.Getenv(SeedVariable)":                        "a test",
	"internal/test/compiletest/compiletest.go: os.Getenv(RequireVariable)":           "a test",
	"internal/test/compiletest/compiletest.go: os.Getenv(compile.ClangVariable)":     "a test",
	"internal/test/fuzz/fuzz.go: os.Environ()":                                       "a command of this repository",
	"internal/test/fuzz/fuzz.go: os.MkdirTemp(\"\", \"fuzz\")":                       "a command of this repository",
	"internal/test/gputest/gputest.go: os.Getenv(RequireVariable)":                   "a test",
	"internal/test/gputest/machine.go: os.Getenv(MachineVariable)":                   "a test",
	"internal/hint/hint.go: os.Getenv(QuietVariable)":                                "a switch",
	"internal/variables/variables.go: os.Environ()":                                  "names of variables; a privileged program shows none",
	"internal/test/hostile/check.go: os.Getenv(Strict)":                              "a test",
	"internal/origin/origin.go: os.Getenv(\"FERRY_COMMIT\")":                         "a text",
	"cmd/ferry/internal/overlap/overlap.go: os.MkdirTemp(\"\", \"ferry-overlap-\")":  "a command of this repository",
	"internal/test/sweep/modules.go: os.CreateTemp(\"\", \"sweep-*.ptx\")":           "a command of this repository",
	"cmd/ferry/internal/softlib/cache.go: os.Getenv(name)":                           "part of a hash",
	"cmd/ferry/internal/usercache/usercache.go: os.UserCacheDir()":                   "what uses it refuses to work in a privileged program",
	"cmd/ferry/internal/usercache/usercache.go: os.MkdirTemp(root, newPrefix)":       "what uses it refuses to work in a privileged program",
	"cmd/ferry/internal/cc/build.go: os.MkdirTemp(\"\", \"ferry-cc-\")":              "Build refuses to work in a privileged program",
	"cmd/ferry/internal/cc/run.go: os.Getenv(\"PATH\")":                              "part of a hash",
	"cmd/ferry/internal/cc/run.go: os.Getenv(compile.ClangVariable)":                 "part of a hash",
	"internal/devices/visible.go: os.LookupEnv(visibleVariable)":                     "hides devices, as with NVIDIA's driver",
	"cmd/ferry/internal/cc/library.go: exec.LookPath(\"ar\")":                        "Build refuses to work in a privileged program",
	"internal/test/others/python.go: os.MkdirTemp(\"\", \"ferry-others-\")":          "a tool for tests",
	"internal/test/others/python.go: os.Environ()":                                   "a tool for tests",
	"cmd/ferry/internal/softlib/library.go: os.Environ()":                            "Build refuses to work in a privileged program",
	"cmd/ferry/internal/softlib/needs.go: exec.LookPath(program)":                    "finds the program that its user names, as the start of it does",
	"cmd/ferry/internal/softlib/needs.go: os.Getenv(pathVariable)":                   "runs the program that its user names",
	"cmd/ferry/internal/softlib/tools.go: exec.LookPath(\"go\")":                     "Build refuses to work in a privileged program",
	"cmd/ferry/internal/softlib/tools.go: exec.LookPath(name)":                       "Build refuses to work in a privileged program",
	"cmd/ferry/internal/softlib/tools.go: os.Getenv(compilerVariable)":               "Build refuses to work in a privileged program",
	"cmd/ferry/internal/tracereport/record.go: os.MkdirTemp(\"\", \"ferry-trace-\")": "runs the program that its user names",
	"kerneltest/run.go: os.Getenv(gputest.RequireVariable)":                          "a test",
	"report.go: os.Getenv(LeaksVariable)":                                            "a switch",
	"softgpu/check.go: os.Getenv(CheckVariable)":                                     "a list of checks",
	"softgpu/driver.go: os.Getenv(\"CUDA_LAUNCH_BLOCKING\")":                         "a switch",
	"softgpu/driver.go: os.Getenv(\"FERRY_LAUNCH_BLOCKING\")":                        "a switch",
	"softgpu/driver.go: os.Getenv(LimitVariable)":                                    "a number",
	"softgpu/driver.go: os.Getenv(raceVariable)":                                     "a switch",
	"softgpu/driver.go: os.Getenv(ScheduleVariable)":                                 "the name of a schedule",
	"trace/environment.go: os.Getenv(LimitVariable)":                                 "a number",
}

// environmentCalls are the functions that read the environment, or places that it names.
var environmentCalls = []string{"os.Getenv", "os.LookupEnv", "os.Environ", "os.ExpandEnv", "os.UserHomeDir", "os.UserCacheDir",
	"os.UserConfigDir", "os.TempDir", "os.MkdirTemp", "os.CreateTemp", "exec.LookPath", "syscall.Getenv", "syscall.Environ"}

// TestEnvironmentReads: each use of the environment is in internal/secureenv, where privileged
// programs do not see it, or in the list above with its reason.
func TestEnvironmentReads(t *testing.T) {
	sample.SkipRace(t)
	left := map[string]bool{}
	for use := range environmentReads {
		left[use] = true
	}
	check(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		path = filepath.ToSlash(path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path != "." && strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || path == "examples" || path == "docs" || path == "internal/secureenv"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, is := n.(*ast.CallExpr)
			if !is || !slices.Contains(environmentCalls, source(files, call.Fun)) {
				return true
			}
			use := path + ": " + source(files, call)
			if environmentReads[use] == "" {
				t.Errorf("%s: a variable that names code or a file is read by internal/secureenv; another belongs into environmentReads with its reason", use)
			}
			delete(left, use)
			return true
		})
		return nil
	}))
	for use := range left {
		t.Errorf("environmentReads has %s, which is not there", use)
	}
}

// source prints a node as its text.
func source(files *token.FileSet, n ast.Node) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, files, n); err != nil {
		return err.Error()
	}
	return b.String()
}

// TestHelpfulErrors: errors that a new user meets say what to change, and nothing twice.
func TestHelpfulErrors(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Eager)
	s := must(ferry.NewStream(g, nil))(t)
	m, _ := load(t, g, "increment")
	long, short := must(ferry.Alloc[[3]float64](g, 100))(t), must(ferry.Alloc[[3]float64](g, 50))(t)
	own := must(ferry.Load(g, []byte(".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 p, .param .u32 n) { ret; }\n"), nil))(t)
	k := must(own.Kernel("k"))(t)
	for _, c := range []struct {
		err  error
		is   error
		want string
	}{
		{last(ferry.Alloc[byte](g, 1<<40)), cu.ErrorOutOfMemory, "allocate 1.0 TiB of device memory on soft:h200: CUDA_ERROR_OUT_OF_MEMORY: device 0 has"},
		{last(m.Kernel("vectoradd")), cu.ErrorNotFound, `find kernel "vectoradd": did you mean "vector_add"? there are: `},
		{last(ferry.Global[byte](m, "x")), cu.ErrorNotFound, `find variable "x": there are no variables (CUDA_ERROR_NOT_FOUND)`},
		{s.Launch(k, ferry.Cover(1, 1), long, 5), cu.ErrorInvalidValue, "got int, 8 bytes, want uint32: pass uint32(x), or int32(x) for a signed parameter"},
		{ferry.Copy(s, long, short), cu.ErrorInvalidValue, "the destination, device buffer 1 (100 [3]float64, 2.3 KiB) on soft:h200, has 100 elements, and the source, device buffer 2 (50 [3]float64, 1.2 KiB) on soft:h200, has 50"},
		{ferry.Fill(s, long, [3]float64{1.5, 2, 3}), cu.ErrorInvalidValue, "the value [1.5 2 3], 24 bytes (0x"},
	} {
		if c.err == nil {
			t.Errorf("no error, want %q", c.want)
			continue
		}
		wantError(t, c.err, c.is, c.want)
		for _, tried := range []string{"find kernel", "allocate "} {
			if n := strings.Count(c.err.Error(), tried); n > 1 {
				t.Errorf("%v: says %d times what was tried", c.err, n)
			}
		}
	}
	closeAll(t, long, short, own, m, s)
}

// TestBadVariableFirst: without a GPU, a bad variable of the software GPU is said before what was
// tried to find hardware.
func TestBadVariableFirst(t *testing.T) {
	t.Setenv(ferry.SpecVariable, "")
	for _, variable := range []string{softgpu.ScheduleVariable, softgpu.LimitVariable} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, "sofa")
			g, err := ferry.Open("")
			if err == nil {
				closeAll(t, g)
				t.Skip("there is a GPU")
			}
			if first, _, _ := strings.Cut(err.Error(), "\n"); !strings.Contains(first, variable) || !strings.Contains(first, "sofa") {
				t.Errorf("the first line is %q, want %s in it", first, variable)
			}
		})
	}
}

// TestVariableRefused: a variable or an option that is wrong is an invalid value, and the error
// says which.
func TestVariableRefused(t *testing.T) {
	open := func() error { return last(ferry.Open("soft:h200")) }
	for _, variable := range []string{softgpu.ScheduleVariable, softgpu.LimitVariable, softgpu.CheckVariable, fault.Variable, ferry.SpecVariable} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, "sofa")
			name := "soft:h200"
			if variable == ferry.SpecVariable {
				name = ""
			}
			wantError(t, last(ferry.Open(name)), cu.ErrorInvalidValue, "sofa", variable)
		})
	}
	t.Run(trace.Variable, func(t *testing.T) {
		t.Setenv(trace.Variable, "/no/such/directory/recording")
		wantError(t, open(), os.ErrNotExist, trace.Variable+"=/no/such/directory/recording")
	})
	t.Setenv(softgpu.ScheduleVariable, "random:-1")
	wantError(t, open(), cu.ErrorInvalidValue, "the seed is not a number")
	t.Setenv(softgpu.ScheduleVariable, "")
	for part, o := range map[string]softgpu.Options{"17 devices": {Devices: 17}, "-1 devices": {Devices: -1}, "schedule 77": {Schedule: 77}, "limit is -1ns": {KernelLimit: -1},
		`check "sofa"`: {Check: "sofa"}} {
		wantError(t, last(softgpu.Open(o)), cu.ErrorInvalidValue, part)
	}
	wantError(t, last(softgpu.ParseSchedule("sofa")), cu.ErrorInvalidValue, "sofa")
	wantError(t, last(softgpu.ParseCheck("sofa")), cu.ErrorInvalidValue, "sofa")
	wantError(t, last(fault.Parse("sofa")), cu.ErrorInvalidValue, "sofa")
}

// wrapping runs a test in a process of its own for each combination of the variables that wrap
// drivers. No call fails: FERRY_FAULT names one that no program makes so often.
func wrapping(t *testing.T, test func(t *testing.T)) {
	combinations := []int{0, 1, 2, 3, 4, 5, 6, 7}
	if racebuild.On { // a process of a race build takes a second to start
		combinations = sample.Of(t, combinations, 3)
	}
	for _, i := range combinations {
		var names, values []string
		for bit, v := range []string{fault.Variable, trace.Variable, softgpu.CheckVariable} {
			if i>>bit&1 == 1 {
				names = append(names, v)
				values = append(values, v+"="+[]string{"cuMemAlloc:1000000:CUDA_ERROR_OUT_OF_MEMORY", t.TempDir() + "/trace", "memory"}[bit])
			} else {
				values = append(values, v+"=")
			}
		}
		t.Run("with "+strings.Join(names, " and "), func(t *testing.T) {
			if inHelper(t) {
				test(t)
			} else if out, err := helper(t, values...).CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// copyBetween copies from one GPU to another, and compares the bytes.
func copyBetween(t *testing.T, a, b *ferry.GPU) {
	t.Helper()
	from, to := must(ferry.Alloc[uint32](a, 1000))(t), must(ferry.Alloc[uint32](b, 1000))(t)
	want, got := make([]uint32, 1000), make([]uint32, 1000)
	for i := range want {
		want[i] = uint32(i) * 2654435761
	}
	check(t, ferry.Copy(a.DefaultStream(), from, ferry.Pageable(want)))
	check(t, a.Wait(context.Background()))
	if err := ferry.Copy(b.DefaultStream(), to, from); err != nil {
		t.Errorf("copy between two GPUs of one driver: %v", err)
	}
	check(t, ferry.Copy(b.DefaultStream(), ferry.Pageable(got), to))
	check(t, b.Wait(context.Background()))
	if !slices.Equal(got, want) {
		t.Error("the bytes differ")
	}
	closeAll(t, from, to)
}

// TestConcurrentOpenings: goroutines open and close the GPUs of one driver at a time, and those that
// are open have one driver. When all are closed, and the collector has run, they open again.
func TestConcurrentOpenings(t *testing.T) {
	wrapping(t, func(t *testing.T) {
		d := softDriver(t, "h200", 2, softgpu.Eager)
		for range 5 {
			var gpus [6]*ferry.GPU
			var errs [6]error
			var all sync.WaitGroup
			for i := range gpus {
				all.Go(func() {
					for range 3 {
						if err := errors.Join(errs[i], gpus[i].Close()); err != nil {
							errs[i] = err
							return
						}
						gpus[i], errs[i] = ferry.OpenDriver(d, i%2)
					}
				})
			}
			all.Go(runtime.GC)
			all.Wait()
			check(t, errors.Join(errs[:]...))
			for _, g := range gpus {
				if g.Driver() != gpus[0].Driver() {
					t.Fatal("the GPUs of one driver have two drivers")
				}
			}
			copyBetween(t, gpus[0], gpus[1])
			for _, g := range gpus {
				check(t, g.Close())
			}
			runtime.GC()
		}
	})
}

// TestDriverIsKept: a program that keeps the driver of a GPU over Close, and opens one GPU of that
// and another one of the driver it gave to OpenDriver, has two GPUs of one driver.
func TestDriverIsKept(t *testing.T) {
	wrapping(t, func(t *testing.T) {
		for range 3 {
			d := softDriver(t, "h200", 2, softgpu.Eager)
			g := must(ferry.OpenDriver(d, 0))(t)
			kept := g.Driver()
			check(t, g.Close())
			runtime.GC()
			a, b := must(ferry.OpenDriver(kept, 0))(t), must(ferry.OpenDriver(d, 1))(t)
			if a.Driver() != kept || b.Driver() != kept {
				t.Errorf("the driver is %p, those of two GPUs are %p and %p", kept, a.Driver(), b.Driver())
			}
			copyBetween(t, a, b)
			closeAll(t, a, b)
		}
	})
}

// TestOpeningsAreNotKept: a GPU that is closed, with its driver, is no memory of the process.
func TestOpeningsAreNotKept(t *testing.T) {
	sample.SkipRace(t)
	wrapping(t, func(t *testing.T) {
		const openings = 30
		inUse := func() (m runtime.MemStats) {
			for range 3 { // cleanups run after a collection
				runtime.GC()
				time.Sleep(time.Millisecond)
			}
			runtime.ReadMemStats(&m)
			return m
		}
		open := func(n int) {
			for range n {
				g := must(ferry.Open("soft"))(t)
				closeAll(t, must(ferry.Alloc[uint32](g, 1000))(t), g)
			}
		}
		open(10)
		before := inUse()
		open(openings)
		after := inUse()
		bytes, objects := int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(after.HeapObjects)-int64(before.HeapObjects)
		if bytes > 8<<10*openings || objects > 100*openings {
			t.Errorf("%d openings and closings keep %d bytes in %d objects", openings, bytes, objects)
		}
	})
}
