package cutest_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cutest"
)

var update = flag.Bool("update", false, "write docs/generated/coverage.md")

const docs = "../docs"

// TestCoverage compares docs/generated/coverage.md with the cases and the results under
// docs/results. With -update it writes the document.
func TestCoverage(t *testing.T) {
	want, err := coverage()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(docs, "generated", "coverage.md")
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/generated/coverage.md is stale: run go generate ./...")
	}
}

// coverage makes the text of the document.
func coverage() ([]byte, error) {
	var runs []*run
	for _, column := range columns {
		r, err := readRun(filepath.Join(docs, "results", column.file))
		if err != nil {
			return nil, err
		}
		r.title = column.title
		runs = append(runs, r)
	}
	p := &page{runs: runs}
	for _, c := range cutest.Cases() {
		p.add(c)
	}
	return p.text(), nil
}

// recordSoftware is the command that records the results of the software GPU.
const recordSoftware = "FERRY_COMMIT=$(git describe --always --dirty=+ --exclude='*') FERRY_CUTEST_JSON=$PWD/docs/results/cutest-softgpu.json go test -count=1 ./cutest -run 'TestSoftgpu$/two$'"

// TestSoftwareIsComplete demands a result of the software GPU for every case.
func TestSoftwareIsComplete(t *testing.T) {
	r, err := readRun(filepath.Join(docs, "results", columns[0].file))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cutest.Cases() {
		if o, ok := r.cases[c.ID]; !ok || o.Result == "fail" {
			t.Errorf("%s: result %q on the software GPU; record it again:\n%s", c.ID, o.Result, recordSoftware)
		}
	}
}

func TestReadRunRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"a path of one machine": `{"schema": "ferry.cutest/1", "cases": [{"id": "a/b", "result": "fail", "reason": "open /home/me/x"}]}`,
		"another schema":        `{"schema": "ferry.bench/1", "cases": [{"id": "a/b", "result": "pass"}]}`,
		"no cases":              `{"schema": "ferry.cutest/1", "cases": []}`,
		"no JSON":               `pass`,
	} {
		path := filepath.Join(t.TempDir(), "r.json")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readRun(path); err == nil {
			t.Errorf("%s was read", name)
		}
	}
}

func TestPage(t *testing.T) {
	r := &run{title: "software", file: "f.json", Device: "NVIDIA H200", Devices: 2, Emulated: true, DriverVersion: 13000, Date: "2026-11-20",
		Commit: "0123456789abcdef+", cases: map[string]outcome{
			"a/one": {ID: "a/one", Result: "pass"}, "a/two": {ID: "a/two", Result: "skip", Reason: "no such thing"}, "a/four": {ID: "a/four", Result: "fail"},
		}}
	p := &page{runs: []*run{r}}
	for _, c := range []cutest.Case{
		{ID: "a/one", Rule: "this | that", Source: "Guide: A", Surprise: "neither"}, {ID: "a/two", Rule: "x", Source: "y"},
		{ID: "a/three", Rule: "x", Source: "y"}, {ID: "a/four", Rule: "x", Source: "y"},
	} {
		p.add(c)
	}
	text := string(p.text())
	for _, want := range []string{
		"| `a/one` | this \\| that. *On hardware: neither* | Guide: A | pass |", "| `a/two` | x | y | skip [1] |", "| `a/three` | x | y | not run |",
		"1. no such thing", "| `a/four` | x | y | fail |", "| software | 1 | 1 | 1 | 1 | 2 x NVIDIA H200, emulated, CUDA 13.0, commit 0123456789ab+, 2026-11-20 | [f.json](../results/f.json) |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
