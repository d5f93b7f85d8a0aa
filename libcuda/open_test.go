package libcuda

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// TestOpenNamedLibrary opens only the library that the variable names; the error says
// why it cannot.
func TestOpenNamedLibrary(t *testing.T) {
	if !platformSupported {
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
	if !platformSupported {
		if want := runtime.GOOS + "/" + runtime.GOARCH; failed.Platform != want || !strings.Contains(err.Error(), want) {
			t.Errorf("error %q, want one that names %s", err, want)
		}
		return
	}
	if len(failed.Tried) != len(libraryPaths()) {
		t.Errorf("tried %d places, want %d", len(failed.Tried), len(libraryPaths()))
	}
	for _, path := range libraryPaths() {
		if !strings.Contains(err.Error(), path) {
			t.Errorf("error %q does not name %s", err, path)
		}
	}
}

func ExampleOpenError() {
	err := &OpenError{Tried: []Attempt{
		{"libcuda.so.1", "libcuda.so.1: cannot open shared object file: No such file or directory"},
		{"/usr/lib64/libcuda.so.1", "/usr/lib64/libcuda.so.1: cannot open shared object file: No such file or directory"},
		{"/usr/lib/wsl/lib/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1: invalid ELF header"},
	}}
	fmt.Println(err)
	fmt.Println(&OpenError{Platform: "darwin/arm64"})
	// Output:
	// open the CUDA driver library: tried libcuda.so.1, /usr/lib64/libcuda.so.1: cannot open shared object file: No such file or directory; /usr/lib/wsl/lib/libcuda.so.1: invalid ELF header. Install NVIDIA's driver, or set FERRY_LIBCUDA to the path of its libcuda.so.1
	// open the CUDA driver library: Ferry uses it on linux/amd64 and linux/arm64, this is darwin/arm64
}

func TestMappedFile(t *testing.T) {
	if !platformSupported {
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
