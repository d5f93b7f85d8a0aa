package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/explain"
	"github.com/ferrygpu/ferry/trace"
)

// TestExplainTopics: every topic as text and as a document, which fits into the columns.
func TestExplainTopics(t *testing.T) {
	for _, topic := range explain.Topics() {
		for _, columns := range []int{60, 80, 120} { // addresses differ from run to run
			checkColumns(t, columns, wantIn(t, columns, "explain", topic, "--device", "soft:h200"), "")
		}
		document := want(t, "explain", topic, "--device", "soft:h200", "--json")
		var r explain.Report
		if err := json.Unmarshal([]byte(document), &r); err != nil || !isDocument(document) || r.Schema != explain.Schema || r.Subject != topic || len(r.Steps) == 0 {
			t.Errorf("%s: %v: %s", topic, err, document)
		}
	}
}

// TestExplainRecording: the recording of a program, and one address of it.
func TestExplainRecording(t *testing.T) {
	kept := filepath.Join(t.TempDir(), "kept.json")
	want(t, traced(t, "end", "--record", kept)...)
	if text := want(t, "explain", kept); !strings.Contains(text, "Nothing found") || !strings.Contains(text, "1 transfer of") {
		t.Errorf("got\n%s", text)
	}
	rec, err := trace.ReadFile(kept)
	if err != nil {
		t.Fatal(err)
	}
	address := ""
	for i := range rec.Calls {
		if rec.Calls[i].Name == "cuMemcpyHtoDAsync" {
			address = string(must(json.Marshal(rec.Calls[i].Address + 8)))
		}
	}
	document := want(t, "explain", kept+":"+address, "--json")
	var r explain.Report
	if err := json.Unmarshal([]byte(document), &r); err != nil || !isDocument(document) || len(r.Steps) < 3 || r.Steps[0].Place != "allocation" || r.Steps[1].Place != "copied to" {
		t.Errorf("%v: %s", err, document)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestExplainBadInput: what is neither a topic nor a recording gets the nearest names, or
// the place.
func TestExplainBadInput(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		write(t, path, text)
		return path
	}
	const head = `{"schema":"ferry.trace/1","pid":3,"program":"p"}` + "\n"
	whole := file("whole.json", head)
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{nil, exitUsage, "want a topic (zero-copy, copy,"},
		{[]string{"copy", "uva"}, exitUsage, "want a topic"},
		{[]string{"zerocopy"}, exitUsage, `"zerocopy" is neither a topic nor a file; did you mean "zero-copy", "copy" or`},
		{[]string{"pagable", "--device", "soft"}, exitUsage, `did you mean "pageable"`},
		{[]string{"copy", "--device", "soft:h20"}, exitError, `no profile "h20"`},
		{[]string{filepath.Join(dir, "none.json")}, exitError, "no such file"},
		{[]string{file("other.json", `{"schema":"ferry.compare/1"}`+"\n")}, exitError, `line 1, byte 0: the schema is "ferry.compare/1"`},
		{[]string{file("empty.json", "")}, exitError, "line 1, byte 0: the file is empty"},
		{[]string{file("binary", "\x7fELF")}, exitError, "not a recording of ferry"},
		{[]string{file("bad.json", head+"{]\n")}, exitError, "line 2, byte 49: malformed row"},
		{[]string{whole + ":main"}, exitUsage, `"main" is no address`},
		{[]string{whole + ":0x10"}, exitError, "no allocation with an address"},
		{[]string{dir}, exitError, "is a directory"},
	} {
		status, _, errs := ferryRun(append([]string{"explain"}, c.args...)...)
		if status != c.status || !strings.Contains(errs, c.want) {
			t.Errorf("ferry explain %q: status %d, errors %q; want status %d and %q", c.args, status, errs, c.status, c.want)
		}
	}
	status, out, _ := ferryRun("explain", file("cut.json", head+`{"call":1,"name":"cuInit","driver":1,"start":0,"end":5}`+"\n"+`{"call":2,"na`))
	if status != exitOK || !strings.Contains(out, "the file is cut at line 3, byte 105") {
		t.Errorf("a cut recording: status %d, output\n%s", status, out)
	}
}
