package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/measure/bench/serve"
)

// TestRun measures two cells on the software GPU and checks the lines.
func TestRun(t *testing.T) {
	t.Setenv("FERRY_COMMIT", "0123abc")
	var stdout, stderr bytes.Buffer
	if code := run(strings.Fields("--device soft:h200 --time 100ms pinned,4096,2 pool,64,1,context"), &stdout, &stderr); code != 0 {
		t.Fatalf("status %d: %s", code, &stderr)
	}
	lines := json.NewDecoder(&stdout)
	for _, want := range []string{"pinned,4096,2", "pool,64,1,context"} {
		var f serve.Figures
		if err := lines.Decode(&f); err != nil || f.Cell != want || f.Requests == 0 || f.Commit != "0123abc" {
			t.Errorf("%v: %+v, want %s", err, f, want)
		}
	}
	if lines.More() || !strings.Contains(stderr.String(), "say nothing about a GPU") {
		t.Errorf("more lines: %v; standard error: %s", lines.More(), &stderr)
	}
}

// TestUsage checks that a wrong command line measures nothing.
func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"pinned", 2, "KIND,BYTES,GOROUTINES"}, {"--time x", 2, "invalid value"}, {"--colour", 2, "not defined"}, {"--help", 0, "how long"},
		{"--time 0s --device soft pinned,16,1", 1, "must be positive"}, {"--device nonsense pinned,16,1", 1, "nonsense"}, {"", 2, "no cell"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(strings.Fields(c.args), &stdout, &stderr); code != c.code || !strings.Contains(stderr.String(), c.says) || stdout.Len() > 0 {
			t.Errorf("%q: status %d: %s%s", c.args, code, &stdout, &stderr)
		}
	}
}
