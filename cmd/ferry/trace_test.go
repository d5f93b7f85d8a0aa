package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/trace"
)

// helperVariable lets TestTracedProgram be a program that ferry trace runs.
const helperVariable = "FERRY_TEST_TRACED"

// TestTracedProgram is no test but a program: it copies once, and then ends as the
// environment says.
func TestTracedProgram(t *testing.T) {
	how := os.Getenv(helperVariable)
	if how == "" {
		t.Skip("a program for TestTrace")
	}
	g, err := ferry.Open("soft")
	if err != nil {
		t.Fatal(err)
	}
	on, err := ferry.Upload(g, make([]byte, 1000))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("the program's output")
	switch how {
	case "crash":
		os.Exit(7)
	case "wait":
		time.Sleep(time.Minute)
	}
	if err := errors.Join(on.Close(), g.Close()); err != nil {
		t.Fatal(err)
	}
}

// traced returns the arguments that trace TestTracedProgram.
func traced(t *testing.T, how string, flags ...string) []string {
	t.Setenv(helperVariable, how)
	return append(append([]string{"trace"}, flags...), "--", os.Args[0], "-test.run", "^TestTracedProgram$", "-test.v")
}

// TestTrace: a program that knows nothing of it is recorded and reported, also if it
// crashes, and its recording can be kept and reported again.
func TestTrace(t *testing.T) {
	kept := filepath.Join(t.TempDir(), "kept.json")
	out := want(t, traced(t, "end", "--record", kept)...)
	for _, part := range []string{"the program's output", "soft:h200 (software, predicts NVIDIA H200)", "[CUDA memcpy HtoD]", "cuMemcpyHtoDAsync", "pageable -> device\n", "\ntrace_test.go:"} {
		if !strings.Contains(out, part) {
			t.Errorf("no %q in\n%s", part, out)
		}
	}
	again := want(t, "trace", kept)
	if !strings.HasSuffix(out, again) {
		t.Errorf("the kept recording has another report:\n%s\nwas\n%s", again, out)
	}
	var doc struct {
		Schema string
		Calls  int
	}
	if err := json.Unmarshal([]byte(want(t, "trace", "--json", kept)), &doc); err != nil || doc.Schema != "ferry.trace-summary/1" || doc.Calls < 20 {
		t.Errorf("%v: %+v", err, doc)
	}
	perfetto := filepath.Join(t.TempDir(), "perfetto.json")
	if out := want(t, "trace", kept, "--perfetto", perfetto); out != "" {
		t.Errorf("output %q", out)
	}
	text, err := os.ReadFile(perfetto)
	if err != nil || !json.Valid(text) || !bytes.Contains(text, []byte("traceEvents")) {
		t.Errorf("%v: %.100s", err, text)
	}
	status, out, errs := ferryRun(traced(t, "crash", "--json")...)
	if status != exitError || !strings.Contains(errs, "exit status 7") || !strings.Contains(errs, "the program's output") || !json.Valid([]byte(out)) || !strings.Contains(out, "memcpy HtoD") {
		t.Errorf("status %d, output %s\nerrors %s", status, out, errs)
	}
}

