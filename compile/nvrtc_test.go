package compile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/kernels"
)

// useFake makes a fake library the NVRTC of this machine.
func useFake(t *testing.T, l *fakeNVRTC) {
	t.Helper()
	real := findNVRTC
	t.Cleanup(func() {
		findNVRTC = real
		if len(l.live) > 0 {
			t.Errorf("%d programs were not destroyed", len(l.live))
		}
	})
	findNVRTC = func() (compiler, error) {
		n, err := l.open()
		if err != nil {
			return nil, &NotFoundError{Tried: []string{"NVRTC: " + err.Error()}}
		}
		return n, nil
	}
}

// TestFakeNVRTC demands what is handed to NVRTC, and what comes back.
func TestFakeNVRTC(t *testing.T) {
	l := newFake()
	l.log = "dir/k.cu(2): warning #177-D: variable \"y\" was declared but never referenced\n      int y;\n          ^\n\n" +
		"Remark: The warnings can be suppressed with \"-diag-suppress <warning-number>\"\n\n"
	useFake(t, l)
	source := "__global__ void k() {\n\tint y;\n}\n"
	r, err := Source(t.Context(), "dir/k.cu", []byte(source), &Options{
		Arch: "9.0", Include: []string{"/a b"}, Define: []string{"N", "M=3"}, LineInfo: true, FastMath: true})
	if err != nil {
		t.Fatal(err)
	}
	if string(r.PTX) != l.ptx || r.Compiler != "NVRTC 13.1" || r.Arch != "sm_90" || r.Log != l.log {
		t.Errorf("got %+v", r)
	}
	want := []Diagnostic{{"dir/k.cu", 2, 6, "warning", `variable "y" was declared but never referenced`, "\tint y;"}}
	if !slices.Equal(r.Warnings, want) {
		t.Errorf("warnings %+v, want %+v", r.Warnings, want)
	}
	options := []string{"--gpu-architecture=compute_90", "--std=c++17", "--include-path=dir", "--include-path=/a b",
		"--define-macro=N", "--define-macro=M=3", "--generate-line-info", "--use_fast_math"}
	if !slices.Equal(l.options, options) {
		t.Errorf("options %q, want %q", l.options, options)
	}
	if l.name != "dir/k.cu" || l.source != "#include \""+coreHeader+"\"\n#line 1 \"dir/k.cu\"\n"+source {
		t.Errorf("program %q: %q", l.name, l.source)
	}
	text, err := kernels.Headers.ReadFile(ferryHeader)
	if err != nil || l.headers[ferryHeader] != absoluteIncludes(ferryHeader, string(text)) {
		t.Errorf("ferry.h was handed over as %q; %v", l.headers[ferryHeader], err)
	}
}

// TestFakeNVRTCOwnInclude demands that ferry.h is not included twice.
func TestFakeNVRTCOwnInclude(t *testing.T) {
	l := newFake()
	useFake(t, l)
	source := "// my kernels\n  # include <ferry.h>\n"
	if _, err := Source(t.Context(), "k.cu", []byte(source), nil); err != nil || l.source != source {
		t.Errorf("source %q, error %v", l.source, err)
	}
}

