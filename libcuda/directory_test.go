package libcuda

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/dl"
)

// copyOfLibm copies a library that is no driver to dir/libcuda.so.1.
func copyOfLibm(t *testing.T, dir string) {
	t.Helper()
	for _, from := range []string{"/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/usr/lib"} {
		data, err := os.ReadFile(filepath.Join(from, "libm.so.6"))
		if err != nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, "libcuda.so.1"), data, 0o755); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Skip("no libm.so.6 found here")
}

// opened is in the error of a library that was opened and is no driver.
const opened = "no CUDA driver"

// TestNothingInTheWorkingDirectory starts processes in a directory that has a libcuda.so.1,
// with each form of LD_LIBRARY_PATH that means the working directory. None opens it. The
// absolute element of the last one is searched.
func TestNothingInTheWorkingDirectory(t *testing.T) {
	if !dl.Supported {
		t.Skip("no library on this platform")
	}
	dir, other := t.TempDir(), t.TempDir()
	copyOfLibm(t, dir)
	copyOfLibm(t, other)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		want bool // that the library of the other directory is opened
	}{{"", false}, {":", false}, {".", false}, {"/nowhere:", false}, {";/nowhere", false}, {"/nowhere::/nowhere", false}, {"../" + filepath.Base(dir), false}, {":" + other, true}} {
		cmd := exec.Command(program, "-test.run=^TestOpenInChild$", "-test.v")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "FERRY_OPEN_CHILD=1", LibraryVariable+"=", "LD_LIBRARY_PATH="+c.path)
		text, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(text), "tried") {
			t.Fatalf("LD_LIBRARY_PATH=%s: %v\n%s", c.path, err, text)
		}
		if c.want && strings.Contains(string(text), withDriver) {
			continue // that was opened, and the search ended
		}
		if c.path != "" && !strings.Contains(string(text), withDriver) && !strings.Contains(string(text), dl.NotAsked.Reason) {
			t.Errorf("LD_LIBRARY_PATH=%s: nothing says that the loader was not asked\n%s", c.path, text)
		}
		if got := strings.Contains(string(text), opened); got != c.want {
			t.Errorf("LD_LIBRARY_PATH=%s: opened %t, want %t\n%s", c.path, got, c.want, text)
		}
		if c.want && !strings.Contains(string(text), other) {
			t.Errorf("LD_LIBRARY_PATH=%s: %s is not searched\n%s", c.path, other, text)
		}
	}
}

// withDriver is what the child says where there is a driver.
const withDriver = "tried: this machine has a driver"

// TestOpenInChild is a child process of the test above.
func TestOpenInChild(t *testing.T) {
	if os.Getenv("FERRY_OPEN_CHILD") != "1" {
		t.Skip("runs in a child process")
	}
	_, err := Open()
	failed, ok := errors.AsType[*OpenError](err)
	if !ok {
		t.Log(withDriver)
		return
	}
	for _, a := range failed.Tried {
		t.Logf("tried %s: %s", a.Path, a.Message)
	}
}