// TestTraceInterrupted: after an interrupt the report has what is there, and so has the recording
// that is kept. Until then it grows beside its file.
func TestTraceInterrupted(t *testing.T) {
	dir := t.TempDir()
	kept := filepath.Join(dir, "kept.json")
	write(t, kept, "old")
	args := traced(t, "wait", "--record", kept)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for range 3000 {
			grows, _ := filepath.Glob(filepath.Join(dir, "kept.json.part-*", "recording.json"))
			if len(grows) == 1 {
				if text, _ := os.ReadFile(grows[0]); bytes.Contains(text, []byte(`"op":1`)) {
					return
				}
			}
			if text, _ := os.ReadFile(kept); string(text) != "old" {
				t.Error("the old file was replaced before the program ended")
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	var out, errs bytes.Buffer
	status := run(ctx, args, &out, &errs)
	if status == exitOK || !strings.Contains(errs.String(), "interrupted") || !strings.Contains(out.String(), "[CUDA memcpy HtoD]") {
		t.Errorf("status %d, output\n%s\nerrors\n%s", status, out.String(), errs.String())
	}
	if rec, err := trace.ReadFile(kept); err != nil || len(rec.Operations) == 0 {
		t.Errorf("the recording that is kept: %v", err)
	}
	wantFiles(t, dir, "kept.json")
}

// TestTraceBadInput: what is no recording is refused with the place, and a cut recording
// is reported.
func TestTraceBadInput(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	head := `{"schema":"ferry.trace/1","pid":3,"program":"p"}` + "\n"
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{filepath.Join(dir, "none.json")}, exitError, "no such file"},
		{[]string{write("other.json", `{"schema":"ferry.compare/1"}`+"\n")}, exitError, `line 1, byte 0: the schema is "ferry.compare/1"`},
		{[]string{write("empty.json", "")}, exitError, "line 1, byte 0: the file is empty"},
		{[]string{write("binary", "\x7fELF")}, exitError, "not a recording of ferry"},
		{[]string{write("bad.json", head+"{]\n")}, exitError, "line 2, byte 49: malformed row"},
		{nil, exitUsage, "want a recording, as in"},
		{[]string{"a", "b"}, exitUsage, "as in ferry trace -- a b"},
		{[]string{"--json", "--perfetto", "x", "a"}, exitUsage, "want one of them"},
		{[]string{"--record", "x", "a"}, exitUsage, "are for --"},
		{[]string{"--", "/no/such/program"}, exitError, "/no/such/program"},
		{[]string{"--", "true"}, exitError, "has opened no device with ferry"},
		{[]string{"overlap"}, exitUsage, "--order is required"},
		{[]string{"overlap", "--order", "width"}, exitUsage, `the order is "width"`},
		{[]string{"overlap", "--order", "depth", "--streams", "99"}, exitUsage, "99 streams"},
	} {
		status, _, errs := ferryRun(append([]string{"trace"}, c.args...)...)
		if status != c.status || !strings.Contains(errs, c.want) {
			t.Errorf("ferry trace %q: status %d, errors %q; want status %d and %q", c.args, status, errs, c.status, c.want)
		}
	}
	if _, _, errs := ferryRun("trace", "--", "/no/such/program"); strings.Contains(errs, "has opened no device") {
		t.Errorf("a program that does not start: %s", errs)
	}
	ran := filepath.Join(dir, "ran")
	if status, _, errs := ferryRun("trace", "--perfetto", filepath.Join(dir, "none", "x"), "--", "touch", ran); status != exitError || !strings.Contains(errs, "no such file") {
		t.Errorf("a file that cannot be written: status %d, errors %s", status, errs)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the program ran, although its report could not be written")
	}
	own := write("own.json", head)
	if status, _, errs := ferryRun("trace", "--perfetto", own, own); status != exitUsage || !strings.Contains(errs, "would replace the recording") {
		t.Errorf("the recording as the target: status %d, errors %s", status, errs)
	}
	status, out, _ := ferryRun("trace", write("cut.json", head+`{"call":1,"name":"cuInit","driver":1,"start":0,"end":5}`+"\n"+`{"call":2,"na`))
	if status != exitOK || !strings.Contains(out, "the file is cut at line 3, byte 105") || !strings.Contains(out, "cuInit") {
		t.Errorf("a cut recording: status %d, output\n%s", status, out)
	}
}

// TestTraceOverlap: the timeline and the JSON, for one machine.
func TestTraceOverlap(t *testing.T) {
	t.Setenv("COLUMNS", "")
	args := []string{"trace", "overlap", "--order", "depth", "--engines", "1", "--device", "soft:fermi-c2050"}
	golden(t, "overlap-fermi-c2050.txt", want(t, args...))
	golden(t, "overlap-fermi-c2050.json", want(t, append(args, "--json")...))
}
