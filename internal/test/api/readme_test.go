package api

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// readmeProgram returns the README's program and what it prints.
func readmeProgram(t *testing.T) (program, want string) {
	t.Helper()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(readme), "\n"); lines > 160 {
		t.Errorf("README.md has %d lines, want at most 160", lines)
	}
	_, rest, found := strings.Cut(string(readme), "```go\n")
	program, after, closed := strings.Cut(rest, "```\n")
	_, output, says := strings.Cut(after, "```text\n")
	want, _, ends := strings.Cut(output, "```\n")
	if !found || !closed || !says || !ends {
		t.Fatal("README.md has no ```go block followed by a ```text block with its output")
	}
	return program, want
}

// TestReadmeProgram: the README's program compiles and prints what the README says.
func TestReadmeProgram(t *testing.T) {
	program, want := readmeProgram(t)
	got, err := goOf(t, "run", "main.go", program)
	if err != nil {
		t.Fatalf("go run of the README's program: %v\n%s", err, got)
	}
	if got != want {
		t.Errorf("the README's program prints:\n%swant:\n%s", got, want)
	}
}

// TestReadmeTest: the README's test of a kernel passes, and fails if its reference is wrong.
func TestReadmeTest(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(readme), "```go\n")
	if len(blocks) != 3 {
		t.Fatalf("README.md has %d blocks of Go, want a program and a test", len(blocks)-1)
	}
	test, _, _ := strings.Cut(blocks[2], "```\n")
	if got, err := goOf(t, "test", "increment_test.go", test); err != nil {
		t.Errorf("the README's test: %v\n%s", err, got)
	}
	wrong := strings.Replace(test, "x[i]++", "x[i] += 2", 1)
	if got, err := goOf(t, "test", "increment_test.go", wrong); err == nil || !strings.Contains(got, "elements differ") {
		t.Errorf("with a wrong reference: %v\n%s", err, got)
	}
}

// TestReadmeCommands: the commands that the README runs from a clone work without a GPU.
func TestReadmeCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command here: ", err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for line := range strings.Lines(strings.ReplaceAll(string(readme), "\\\n", "")) {
		if !strings.HasPrefix(line, "go run ./cmd/ferry ") {
			continue
		}
		found++
		if _, err := exec.LookPath("clang"); err != nil && strings.Contains(line, " cc ") {
			t.Log("no clang here: ", line)
			continue
		}
		cmd := exec.Command("sh", "-c", line)
		cmd.Env = append(os.Environ(), "FERRY_DEVICE=soft")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	if found != 3 {
		t.Errorf("%d commands, want 3", found)
	}
}

// goOf runs go run or go test on a file with a text, on the software GPU, and returns what it
// prints.
func goOf(t *testing.T, verb, name, text string) (output string, err error) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds a program")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command here: ", err)
	}
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", verb, file)
	cmd.Env = append(os.Environ(), "FERRY_DEVICE=soft", "FERRY_REQUIRE_GPU=0")
	out, err := cmd.CombinedOutput()
	return string(out), err
}
