//go:build (amd64 || arm64) && !android && !faketime && !ferrysoft

package api

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/sample"
)

// TestStaticBuild builds the README's program with and without the tag ferrysoft. With it the program
// needs neither the loader of the C library nor any library, and runs in a folder that has nothing else.
// Without it the program names glibc's loader, as the README says.
func TestStaticBuild(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	sample.SkipRace(t)
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command here: ", err)
	}
	program, want := readmeProgram(t)
	root := t.TempDir()
	main := filepath.Join(root, "main.go")
	check(t, os.WriteFile(main, []byte(program), 0o644))
	file := filepath.Join(root, "program")
	if loader := build(t, file, main); !strings.Contains(loader, "ld-linux") {
		t.Errorf("without the tag the program names the loader %q, want glibc's", loader)
	}
	if loader := build(t, file, main, "-tags", "ferrysoft"); loader != "" {
		t.Errorf("with the tag the program names the loader %q", loader)
	}
	if got := alone(t, file, "FERRY_DEVICE=soft"); got != want {
		t.Errorf("the README's program prints:\n%swant:\n%s", got, want)
	}
	if got := alone(t, file, "FERRY_DEVICE=cuda"); !strings.Contains(got, "built with the tag ferrysoft") {
		t.Errorf("the error for an NVIDIA GPU does not name the tag:\n%s", got)
	}
	if !sample.Full() {
		return // the command takes more time to link
	}
	if loader := build(t, file, "./cmd/ferry", "-tags", "ferrysoft"); loader != "" {
		t.Errorf("with the tag the command names the loader %q", loader)
	}
	if got := alone(t, file, "", "bench", "--quick", "--only", "copy pinned", "--device", "soft"); !strings.Contains(got, "emulated: times are predicted") {
		t.Errorf("ferry bench prints:\n%s", got)
	}
}

// build builds a program without cgo, and returns the loader that its file names, or "". A program
// without a loader has no dynamic libraries either.
func build(t *testing.T, file, main string, flags ...string) (loader string) {
	t.Helper()
	cmd := exec.Command("go", append(append([]string{"build", "-o", file}, flags...), main)...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	f := must(elf.Open(file))(t)
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			text := make([]byte, p.Filesz)
			_ = must(p.ReadAt(text, 0))(t)
			loader = strings.TrimRight(string(text), "\x00")
		}
	}
	dynamic := slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_DYNAMIC })
	if dynamic != (loader != "") {
		t.Errorf("loader %q, dynamic %t", loader, dynamic)
	}
	return loader
}

// alone runs a program in a root folder that has nothing but it, as in an image made from scratch, and
// returns what it writes. Only root may change the root folder: others run the program where they are.
func alone(t *testing.T, file, device string, args ...string) string {
	t.Helper()
	cmd := exec.Command(file, args...)
	cmd.Dir = filepath.Dir(file)
	cmd.Env = []string{device}
	if os.Getuid() == 0 {
		dir := t.TempDir()
		check(t, os.Link(file, filepath.Join(dir, "program")))
		cmd.Path, cmd.Dir = "/program", "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir}
	}
	out, err := cmd.CombinedOutput()
	t.Logf("%q: %v", cmd.Args, err)
	return string(out)
}
