package dl

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/dl/dltest"
)

const brokenName = "libferrybroken.so.1"

// plant makes one broken candidate of brokenName in a directory.
type plant struct {
	what  string
	plant func(t *testing.T, dir string)
	want  string // in the reason
}

// broken are candidates that exist and cannot be used.
var broken = []plant{
	{"text", func(t *testing.T, dir string) {
		write(t, dir, strings.Repeat("this is text, not a shared library. ", 10))
	}, "invalid ELF header"},
	{"empty file", func(t *testing.T, dir string) { write(t, dir, "") }, "file too short"},
	{"cut", func(t *testing.T, dir string) { write(t, dir, string(dltest.Driver(13000).Bytes()[:100])) }, ""},
	{"missing dependency", func(t *testing.T, dir string) {
		(&dltest.Library{Needed: "libnothing.so.77"}).Write(t, dir, brokenName)
	}, "a library that it needs is missing: libnothing.so.77"},
	{"another processor", func(t *testing.T, dir string) {
		other := map[string]uint16{"amd64": 183, "arm64": 62}[runtime.GOARCH]
		(&dltest.Library{Machine: other}).Write(t, dir, brokenName)
	}, "is for " + map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]},
	{"a rare processor", func(t *testing.T, dir string) {
		(&dltest.Library{Machine: 243}).Write(t, dir, brokenName)
	}, "ELF machine 243"},
	{"32 bits", func(t *testing.T, dir string) {
		file := dltest.Driver(13000).Bytes()
		file[4] = 1 // ELFCLASS32
		write(t, dir, string(file))
	}, "wrong ELF class"},
	{"directory", func(t *testing.T, dir string) {
		if err := os.Mkdir(filepath.Join(dir, brokenName), 0o755); err != nil {
			t.Fatal(err)
		}
	}, "irectory"},
	{"dangling link", func(t *testing.T, dir string) {
		if err := os.Symlink("libferrybroken.so.550", filepath.Join(dir, brokenName)); err != nil {
			t.Fatal(err)
		}
	}, "a link to libferrybroken.so.550, which is not there"},
	{"not accepted", func(t *testing.T, dir string) { dltest.Failing(34).Write(t, dir, brokenName) }, "cuInit returns 34"},
}

func write(t *testing.T, dir, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, brokenName), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// starts accepts a library whose cuInit returns 0.
func starts(l *Library) error {
	fn, err := l.Symbol("cuInit")
	if err == nil && int32(Call(fn, 0)) != 0 {
		err = errNotStarted
	}
	return err
}

var errNotStarted = errors.New("cuInit returns 34")

// TestBrokenHidesNothing puts each broken candidate before a library that works, in
// LD_LIBRARY_PATH and in the directories of the search. The working one is found. Without it,
// the error has the broken one with its reason, as one that exists.
func TestBrokenHidesNothing(t *testing.T) {
	needLibrary(t)
	for _, c := range broken {
		for _, first := range []bool{false, true} { // whether the loader goes before the directories
			t.Run(c.what, func(t *testing.T) {
				bad, good := t.TempDir(), t.TempDir()
				c.plant(t, bad)
				works := dltest.Driver(13000).Write(t, good, brokenName)
				s := &Search{Names: []string{brokenName}, Dirs: []string{good}, LoaderFirst: first, Accept: starts}
				t.Setenv("LD_LIBRARY_PATH", bad)
				if l, err := s.Find(); err != nil || l.Path() != works {
					t.Errorf("in LD_LIBRARY_PATH: found %v, %v", l, err)
				}
				t.Setenv("LD_LIBRARY_PATH", "")
				s.Dirs = []string{bad, good}
				if l, err := s.Find(); err != nil || l.Path() != works {
					t.Errorf("in a directory: found %v, %v", l, err)
				}
				s.Dirs = []string{bad}
				_, err := s.Find()
				c.judge(t, err, filepath.Join(bad, brokenName))
			})
		}
	}
}

