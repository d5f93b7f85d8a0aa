package libcuda

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/dl"
)

// TestOpenNamedLibrary opens only the library that the variable names; the error says
// why it cannot.
func TestOpenNamedLibrary(t *testing.T) {
	if !dl.Supported {
		t.Skip("no library on this platform")
	}
	missing := filepath.Join(t.TempDir(), "libcuda.so.1")
	noLibrary := filepath.Join(t.TempDir(), "text.so")
	if err := os.WriteFile(noLibrary, []byte("this is text, not a shared library"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, want string }{
		{missing, "cannot open shared object file"},
		{noLibrary, ""},
		{"libcuda.so.1", "not an absolute path"},
		{"./libcuda.so.1", "not an absolute path"},
		{"sub/../libcuda.so.1", "not an absolute path"},
	} {
		t.Setenv(LibraryVariable, c.path)
		d, err := Open()
		if err == nil {
			t.Fatalf("opened %s as %s", c.path, d.Path())
		}
		failed, ok := errors.AsType[*OpenError](err)
		if !ok || len(failed.Tried) != 1 || failed.Tried[0].Path != c.path || failed.Tried[0].Message == "" {
			t.Fatalf("error %#v: want one attempt at %s", err, c.path)
		}
		if got := err.Error(); !strings.Contains(got, c.path) || !strings.Contains(got, c.want) || !strings.Contains(got, LibraryVariable) {
			t.Errorf("error %q: want the path, %q and %s", got, c.want, LibraryVariable)
		}
	}
}

// TestOpenTriesEveryPlace runs where there is no driver, because people see the error
// there.
func TestOpenTriesEveryPlace(t *testing.T) {
	t.Setenv(LibraryVariable, "")
	_, err := Open()
	if err == nil {
		t.Skip("this machine has a driver library")
	}
	failed, ok := errors.AsType[*OpenError](err)
	if !ok {
		t.Fatalf("error %T, want *OpenError", err)
	}
	if !dl.Supported {
		if want := dl.Platform(); failed.Platform != want || !strings.Contains(err.Error(), want) {
			t.Errorf("error %q, want one that names %s", err, want)
		}
		return
	}
	want := append([]string{"the system's loader"}, dl.DriverLibrary("libcuda.so.1").Dirs...)
	for _, path := range want {
		if !strings.Contains(err.Error(), path) {
			t.Errorf("error %q does not name %s", err, path)
		}
	}
}

func ExampleOpenError() {
	err := &OpenError{Tried: []Attempt{
		{Path: "/opt/lib", Message: dl.NotThere},
		{Path: "libcuda.so.1", Message: "cuInit of /opt/stubs/libcuda.so.1: CUDA_ERROR_STUB_LIBRARY", Exists: true, Err: cu.ErrorStubLibrary},
		{Path: "/usr/lib64", Message: dl.NotThere},
		{Path: "/usr/lib64/nvidia", Message: dl.NotThere},
		{Path: "/usr/lib/wsl/lib/libcuda.so.1", Message: "invalid ELF header", Exists: true},
	}}
	fmt.Println(err)
	fmt.Println(err.Broken(), errors.Is(err, cu.ErrorStubLibrary), err.Reason())
	fmt.Println(&OpenError{Platform: "darwin/arm64"})
	// Output:
	// open the CUDA driver library: tried /opt/lib: not there; libcuda.so.1: cuInit of /opt/stubs/libcuda.so.1: CUDA_ERROR_STUB_LIBRARY; /usr/lib64, /usr/lib64/nvidia: not there; /usr/lib/wsl/lib/libcuda.so.1: invalid ELF header. Install NVIDIA's driver, or set FERRY_LIBCUDA to the path of its libcuda.so.1
	// true true libcuda.so.1: cuInit of /opt/stubs/libcuda.so.1: CUDA_ERROR_STUB_LIBRARY; /usr/lib/wsl/lib/libcuda.so.1: invalid ELF header
	// open the CUDA driver library: Ferry uses it on linux/amd64 and linux/arm64, this is darwin/arm64
}

func TestMappedFile(t *testing.T) {
	if !dl.Supported {
		t.Skip("no /proc/self/maps")
	}
	const maps = `7f10-7f20 r--p 00000000 08:01 1 /usr/lib/libc.so.6
7f20-7f30 r-xp 00001000 08:01 2 /opt/a b/libcuda.so.580.65.06
7f30-7f40 rw-p 00000000 00:00 0
`
	for _, c := range []struct {
		addr uintptr
		want string
	}{
		{0x7f0f, ""}, {0x7f10, "/usr/lib/libc.so.6"}, {0x7f1f, "/usr/lib/libc.so.6"},
		{0x7f20, "/opt/a b/libcuda.so.580.65.06"}, {0x7f30, ""}, {0x7f40, ""},
	} {
		if got := mappedFile(maps, c.addr); got != c.want {
			t.Errorf("%#x is in %q, want %q", c.addr, got, c.want)
		}
	}
}

func TestVersionText(t *testing.T) {
	for _, c := range []struct {
		version int32
		want    string
	}{{13000, "13.0"}, {12040, "12.4"}, {3020, "3.2"}, {5050, "5.5"}} {
		if got := versionText(c.version); got != c.want {
			t.Errorf("%d is %q, want %q", c.version, got, c.want)
		}
	}
}

func TestCString(t *testing.T) {
	if got, err := cString("cuF", "add"); err != nil || string(got) != "add\x00" {
		t.Errorf("%q, %v", got, err)
	}
	_, err := cString("cuModuleGetFunction", "add\x00er")
	if !errors.Is(err, cu.ErrorInvalidValue) || !strings.Contains(err.Error(), `"add\x00er"`) {
		t.Errorf("error %v, want CUDA_ERROR_INVALID_VALUE with the name", err)
	}
}
