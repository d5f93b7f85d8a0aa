package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/softlib"
)

// fakeTools makes scripts the only go and gcc in PATH, and an empty folder the user's cache. The
// library that they build is a text. It returns the folder of libraries.
func fakeTools(t *testing.T) (cache string) {
	t.Helper()
	bin, dir := t.TempDir(), t.TempDir()
	for name, script := range map[string]string{
		"go":  "case \"$1\" in\nversion) echo go version go1.26.9 linux/amd64;;\nbuild) for a; do [ \"$before\" = -o ] && echo library > \"$a\"; before=$a; done;;\nesac\n",
		"gcc": "echo 'gcc (Debian 14.2.0) 14.2.0'\n",
	} {
		path := filepath.Join(bin, name)
		write(t, path, "#!/bin/sh\n"+script)
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	t.Setenv("CC", "")
	t.Setenv("LD_LIBRARY_PATH", "")
	t.Setenv("XDG_CACHE_HOME", dir)
	return filepath.Join(dir, "ferry", "libcuda")
}

// TestLib demands the folder and the document, a message before a build alone, and the copy.
func TestLib(t *testing.T) {
	cache := fakeTools(t)
	status, out, errs := ferryRun("lib")
	folder := strings.TrimSuffix(out, "\n")
	if status != exitOK || filepath.Dir(folder) != cache || errs != "ferry: building libcuda.so.1 by gcc (Debian 14.2.0) 14.2.0: the first time takes a minute\n" {
		t.Fatalf("status %d, stdout %q, stderr %q; the cache is %s", status, out, errs, cache)
	}
	for _, name := range []string{softlib.Name, "libcuda.so"} {
		if text, err := os.ReadFile(filepath.Join(folder, name)); string(text) != "library\n" || err != nil {
			t.Errorf("%s has %q, %v", name, text, err)
		}
	}
	var r libReport
	document := want(t, "lib", "--json")
	if err := json.Unmarshal([]byte(document), &r); err != nil || !isDocument(document) {
		t.Fatalf("%v: %s", err, document)
	}
	source, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if want := (libReport{libSchema, folder, filepath.Join(folder, softlib.Name), false, "gcc (Debian 14.2.0) 14.2.0", source}); r != want {
		t.Errorf("got %+v, want %+v", r, want)
	}
	dir := filepath.Join(t.TempDir(), "new")
	if got := want(t, "lib", "-o", dir); got != dir+"\n" {
		t.Errorf("with -o: %q, want %s", got, dir)
	}
	if text, err := os.ReadFile(filepath.Join(dir, softlib.Name)); string(text) != "library\n" || err != nil {
		t.Errorf("the copy has %q, %v", text, err)
	}
	status, _, errs = ferryRun("lib", "-o", dir) // the text is no library of Ferry
	if status != exitError || !strings.Contains(errs, "is there already, and is not a library of Ferry") {
		t.Errorf("over another file: status %d, stderr %q", status, errs)
	}
}

// TestLibWithoutTools: the error says what to install, and how.
func TestLibWithoutTools(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("CC", "")
	status, out, errs := ferryRun("lib")
	for _, want := range []string{"ferry lib: build libcuda.so.1: ", "there is no Go", "https://go.dev/dl", "there is no C compiler: gcc, clang", "apt install gcc"} {
		if status != exitError || out != "" || !strings.Contains(errs, want) {
			t.Errorf("status %d, stdout %q, stderr %q, want %q", status, out, errs, want)
		}
	}
}

// shell is a program that is not in Go.
const shell = "/bin/sh"

// TestProgramDevice: a program gets its device, and the library if it may need it.
func TestProgramDevice(t *testing.T) {
	cache := fakeTools(t)
	script := func(args ...string) (status int, said string) {
		t.Helper()
		status, out, errs := ferryRun(append(args, "--", shell, "-c", `echo "device=$FERRY_DEVICE path=$LD_LIBRARY_PATH"`)...)
		return status, out + errs
	}
	const none = "device= path=\n"
	for _, command := range []string{"check", "trace", "explain"} {
		t.Setenv("FERRY_DEVICE", "")
		if _, said := script(command); !strings.Contains(said, none) {
			t.Errorf("%s without a device: %s", command, said)
		}
		if _, said := script(command, "--device", "soft:a100*2"); !strings.Contains(said, "device=soft:a100*2 path="+cache+"/") {
			t.Errorf("%s: %s", command, said)
		}
		if _, said := script(command, "--device", "cuda:1"); !strings.Contains(said, "device=cuda:1 path=\n") {
			t.Errorf("%s on an NVIDIA GPU: %s", command, said)
		}
		for device, want := range map[string]struct {
			status int
			text   string
		}{"hard": {exitUsage, "--device hard: no such device"}, "soft:h300": {exitError, "no profile"}, "soft*0": {exitUsage, "is not a number of devices"}} {
			if status, said := script(command, "--device", device); status != want.status || !strings.Contains(said, want.text) || strings.Contains(said, "path=") {
				t.Errorf("%s --device %s: status %d, %s", command, device, status, said)
			}
		}
	}
	t.Setenv("LD_LIBRARY_PATH", "/other")
	if _, said := script("check", "--device", "soft"); !strings.Contains(said, ":/other\n") {
		t.Errorf("with other folders: %s", said)
	}
}

// TestProgramDeviceWithoutTools: a program that is linked with the driver does not start without the
// library. Another one does, and a line says so. One in Go that uses Ferry needs none.
func TestProgramDeviceWithoutTools(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc")
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "driver.c"), "int cuInit(unsigned f) { return 0; }\n")
	write(t, filepath.Join(dir, "user.c"), "int cuInit(unsigned f);\nint main(void) { return cuInit(0); }\n")
	for _, args := range [][]string{{"-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", "libcuda.so", "driver.c"}, {"-o", "user", "user.c", "-L.", "-lcuda"}} {
		c := exec.Command(gcc, args...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	fakeTools(t)
	t.Setenv("PATH", t.TempDir())
	status, out, errs := ferryRun("check", "--device", "soft", "--", filepath.Join(dir, "user"))
	if status != exitError || out != "" || !strings.HasPrefix(errs, "ferry check: build libcuda.so.1: there is no Go") {
		t.Errorf("a program of the driver: status %d, stdout %q, stderr %q", status, out, errs)
	}
	status, out, errs = ferryRun("check", "--device", "soft", "--", shell, "-c", "exit 5")
	if status != 5 || !strings.Contains(errs, "ferry: /bin/sh runs without the driver library of the software GPU, which it may need: build libcuda.so.1: there is no Go") {
		t.Errorf("another program: status %d, stdout %q, stderr %q", status, out, errs)
	}
	if status, _, errs = ferryRun("check", "--device", "soft", "--", self, "-test.run", "^$"); status != exitOK || strings.Contains(errs, "library") {
		t.Errorf("a program in Go: status %d, stderr %q", status, errs)
	}
}
