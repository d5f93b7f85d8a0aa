package ferry_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestDependencies: only libcuda and internal/dl need purego, and only on systems where purego
// can load a library.
func TestDependencies(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command here")
	}
	pure := []string{"./cu", "./ptx", "./profile", "./kernels", "./softgpu"}
	for _, c := range []struct {
		goos, goarch string
		packages     []string
	}{
		{"js", "wasm", append([]string{".", "./compile", "./internal/dl"}, pure...)},
		{"darwin", "arm64", append([]string{".", "./compile", "./internal/dl"}, pure...)},
		{"windows", "amd64", append([]string{".", "./compile", "./internal/dl"}, pure...)},
		{"linux", "amd64", pure},
		{"linux", "arm64", pure},
	} {
		cmd := exec.Command("go", append([]string{"list", "-deps"}, c.packages...)...)
		cmd.Env = append(os.Environ(), "GOOS="+c.goos, "GOARCH="+c.goarch, "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s/%s: %v: %s", c.goos, c.goarch, err, out)
			continue
		}
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "purego") {
				t.Errorf("%s/%s: %v depend on %s", c.goos, c.goarch, c.packages, line)
			}
		}
	}
}

// TestReadmeProgram: the README's program compiles and prints what the README says.
func TestReadmeProgram(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(readme), "\n"); lines > 130 {
		t.Errorf("README.md has %d lines, want at most 130", lines)
	}
	_, rest, found := strings.Cut(string(readme), "```go\n")
	program, after, closed := strings.Cut(rest, "```\n")
	_, output, says := strings.Cut(after, "```text\n")
	want, _, ends := strings.Cut(output, "```\n")
	if !found || !closed || !says || !ends {
		t.Fatal("README.md has no ```go block followed by a ```text block with its output")
	}

	goCommand, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command here: ", err)
	}
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(goCommand, "run", file)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "FERRY_DEVICE=soft")
	got, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go run of the README's program: %v\n%s", err, got)
	}
	if string(got) != want {
		t.Errorf("the README's program prints:\n%swant:\n%s", got, want)
	}
}

// TestNoCommandLineLibrary: what programs import does not need the library of the command's
// flags. The command does, so the test would see it.
func TestNoCommandLineLibrary(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command here")
	}
	deps := func(packages ...string) string {
		t.Helper()
		out, err := exec.Command("go", append([]string{"list", "-deps"}, packages...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	imported := []string{".", "./cu", "./libcuda", "./softgpu", "./ptx", "./profile", "./kernels", "./compile", "./pipeline", "./kerneltest", "./cutest"}
	for line := range strings.Lines(deps(imported...)) {
		if strings.Contains(line, "spf13") || strings.Contains(line, "mousetrap") {
			t.Errorf("%v depend on %s", imported, line)
		}
	}
	if !strings.Contains(deps("./cmd/ferry"), "github.com/spf13/cobra") {
		t.Error("the command does not use github.com/spf13/cobra, which this test looks for")
	}
}
