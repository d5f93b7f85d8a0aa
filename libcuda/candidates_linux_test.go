//go:build (amd64 || arm64) && !android && !faketime && !ferrysoft

package libcuda

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/dl/dltest"
)

// childVariable makes a process print what Open does. With "files" it has no descriptor left.
const childVariable = "FERRY_CANDIDATES_CHILD"

// TestCandidatesChild is the child process of the tests below.
func TestCandidatesChild(t *testing.T) {
	mode := os.Getenv(childVariable)
	if mode == "" {
		t.Skip("runs in a child process")
	}
	if mode == "files" {
		useAllFiles(t)
	}
	d, err := Open()
	if err == nil {
		fmt.Printf("opened %s of CUDA %d\n", d.Path(), d.version)
		return
	}
	e, ok := errors.AsType[*OpenError](err)
	if !ok {
		t.Fatal(err)
	}
	fmt.Printf("present %t, broken %t, stub %t, no device %t, reason %q\n%v\n", e.DriverPresent(), e.Broken(),
		errors.Is(err, cu.ErrorStubLibrary), errors.Is(err, cu.ErrorNoDevice), e.Reason(), err)
}

// useAllFiles opens files until the process may not open another.
func useAllFiles(t *testing.T) {
	t.Helper()
	limit := syscall.Rlimit{Cur: 40, Max: 40}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := syscall.Open("/dev/null", syscall.O_RDONLY, 0); err != nil {
			return
		}
	}
}

// openInChild returns what Open does in a process with a search path. named is the value of
// FERRY_LIBCUDA.
func openInChild(t *testing.T, mode, path, named string) string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-test.run=^TestCandidatesChild$")
	cmd.Env = append(os.Environ(), childVariable+"="+mode, LibraryVariable+"="+named, "LD_LIBRARY_PATH="+path)
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return string(text)
}

