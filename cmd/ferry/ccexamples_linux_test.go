package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/sample"
)

// TestCUDAExamples builds the programs of examples/cuda and demands what their comments say they
// print, under two schedules, on two devices and with all checks.
func TestCUDAExamples(t *testing.T) {
	library := requireCC(t)
	files, err := filepath.Glob("../../examples/cuda/*.cu")
	if err != nil || len(files) < 16 {
		t.Fatalf("%d programs, want 16 or more: %v", len(files), err)
	}
	dir := t.TempDir()
	for _, file := range sample.OfEach(t, files, func(string) string { return "" }, 2) {
		name := strings.TrimSuffix(filepath.Base(file), ".cu")
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, want, _ := strings.Cut(string(text), "\n// Output: ")
			want, _, ok := strings.Cut(want, "\n")
			if !ok {
				t.Fatal("no comment says what it prints")
			}
			program := filepath.Join(dir, name)
			if status, _, errs := ferryRun("cc", file, "-o", program); status != exitOK || errs != "" {
				t.Fatalf("ferry cc: status %d, stderr %q", status, errs)
			}
			for _, setting := range []string{"FERRY_SCHEDULE=lazy", "FERRY_SCHEDULE=random:1", "FERRY_DEVICE=soft:h200*2"} {
				c := exec.Command(program)
				c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+library, "FERRY_DEVICE=soft", setting)
				if out, err := c.CombinedOutput(); err != nil || string(out) != want+"\n" {
					t.Errorf("%s: got %q, %v, want %q", setting, out, err, want)
				}
			}
			if name != "errors" { // which is wrong on purpose
				checkC(t, exitOK, program)
			}
		})
	}
}