// judge demands the reason of a broken candidate.
func (c *plant) judge(t *testing.T, err error, path string) {
	t.Helper()
	e, ok := errors.AsType[*NotFoundError](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	for _, a := range e.Tried {
		if a.Path == path && a.Exists && strings.Contains(a.Reason, c.want) {
			return
		}
	}
	t.Errorf("got %v, want %s with %q", err, path, c.want)
}

// TestAcceptError: the error of the last library unwraps to what Accept said.
func TestAcceptError(t *testing.T) {
	needLibrary(t)
	t.Setenv("LD_LIBRARY_PATH", "")
	dir := t.TempDir()
	dltest.Failing(34).Write(t, dir, brokenName)
	_, err := (&Search{Names: []string{brokenName}, Dirs: []string{dir}, Accept: starts}).Find()
	if !errors.Is(err, errNotStarted) {
		t.Errorf("got %v", err)
	}
}

// TestOneFileOnce: a file that several links lead to is tried once.
func TestOneFileOnce(t *testing.T) {
	needLibrary(t)
	t.Setenv("LD_LIBRARY_PATH", "")
	one, two := t.TempDir(), t.TempDir()
	path := dltest.Failing(34).Write(t, one, brokenName)
	if err := os.Symlink(path, filepath.Join(two, brokenName)); err != nil {
		t.Fatal(err)
	}
	calls := 0
	s := &Search{Names: []string{brokenName}, Dirs: []string{one, two}, Accept: func(*Library) error { calls++; return errNotStarted }}
	_, err := s.Find()
	if e, ok := errors.AsType[*NotFoundError](err); !ok || calls != 1 || len(e.Tried) != 2 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

// TestLoaderSaysItAgain: a broken file of LD_LIBRARY_PATH that the loader finds, too, is named once.
func TestLoaderSaysItAgain(t *testing.T) {
	needLibrary(t)
	if os.Getenv("FERRY_AGAIN_CHILD") != "" {
		_, err := (&Search{Names: []string{brokenName}}).Find()
		fmt.Println(err)
		os.Exit(0)
	}
	dir := t.TempDir()
	write(t, dir, strings.Repeat("text", 100))
	cmd := exec.Command(os.Args[0], "-test.run=^TestLoaderSaysItAgain$")
	cmd.Env = append(os.Environ(), "FERRY_AGAIN_CHILD=1", "LD_LIBRARY_PATH="+dir)
	out, err := cmd.CombinedOutput()
	if want := "no library " + brokenName + ": tried " + filepath.Join(dir, brokenName) + ": invalid ELF header\n"; err != nil || string(out) != want {
		t.Errorf("%v: got %swant %s", err, out, want)
	}
}

// TestStubsDirectory: a library in a directory named stubs is not opened, and is named.
func TestStubsDirectory(t *testing.T) {
	needLibrary(t)
	t.Setenv("LD_LIBRARY_PATH", "")
	dir := filepath.Join(t.TempDir(), "stubs")
	path := dltest.Driver(13000).Write(t, dir, brokenName)
	_, err := (&Search{Names: []string{brokenName}, Dirs: []string{dir}}).Find()
	(&plant{want: "for linkers"}).judge(t, err, path)
}

// TestNotReadable: a file that must not be read is there, with the reason.
func TestNotReadable(t *testing.T) {
	needLibrary(t)
	if os.Getuid() == 0 {
		t.Skip("root may read every file")
	}
	t.Setenv("LD_LIBRARY_PATH", "")
	dir := t.TempDir()
	path := dltest.Driver(13000).Write(t, dir, brokenName)
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	_, err := (&Search{Names: []string{brokenName}, Dirs: []string{dir}}).Find()
	(&plant{want: "Permission denied"}).judge(t, err, path)
}

// TestWSL: the library of Windows' driver goes first in WSL, and only there.
func TestWSL(t *testing.T) {
	root := t.TempDir() + "/"
	for _, dir := range []string{"proc", "dev"} {
		if err := os.Mkdir(root+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		file, text string
		want       bool
	}{
		{"proc/version", "Linux version 6.1.0 (gcc)", false},
		{"proc/version", "Linux version 5.15.167.4-microsoft-standard-WSL2 (root@f)", true},
		{"proc/version", "Linux version 4.4.0-19041-Microsoft (Microsoft@Microsoft.com)", true},
		{"proc/version", "Linux", false},
		{"dev/dxg", "", true},
	} {
		if err := os.WriteFile(root+c.file, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := inWSL(root); got != c.want {
			t.Errorf("%s %q: WSL is %t", c.file, c.text, got)
		}
		want := map[bool]string{true: wslDir}[c.want]
		if s := driverLibrary(root, "libcuda.so.1"); strings.Join(s.First, ":") != want || !s.LoaderFirst {
			t.Errorf("%s %q: %+v, want %q first", c.file, c.text, s, want)
		}
	}
}

// TestKernelDriver: what shows that the kernel has NVIDIA's driver.
func TestKernelDriver(t *testing.T) {
	root := t.TempDir() + "/"
	if got := kernelDriver(root); got != "" {
		t.Errorf("an empty machine: %q", got)
	}
	if err := os.MkdirAll(root+procDriver, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := kernelDriver(root); got != "/proc/driver/nvidia" {
		t.Errorf("a container of a machine with a GPU: %q", got)
	}
	if err := os.MkdirAll(root+"dev/nvidia3", 0o755); err != nil {
		t.Fatal(err)
	}
	if got := kernelDriver(root); got != "/dev/nvidia3" {
		t.Errorf("with a device: %q", got)
	}
}
