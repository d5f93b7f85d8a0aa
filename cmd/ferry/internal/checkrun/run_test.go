package checkrun_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/checkrun"
	"github.com/ferrygpu/ferry/internal/checks"
)

// writer calls a function for each write.
type writer func()

func (w writer) Write(p []byte) (int, error) { w(); return len(p), nil }

// TestInterrupted: the report of a program that was interrupted has what was found before.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	const script = `echo '{"text":"planted"}' >>$FERRY_CHECK_REPORT; echo '{"watched":"watched: all"}' >>$FERRY_CHECK_REPORT; echo ready; exec sleep 600`
	p := &checkrun.Program{Args: []string{"sh", "-c", script}, Stdout: writer(cancel), Stderr: io.Discard}
	r, err := p.Run(ctx)
	if !errors.Is(err, context.Canceled) || r == nil || len(r.Findings) != 1 {
		t.Fatalf("got %+v, %v, want one finding and the end of the context", r, err)
	}
	if text := r.Page().Text(0); !strings.HasPrefix(text, "watched: all\n") || !strings.Contains(text, "planted") {
		t.Errorf("the report is\n%s", text)
	}
}

// TestGaveUp: what checks gave up is in the report: the last count of each driver, and the sum of
// all processes.
func TestGaveUp(t *testing.T) {
	const script = `cat >>$FERRY_CHECK_REPORT <<'END'
{"process":1,"source":1,"check":"races","gave_up":{"check":"races","what":"launches","count":1}}
{"process":1,"source":1,"check":"races","gave_up":{"check":"races","what":"launches","count":4}}
{"process":1,"source":2,"check":"races","gave_up":{"check":"races","what":"launches","count":8}}
{"process":2,"source":1,"check":"races","gave_up":{"check":"races","what":"launches","count":16}}
{"process":2,"source":1,"check":"memory","gave_up":{"check":"memory","what":"frees","count":1}}
{"process":2,"check":"memory","text":"a finding"}
END`
	run := func(script string, allow ...string) *checkrun.Report {
		t.Helper()
		r, err := (&checkrun.Program{Args: []string{"sh", "-c", script}, Stdout: io.Discard, Stderr: io.Discard, Allow: allow}).Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := run(script)
	want := []checks.GaveUp{{Check: "memory", What: "frees", Count: 1}, {Check: "races", What: "launches", Count: 28}}
	if !slices.Equal(r.GaveUp, want) || len(r.Findings) != 1 {
		t.Errorf("got %v and %d findings, want %v and one", r.GaveUp, len(r.Findings), want)
	}
	for _, part := range []string{"gave up: memory: frees (1 time)\n", "gave up: races: launches (28 times)\n", "1 finding, 0 notes; the checks gave up something: there may be more\n"} {
		if text := r.Page().Text(0); !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	if r := run(script, "races: launches"); r.Allowed != 1 || len(r.GaveUp) != 1 {
		t.Errorf("one is allowed: %d, %v", r.Allowed, r.GaveUp)
	}
	if r := run("true"); r.GaveUp == nil || len(r.GaveUp) != 0 || strings.Contains(r.Page().Text(0), "gave up") {
		t.Errorf("nothing was given up: %v", r.GaveUp)
	}
	if r := run(`printf xx >$FERRY_CHECK_REPORT.lost`); len(r.GaveUp) != 1 || r.GaveUp[0].Count != 2 || !strings.Contains(r.Page().Text(0), "could not write") {
		t.Errorf("two rows were not written: %v", r.GaveUp)
	}
	if r := run(`yes '{"note":true,"text":"the same"}' | head -c 70000000 >$FERRY_CHECK_REPORT`); len(r.GaveUp) != 1 || len(r.Notes) != 1 {
		t.Errorf("the file is too large: %v, %d notes", r.GaveUp, len(r.Notes))
	}
}

// TestLostRows: a row that cannot be written is counted beside the file.
func TestLostRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "findings")
	if err := os.Mkdir(path, 0o777); err != nil { // a folder cannot be appended to
		t.Fatal(err)
	}
	t.Setenv(checks.ReportVariable, path)
	if checks.Append(checks.Row{Text: "one"}) || checks.Append(checks.Row{Text: "two"}) {
		t.Error("a row was written to a folder")
	}
	if lost, err := os.ReadFile(path + checks.LostSuffix); len(lost) != 2 || err != nil {
		t.Errorf("%d rows were lost (%v), want 2", len(lost), err)
	}
}

// TestLimits: a row is written for each power of two that a count reaches.
func TestLimits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "findings")
	t.Setenv(checks.ReportVariable, path)
	var l checks.Limits
	for range 9 {
		if l.Add("races", "launches", 1) {
			t.Error("the file has it, and Add reports that it must be said")
		}
	}
	text, err := os.ReadFile(path)
	if n := strings.Count(string(text), "\n"); n != 4 || !strings.Contains(string(text), `"count":8}`) || err != nil {
		t.Errorf("%d rows (%v), want those of 1, 2, 4 and 8:\n%s", n, err, text)
	}
	if got := l.List(); len(got) != 1 || got[0].Count != 9 {
		t.Errorf("the list is %v, want 9", got)
	}
	t.Setenv(checks.ReportVariable, "")
	var unwritten checks.Limits
	if !unwritten.Add("races", "launches", 3) || unwritten.Add("races", "launches", 3) {
		t.Error("without a file only the first Add must be said")
	}
}
