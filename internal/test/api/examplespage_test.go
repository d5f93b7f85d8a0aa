package api

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/compiletest"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

// exampleRow is a row of examples/README.md.
type exampleRow struct{ folder, command, prints string }

var exampleCells = regexp.MustCompile("(?m)^\\| \\[([a-z/]+)\\]\\(([a-z/]+)\\) \\| [^|]+ \\| `([^`|]+)` \\| `([^`|]+)` \\|$")

// exampleRows returns the rows of examples/README.md.
func exampleRows(t *testing.T) (all []exampleRow) {
	t.Helper()
	text, err := os.ReadFile("examples/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range exampleCells.FindAllStringSubmatch(string(text), -1) {
		if m[1] != m[2] {
			t.Errorf("the row of %s leads to %s", m[1], m[2])
		}
		all = append(all, exampleRow{m[1], m[3], m[4]})
	}
	if rows := strings.Count(string(text), "\n| ["); rows != len(all) {
		t.Errorf("%d of %d rows have a folder, a command and what it prints", len(all), rows)
	}
	return all
}

// exampleFolders returns the folders in examples that have a program in Go or CUDA C++.
func exampleFolders(t *testing.T) (all []string) {
	t.Helper()
	err := filepath.WalkDir("examples", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "testdata":
			return filepath.SkipDir
		case !d.IsDir() && (filepath.Ext(path) == ".go" || filepath.Ext(path) == ".cu"):
			folder, err := filepath.Rel("examples", filepath.Dir(path))
			if err != nil {
				return err
			}
			all = append(all, filepath.ToSlash(folder))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Compact(all)
}

// TestExampleRows: examples/README.md has one row for each folder, whose command names the folder.
func TestExampleRows(t *testing.T) {
	var listed []string
	for _, r := range exampleRows(t) {
		listed = append(listed, r.folder)
		if !strings.Contains(r.command, "examples/"+r.folder) {
			t.Errorf("the command of %s is %s", r.folder, r.command)
		}
	}
	slices.Sort(listed)
	if want := exampleFolders(t); !slices.Equal(listed, want) {
		t.Errorf("examples/README.md lists %q, want %q", listed, want)
	}
}

// TestExampleCommands runs the commands of examples/README.md. One line of the output is what the page says.
func TestExampleCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	sample.SkipRace(t)
	for _, r := range exampleRows(t) {
		t.Run(r.folder, func(t *testing.T) {
			needsForExample(t, r)
			fields := strings.Fields(r.command)
			cmd := exec.Command(fields[0], fields[1:]...)
			cmd.Env = append(os.Environ(), "FERRY_DEVICE=soft", "FERRY_QUIET=1", "FERRY_REQUIRE_GPU=0")
			got, err := cmd.CombinedOutput()
			line := strings.ReplaceAll(regexp.QuoteMeta(r.prints), regexp.QuoteMeta("..."), ".*")
			if err != nil || !regexp.MustCompile("(?m)^"+line+"$").Match(got) {
				t.Errorf("%s: %v, want the line\n%s\nin\n%s", r.command, err, r.prints, got)
			}
		})
	}
}

// needsForExample skips the test of a command if this machine lacks what it needs.
func needsForExample(t *testing.T, r exampleRow) {
	t.Helper()
	needs := []string{"go"}
	if strings.Contains(r.command, " cc ") {
		if runtime.GOOS != "linux" {
			t.Skip("the library is for Linux")
		}
		compiletest.Compile(t, "empty.cu", "", nil)
		needs = append(needs, "gcc")
	}
	if strings.Contains(r.command, "pytorch") {
		needs = append(needs, "python3")
	}
	for _, name := range needs {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
}
