package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	_ "github.com/ferrygpu/ferry/cutest" // for watch
	"github.com/ferrygpu/ferry/internal/test/sample"
	_ "github.com/ferrygpu/ferry/libcuda"
)

// withoutTexts has the cases that need more of an error than its code, which is all that C has.
var withoutTexts = map[string]bool{"fault/tells-where": true}

// TestCutest runs half of the conformance suite through the library, by package libcuda, and all of it
// with FERRY_FULL=1. The half is drawn of each group of cases. Each case has the result that it has on the
// software GPU itself.
func TestCutest(t *testing.T) {
	if testing.Short() {
		t.Skip("10 s; without -short")
	}
	dir := library(t)
	watch(t, filepath.Join("..", "..", "cutest", "*.go"))
	results := filepath.Join(t.TempDir(), "results.json")
	cmd := exec.Command("go", "test", "-count=1", "-run", "^TestLibcuda$", ".")
	cmd.Dir = filepath.Join("..", "..", "cutest")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "FERRY_LIBCUDA="+filepath.Join(dir, "libcuda.so.1"), "FERRY_DEVICE=soft:h200*2",
		"FERRY_SCHEDULE=", "FERRY_REQUIRE_GPU=", "FERRY_CUTEST_HALF=1", "FERRY_CUTEST_JSON="+results)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cutest: %v\n%.8000s", err, out)
	}
	got, want := outcomes(t, results), outcomes(t, filepath.Join("..", "..", "docs", "results", "cutest-softgpu.json"))
	if len(want) < 500 {
		t.Errorf("%d cases are recorded for the software GPU, want 500 or more", len(want))
	}
	least := len(want) / 2
	if sample.Full() {
		least = len(want)
	}
	if len(got) < least {
		t.Errorf("%d cases ran through the library, want %d or more", len(got), least)
	}
	passed := 0
	for id, result := range got {
		expected := want[id]
		if withoutTexts[id] {
			expected = "skip"
		}
		if result != expected {
			t.Errorf("%s: %q through the library, %q on the software GPU", id, result, expected)
		}
		if result == "pass" {
			passed++
		}
	}
	if passed < least*9/10 {
		t.Errorf("%d of %d cases passed, want nine of ten", passed, len(got))
	}
	t.Logf("%d of %d cases passed", passed, len(got))
}

// outcomes returns the result of each case in a record.
func outcomes(t *testing.T, path string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Cases []struct{ ID, Result string }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	all := map[string]string{}
	for _, c := range doc.Cases {
		all[c.ID] = c.Result
	}
	return all
}
