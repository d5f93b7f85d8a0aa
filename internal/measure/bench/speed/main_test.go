package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/measure/bench"
)

// TestRun measures on the software GPU. It checks the table, the document and the report of
// missing peers.
func TestRun(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.json")
	var stdout, stderr bytes.Buffer
	if code := run([]string{"--device", "soft", "--rounds", "1", "--only", "link,7", "--json", out}, &stdout, &stderr); code != exitDegraded {
		t.Fatalf("status %d: %s", code, &stderr)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var report bench.SpeedReport
	if err := json.Unmarshal(text, &report); err != nil || report.Schema != bench.SpeedSchema || len(report.Results) != 5 {
		t.Errorf("%v: %s", err, text)
	}
	if stdout.String() != report.Text() {
		t.Errorf("the table is\n%s", &stdout)
	}
	for _, want := range []string{"device: soft", "missing: peers", "measuring: link\nmeasuring: prefetch\n"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("stderr lacks %q:\n%s", want, &stderr)
		}
	}
}

// TestInterrupted checks that the results so far are saved before each part.
func TestInterrupted(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.json")
	saved := func() (n int) {
		var report bench.SpeedReport
		if text, err := os.ReadFile(out); err != nil || json.Unmarshal(text, &report) != nil {
			t.Errorf("%v: %s", err, text)
		}
		return len(report.Results)
	}
	watch := writer(func(line string) {
		if strings.Contains(line, "measuring: prefetch") && saved() != 0 || strings.Contains(line, "measuring: copies") && saved() == 0 {
			t.Errorf("%d results are saved at %q", saved(), line)
		}
	})
	if code := run([]string{"--device", "soft", "--rounds", "1", "--only", "7,copies", "--json", out}, io.Discard, watch); code != exitDegraded {
		t.Errorf("status %d", code)
	}
}

// writer calls a function with the text that is written.
type writer func(string)

func (w writer) Write(b []byte) (int, error) {
	w(string(b))
	return len(b), nil
}

// TestUsage checks that a wrong command line has status 2 and measures nothing.
func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"--only nothing", exitUsage, `no part or target "nothing"`},
		{"--only 1,", exitUsage, `no part or target ""`},
		{"--rounds 0", exitUsage, "--rounds 0"},
		{"--serve-time 0s", exitUsage, "--serve-time 0s"},
		{"--rounds x", exitUsage, "invalid value"},
		{"--colour", exitUsage, "not defined"},
		{"link", exitUsage, `"link" is not expected`},
		{"--help", exitOK, "of samples of each"},
		{"--device nonsense", exitError, "nonsense"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(strings.Fields(c.args), &stdout, &stderr); code != c.code || !strings.Contains(stderr.String(), c.says) || stdout.Len() > 0 {
			t.Errorf("%s: status %d: %s%s", c.args, code, &stdout, &stderr)
		}
	}
}