// TestNVRTCOwnHeaders demands that CUDA's headers go before Ferry's of the same name, but
// never before ferry.h.
func TestNVRTCOwnHeaders(t *testing.T) {
	n := &nvrtc{include: t.TempDir()}
	for _, name := range []string{"cuda_fp16.h", ferryHeader} {
		if err := os.WriteFile(filepath.Join(n.include, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !n.has("cuda_fp16.h") || n.has(ferryHeader) || n.has("cuda_bf16.h") || (&nvrtc{}).has("cuda_fp16.h") {
		t.Error("the wrong headers are left to CUDA")
	}
}

// TestFakeNVRTCErrors demands an error for each way in which the library can fail.
func TestFakeNVRTCErrors(t *testing.T) {
	sample.SkipRace(t)
	for _, c := range []struct {
		what string
		set  func(*fakeNVRTC)
		want []string
	}{
		{"create", func(l *fakeNVRTC) { l.fail = map[string]int32{"nvrtcCreateProgram": 2} },
			[]string{"compile k.cu", "nvrtcCreateProgram", "NVRTC_ERROR_OF_THE_TEST (2)"}},
		{"option", func(l *fakeNVRTC) {
			l.fail = map[string]int32{"nvrtcCompileProgram": 5}
			l.log = "nvrtc: error: unrecognized option --std found"
		}, []string{"NVRTC 13.1", "(5)", "unrecognized option"}},
		{"builtins", func(l *fakeNVRTC) { l.fail = map[string]int32{"nvrtcCompileProgram": 7} },
			[]string{"libnvrtc-builtins"}},
		{"log", func(l *fakeNVRTC) { l.fail = map[string]int32{"nvrtcGetProgramLog": 11} }, []string{"nvrtcGetProgramLog", "(11)"}},
		{"PTX", func(l *fakeNVRTC) { l.fail = map[string]int32{"nvrtcGetPTX": 4} }, []string{"nvrtcGetPTX:", "(4)"}},
		{"huge log", func(l *fakeNVRTC) { l.logSize = 1 << 60 }, []string{"nvrtcGetProgramLogSize", "bytes, more than"}},
		{"missing symbol", func(l *fakeNVRTC) { l.lacks = "nvrtcGetPTXSize" }, []string{"undefined symbol: nvrtcGetPTXSize"}},
		{"no error string", func(l *fakeNVRTC) {
			l.fail, l.lacks = map[string]int32{"nvrtcCreateProgram": 2}, "nvrtcGetErrorString"
		}, []string{"unknown error (2)"}},
		{"arch", func(l *fakeNVRTC) { l.archs = []int{90, 100} },
			[]string{"architecture sm_80: NVRTC 13.1 cannot compile for it; the nearest that works is sm_90"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			l := newFake()
			c.set(l)
			useFake(t, l)
			_, err := Source(t.Context(), "k.cu", []byte("__global__ void k() {}\n"), nil)
			if err == nil {
				t.Fatal("no error")
			}
			if _, ok := errors.AsType[*Error](err); ok {
				t.Errorf("%v: is an error of the source", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want it to say %q", err, want)
				}
			}
		})
	}
}

// TestFakeNVRTCSuffix demands the nearest architecture if NVRTC refuses a suffix.
func TestFakeNVRTCSuffix(t *testing.T) {
	l := newFake()
	useFake(t, l)
	if _, err := Source(t.Context(), "k.cu", nil, &Options{Arch: "90a"}); err != nil || l.options[0] != "--gpu-architecture=compute_90a" {
		t.Errorf("options %q, error %v", l.options, err)
	}
	l.fail = map[string]int32{"nvrtcCompileProgram": nvrtcErrorOption}
	l.log = "nvrtc: error: invalid value for --gpu-architecture (-arch)\n"
	_, err := Source(t.Context(), "k.cu", nil, &Options{Arch: "90f"})
	if e, ok := errors.AsType[*ArchError](err); !ok || e.Arch != "sm_90f" || e.Nearest != "sm_90" {
		t.Errorf("got %v", err)
	}
}

// TestFakeNVRTCDestroy demands an error if a program cannot be destroyed.
func TestFakeNVRTCDestroy(t *testing.T) {
	l := newFake()
	l.fail = map[string]int32{"nvrtcDestroyProgram": 4}
	n, err := l.open()
	if err != nil {
		t.Fatal(err)
	}
	u, err := newUnit("k.cu", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := n.compile(t.Context(), u); r != nil || err == nil || !strings.Contains(err.Error(), "nvrtcDestroyProgram") {
		t.Errorf("got %v, error %v", r, err)
	}
}

// TestUnusableNVRTC demands that a library that cannot be used is passed over, with the
// reason.
func TestUnusableNVRTC(t *testing.T) {
	for _, c := range []struct {
		what string
		set  func(*fakeNVRTC)
		want string
	}{
		{"old", func(l *fakeNVRTC) { l.major, l.minor = 11, 1 }, "NVRTC 11.1 is too old"},
		{"no version", func(l *fakeNVRTC) { l.lacks = "nvrtcVersion" }, "undefined symbol: nvrtcVersion"},
		{"no archs", func(l *fakeNVRTC) { l.archs = nil }, "0 architectures"},
		{"too many archs", func(l *fakeNVRTC) { l.archs = make([]int, maxNVRTCArchs+1) }, "1001 architectures"},
		{"archs fail", func(l *fakeNVRTC) { l.fail = map[string]int32{"nvrtcGetSupportedArchs": 3} }, "nvrtcGetSupportedArchs"},
	} {
		l := newFake()
		c.set(l)
		useFake(t, l)
		t.Setenv("PATH", "")
		t.Setenv(ClangVariable, "")
		_, err := Source(t.Context(), "k.cu", nil, nil)
		if e, ok := errors.AsType[*NotFoundError](err); !ok || !strings.Contains(e.Tried[0], c.want) {
			t.Errorf("%s: got %v, want %q", c.what, err, c.want)
		}
	}
}

// TestFakeNVRTCContext demands that a call returns when its context ends, while NVRTC goes
// on, and that it does not begin after the end.
func TestFakeNVRTCContext(t *testing.T) {
	l := newFake()
	l.hold = make(chan struct{})
	l.log = "k.cu(1): warning: late\n"
	n, err := l.open()
	if err != nil {
		t.Fatal(err)
	}
	source := []byte("x")
	u, err := newUnit("k.cu", source, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := n.compile(ctx, u); done <- err }()
	for l.running() == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := n.compile(ctx, u); !errors.Is(err, context.Canceled) || l.created != 1 {
		t.Errorf("after the end: %v, %d programs", err, l.created)
	}
	var caller sync.WaitGroup
	caller.Go(func() { source[0] = 'y' }) // it is the caller's again: a later use is a data race
	close(l.hold)
	for l.left() > 0 {
		time.Sleep(time.Millisecond)
	}
	caller.Wait()
}

func (l *fakeNVRTC) running() int { l.mu.Lock(); defer l.mu.Unlock(); return l.compiling }
func (l *fakeNVRTC) left() int    { l.mu.Lock(); defer l.mu.Unlock(); return len(l.live) }

// TestFakeNVRTCConcurrent compiles in several goroutines.
func TestFakeNVRTCConcurrent(t *testing.T) {
	l := newFake()
	useFake(t, l)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 3 {
				if _, err := Source(t.Context(), fmt.Sprint(i, ".cu"), []byte("x"), nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if l.created != 24 {
		t.Errorf("%d programs, want 24", l.created)
	}
}

// TestFakeNVRTCDiagnostics demands the diagnostics of a log. Lines of Ferry's header and
// of a file beside the source have their text too.
func TestFakeNVRTCDiagnostics(t *testing.T) {
	l := newFake()
	l.fail = map[string]int32{"nvrtcCompileProgram": 6}
	l.log = strings.ReplaceAll(`testdata/wrong.cu(6): error: identifier "absent" is undefined
    y[0] = absent + 1;
          ^

testdata/wrong.cu(7): error: argument of type "const float *" is incompatible with
  parameter of type "int *"
      y[1] = known(x);
                   ^

testdata/wrong.cu(1): error: expression must have class type but it has type "int"
  template <class T> __device__ T half_of(T x) { return x.half; }
                                                        ^
          detected during instantiation of "T half_of(T) [with T=int]" at line 8

testdata/square.h(2): note #3322-D: seen here
ferry.h(4): warning #20012-D: this is old

nvrtc: error: too much
3 errors detected in the compilation of "testdata/wrong.cu".
`, "    y[0]", "  \ty[0]")
	useFake(t, l)
	_, err := File(t.Context(), "testdata/wrong.cu", nil)
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	first := "template <class T> __device__ T half_of(T x) { return x.half; }"
	square := "template <class T> __device__ T square(T x) { return x * x; }"
	want := []Diagnostic{
		{"testdata/wrong.cu", 6, 9, "error", `identifier "absent" is undefined`, "\ty[0] = absent + 1;"},
		{"testdata/wrong.cu", 7, 18, "error", `argument of type "const float *" is incompatible with parameter of type "int *"`, "    y[1] = known(x);"},
		{"testdata/wrong.cu", 1, 55, "error", `expression must have class type but it has type "int" detected during instantiation of "T half_of(T) [with T=int]" at line 8`, first},
		{"testdata/square.h", 2, 0, "note", "seen here", square},
		{"", 0, 0, "error", "too much", ""},
	}
	if len(e.Diagnostics) != len(want) {
		t.Fatalf("got %d diagnostics: %+v", len(e.Diagnostics), e.Diagnostics)
	}
	for i, d := range e.Diagnostics {
		if d != want[i] {
			t.Errorf("got  %#v\nwant %#v", d, want[i])
		}
	}
	if e.File != "testdata/wrong.cu" || e.Compiler != "NVRTC 13.1" || e.Log != l.log {
		t.Errorf("got %+v", e)
	}
	_, warnings, _ := split(parseNVRTC(l.log, &unit{}))
	if len(warnings) != 1 || warnings[0].File != "<ferry.h>" || warnings[0].Source == "" {
		t.Errorf("warnings %+v", warnings)
	}
}

// TestHeaders demands that Ferry's headers include each other, and nothing else that
// exists, by the names under which NVRTC gets them.
func TestHeaders(t *testing.T) {
	all, err := headers()
	if err != nil || len(all) == 0 {
		t.Fatalf("%d headers, error %v", len(all), err)
	}
	known := map[string]bool{}
	for _, h := range all {
		if known[h.name] {
			t.Errorf("two headers have the name %s", h.name)
		}
		known[h.name] = true
	}
	for _, h := range all {
		for _, m := range quotedInclude.FindAllStringSubmatch(h.text, -1) {
			if !known[m[2]] {
				t.Errorf("%s includes %s, which is not there", h.name, m[2])
			}
		}
	}
}

// TestInclude demands CUDA's own headers beside a library, before Ferry's.
func TestInclude(t *testing.T) {
	root := t.TempDir()
	file := func(path string) string {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct{ library, header string }{
		{"cuda/lib64/libnvrtc.so.13", "cuda/include/cuda_fp16.h"},
		{"site/nvidia/cuda_nvrtc/lib/libnvrtc.so.12", "site/nvidia/cuda_runtime/include/cuda_fp16.h"},
		{"big/targets/x/lib/libnvrtc.so.13", "big/targets/x/include/cuda_fp16.h"},
	} {
		library, header := file(c.library), file(c.header)
		if got := cudaInclude(library); got != filepath.Dir(header) {
			t.Errorf("%s: %q", library, got)
		}
	}
	for _, library := range []string{"libnvrtc.so.12", file("lonely/lib/libnvrtc.so.12")} {
		if got := cudaInclude(library); got != "" {
			t.Errorf("%s: %q", library, got)
		}
	}
	l := newFake()
	n, err := newNVRTC(filepath.Join(root, "cuda/lib64/libnvrtc.so.13"), l.call)
	if err != nil {
		t.Fatal(err)
	}
	if !n.has("cuda_fp16.h") || n.has("math.h") || n.has(ferryHeader) {
		t.Error("has does not tell which headers CUDA has")
	}
	u, err := newUnit("k.cu", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.compile(t.Context(), u); err != nil || !slices.Contains(l.options, "--include-path="+n.include) {
		t.Errorf("options %q, error %v", l.options, err)
	}
}

// TestNVRTC compiles the sources of testdata with the real library.
func TestNVRTC(t *testing.T) {
	c, err := findNVRTC()
	if err != nil {
		if os.Getenv("FERRY_REQUIRE_NVRTC") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Logf("%s at %s, headers of CUDA in %q", c.name(), c.(*nvrtc).path, c.(*nvrtc).include)
	checkCompiler(t, "nvrtc", DefaultArch)
	for _, file := range []string{"testdata/wrong.cu", "testdata/warning.cu", "testdata/missing.cu"} {
		r, err := File(t.Context(), file, &Options{Compiler: "nvrtc"})
		if e, ok := errors.AsType[*Error](err); ok {
			t.Logf("%s\n%s\n%v", file, e.Log, e)
		} else if err == nil {
			t.Logf("%s\n%s\n%v", file, r.Log, r.Warnings)
		}
	}
}

// TestAfterNVRTC demands that clang compiles what NVRTC refuses, and which error is reported.
func TestAfterNVRTC(t *testing.T) {
	sample.SkipRace(t)
	_, err := findClang(t.Context(), arch{80, ""}, "")
	skipWithout(t, err)
	for _, c := range []struct{ log, source, compiler, want string }{
		{"k.cu(1): catastrophic error: could not open source file \"vector\"\n", "#include <vector>\n__global__ void k() {}\n", "", "clang "},
		{"k.cu(1): error: identifier \"x\" is undefined\n", "__global__ void k() { x = 1; }\n", "", "by NVRTC 13.1"},
		{"k.cu(1): catastrophic error: could not open source file \"vector\"\n", "#include <vector>\n__global__ void k() { x = 1; }\n", "", "undeclared identifier 'x'"},
		{"k.cu(1): catastrophic error: could not open source file \"vector\"\n", "#include <vector>\n__global__ void k() {}\n", "nvrtc", "by NVRTC 13.1"},
	} {
		l := newFake()
		l.log, l.fail = c.log, map[string]int32{"nvrtcCompileProgram": nvrtcErrorCompilation}
		useFake(t, l)
		r, err := Source(t.Context(), "k.cu", []byte(c.source), &Options{Compiler: c.compiler})
		got := fmt.Sprint(err)
		if err == nil {
			got = r.Compiler
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%q: got %s, want %q", c.source, got, c.want)
		}
	}
}