// TestNextCandidate: a library that does not start hides no library that does. FERRY_LIBCUDA
// alone is final.
func TestNextCandidate(t *testing.T) {
	good := t.TempDir()
	works := dltest.Driver(12040).Write(t, good, "libcuda.so.1")
	for _, c := range []struct {
		what  string
		plant func(dir string) string
		want  string // in the error when it is alone, or named
	}{
		{"stub", func(dir string) string { return dltest.Failing(34).Write(t, dir, "libcuda.so.1") }, "CUDA_ERROR_STUB_LIBRARY"},
		{"stub without version", func(dir string) string { return dltest.Failing(34).Write(t, dir, "libcuda.so") }, "CUDA_ERROR_STUB_LIBRARY"},
		{"stub without symbols", func(dir string) string { return (&dltest.Library{}).Write(t, dir, "libcuda.so.1") }, "no CUDA driver"},
		{"another release than the module", func(dir string) string { return dltest.Failing(803).Write(t, dir, "libcuda.so.1") }, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
		{"broken file", func(dir string) string {
			path := filepath.Join(dir, "libcuda.so.1")
			if err := os.WriteFile(path, []byte(strings.Repeat("text", 100)), 0o755); err != nil {
				t.Fatal(err)
			}
			return path
		}, "invalid ELF header"},
		{"missing dependency", func(dir string) string {
			return (&dltest.Library{Needed: "libnothing.so.77"}).Write(t, dir, "libcuda.so.1")
		}, "libnothing.so.77"},
	} {
		t.Run(c.what, func(t *testing.T) {
			bad := t.TempDir()
			path := c.plant(bad)
			if got, want := openInChild(t, "1", bad+":"+good, ""), "opened "+works+" of CUDA 12040\n"; !strings.HasPrefix(got, want) {
				t.Errorf("before a working library: %swant %s", got, want)
			}
			got := openInChild(t, "1", bad+":"+good, path)
			if !strings.HasPrefix(got, "present true, broken true") || !strings.Contains(got, path) || !strings.Contains(got, c.want) || strings.Contains(got, works) {
				t.Errorf("named by %s: %swant %q", LibraryVariable, got, c.want)
			}
			got = openInChild(t, "1", bad, "")
			if strings.HasPrefix(got, "opened") {
				return // the driver of this machine
			}
			broken := c.want != "CUDA_ERROR_STUB_LIBRARY" // a stub is no driver
			if !strings.HasPrefix(got, fmt.Sprintf("present true, broken %t", broken)) || !strings.Contains(got, bad) || !strings.Contains(got, c.want) {
				t.Errorf("alone: %swant %q", got, c.want)
			}
		})
	}
}

// TestManyReasons: when no library works, the error and its reason have each, in order.
func TestManyReasons(t *testing.T) {
	stub, old := t.TempDir(), t.TempDir()
	dltest.Failing(34).Write(t, stub, "libcuda.so.1")
	dltest.Failing(803).Write(t, old, "libcuda.so.1")
	got := openInChild(t, "1", stub+":"+old, "")
	if strings.HasPrefix(got, "opened") {
		t.Skip("this machine has a driver")
	}
	head, rest, _ := strings.Cut(got, "\n")
	for _, text := range []string{head, rest} {
		at := strings.Index(text, "CUDA_ERROR_STUB_LIBRARY")
		if behind := strings.Index(text, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"); at < 0 || behind < at {
			t.Errorf("got %s", text)
		}
	}
	if !strings.Contains(head, "stub true") {
		t.Errorf("the error does not wrap the result: %s", head)
	}
}

// TestNoDeviceIsNotBroken: a library that starts with CUDA_ERROR_NO_DEVICE is a driver without
// a GPU. A machine without a library has no driver.
func TestNoDeviceIsNotBroken(t *testing.T) {
	dir := t.TempDir()
	dltest.Failing(100).Write(t, dir, "libcuda.so.1")
	if got := openInChild(t, "1", dir, ""); !strings.HasPrefix(got, "opened") && !strings.HasPrefix(got, "present true, broken false, stub false, no device true") {
		t.Errorf("got %s", got)
	}
	none := &OpenError{Tried: []Attempt{{Path: "/usr/lib64", Message: "not there"}}}
	if none.DriverPresent() || none.Broken() || none.Reason() != "" {
		t.Errorf("no driver: present %t, broken %t, reason %q", none.DriverPresent(), none.Broken(), none.Reason())
	}
	for kernel, broken := range map[string]bool{"/proc/driver/nvidia": false, "/dev/nvidia0": true} {
		e := &OpenError{Tried: none.Tried, Kernel: kernel}
		if !e.DriverPresent() || e.Broken() != broken || !strings.Contains(e.Reason(), kernel) || !strings.Contains(e.Error(), kernel) {
			t.Errorf("%s: present %t, broken %t, reason %q, error %v", kernel, e.DriverPresent(), e.Broken(), e.Reason(), e)
		}
	}
}

// TestBrokenCounts: one library without a device does not excuse another one that fails, and a
// stub of the toolkit is no driver.
func TestBrokenCounts(t *testing.T) {
	noDevice := Attempt{Path: "/usr/lib64/libcuda.so.1", Exists: true, Err: cu.ErrorNoDevice}
	mismatch := Attempt{Path: "/opt/libcuda.so.1", Exists: true, Err: cu.ErrorSystemDriverMismatch}
	stub := Attempt{Path: "/opt/libcuda.so", Exists: true, Err: cu.ErrorStubLibrary}
	linkers := Attempt{Path: "/usr/local/cuda/lib64/stubs/libcuda.so", Exists: true}
	for _, c := range []struct {
		tried  []Attempt
		named  bool
		broken bool
	}{
		{[]Attempt{noDevice}, false, false},
		{[]Attempt{mismatch, noDevice}, false, true},
		{[]Attempt{noDevice, mismatch}, false, true},
		{[]Attempt{stub, linkers}, false, false},
		{[]Attempt{stub}, true, true},
		{[]Attempt{noDevice}, true, false},
	} {
		e := &OpenError{Tried: c.tried, Named: c.named}
		if got := e.Broken(); got != c.broken || !e.DriverPresent() || e.Reason() == "" {
			t.Errorf("%v, named %t: broken %t, present %t, reason %q", c.tried, c.named, got, e.DriverPresent(), e.Reason())
		}
	}
}

// TestStubIsNotRun: a library in a directory named stubs is not run by way of the loader either.
func TestStubIsNotRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stubs")
	dltest.Failing(100).Write(t, dir, "libcuda.so.1")
	got := openInChild(t, "1", dir, "")
	if !strings.HasPrefix(got, "opened") && (!strings.HasPrefix(got, "present true, broken false, stub false, no device false") || !strings.Contains(got, "for linkers")) {
		t.Errorf("got %s", got)
	}
}

// TestNoDescriptors: a process without a file descriptor left says so. It is no machine without
// a driver.
func TestNoDescriptors(t *testing.T) {
	dir := t.TempDir()
	path := dltest.Driver(12040).Write(t, dir, "libcuda.so.1")
	got := openInChild(t, "files", dir, "")
	if !strings.HasPrefix(got, "present true, broken true") || !strings.Contains(got, path) || !strings.Contains(got, "Too many open files") {
		t.Errorf("got %s", got)
	}
}

// TestOneSymbolMissing: a library that says a new version and lacks a function is not too old.
func TestOneSymbolMissing(t *testing.T) {
	path := dltest.Driver(13000).Write(t, t.TempDir(), "libcuda.so.1")
	t.Setenv(LibraryVariable, path)
	d, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.DeviceGet(0)
	missing, ok := errors.AsType[*cu.NotSupportedError](err)
	if !ok || !strings.HasPrefix(missing.Needs, "the symbol cuDeviceGet of CUDA") {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{"damaged or incomplete", path, "CUDA 13.0"} {
		if !strings.Contains(missing.Found, want) {
			t.Errorf("%v: want %q", err, want)
		}
	}
	old := dltest.Driver(11030).Write(t, t.TempDir(), "libcuda.so.1")
	t.Setenv(LibraryVariable, old)
	if d, err = Open(); err != nil {
		t.Fatal(err)
	}
	if _, _, err = d.FuncGetParamInfo(1, 1, 0); err == nil || strings.Contains(err.Error(), "damaged") || !strings.Contains(err.Error(), "CUDA 12.4 or newer") {
		t.Errorf("an old library: %v", err)
	}
}
