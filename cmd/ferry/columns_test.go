package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/helptext"
	"github.com/ferrygpu/ferry/softgpu"
)

// ferryIn runs the command on terminals with a number of columns, 0 for pipes.
func ferryIn(t *testing.T, columns int, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	t.Setenv(softgpu.ScheduleVariable, "eager") // the golden files have its times
	var out, errs bytes.Buffer
	s := &session{stdout: &out, stderr: &errs, columns: columns, errorColumns: columns}
	status = s.run(t.Context(), args)
	return status, out.String(), errs.String()
}

// wantIn runs the command in a number of columns and fails unless it succeeds silently.
func wantIn(t *testing.T, columns int, args ...string) string {
	t.Helper()
	status, out, errs := ferryIn(t, columns, args...)
	if status != exitOK || errs != "" {
		t.Fatalf("ferry %s: status %d, stderr:\n%s", strings.Join(args, " "), status, errs)
	}
	return out
}

// inColumns are commands with results that are the same on every machine, by the names of their
// golden files.
var inColumns = map[string][]string{
	"advise":         {"advise", "--in", "16KiB", "--out", "8KiB", "--device", "soft:fermi-c2050"},
	"bench":          {"bench", "--quick", "--device", "soft:h200", "--only", "copy p"},
	"bench-managed":  {"bench", "--quick", "--device", "soft:h200", "--only", "managed: k"},
	"bench-against":  {"bench", "--read", "../../docs/results/grid-h200-a1.json", "--against", "../../docs/results/grid-soft-h200.json"},
	"bench-list":     {"bench", "--list", "--only", "pinned in"},
	"bench-normal":   {"bench", "--read", "testdata/after.json", "--normal", "testdata/before.json"},
	"bench-patterns": {"bench", "--set", "patterns", "--read", "../../docs/results/patterns-soft-h200.json", "--against", "../../docs/results/patterns-h200.json"},
	"compare":        {"compare", "--device", "soft:h200", "--min", "16", "--max", "17", "--reuse", "2", "--rates"},
	"diff":           {"diff", "testdata/before.json", "testdata/after.json"},
	"explain-file":   {"explain", "testdata/columns/recording.json"},
	"info":           {"info", "--device", "soft:h200*2"},
	"info-kernel":    {"info", "--device", "soft:h200", "--kernel", "testdata/facts.ptx"},
	"load":           {"load", "testdata/columns/model.safetensors", "--device", "soft:h200"},
	"load-plan":      {"load", "testdata/columns/model.safetensors", "--plan", "--to", "f16", "--device", "soft:h200"},
	"bench-cases":    {"bench", "--set", "patterns", "--read", "../../docs/results/patterns-soft-h200.json", "--against", "../../docs/results/patterns-h200.json", "--cases", "--only", "graph"},
	"profile-check":  {"profile", "check", "testdata/before.json", "testdata/after.json", "--device", "soft:h200", "--only", "copy pinned in"},
	"profile-list":   {"profile", "list"},
	"profile-show":   {"profile", "show", "tesla-c1060"},
	"profile-fit":    {"profile", "fit", "testdata/before.json"},
	"run":            {"run", "--device", "soft:h200", "../../kernels/kernels.ptx", "--kernel=vector_add", "in:f32=iota[16]", "in:f32=random[16]", "out:f32=[16]", "--grid", "1", "--block=16", "u64=16"},
	"trace":          {"trace", "testdata/columns/recording.json"},
	"trace-overlap":  {"trace", "overlap", "--order", "depth", "--device", "soft:fermi-c2050"},
}

// TestColumns compares what each command writes in 60, 80 and 120 columns, and into a pipe, with
// golden files. No line is wider, but for words that cannot be folded. No word is lost.
func TestColumns(t *testing.T) {
	for name, args := range inColumns {
		t.Run(name, func(t *testing.T) {
			goldenColumns(t, name, func(columns int) (int, string, string) { return ferryIn(t, columns, args...) })
		})
	}
}

// goldenColumns compares what a run writes in 60, 80 and 120 columns, and into a pipe, with a golden
// file.
func goldenColumns(t *testing.T, name string, run func(columns int) (status int, out, errs string)) {
	t.Helper()
	var all strings.Builder
	piped := ""
	for _, columns := range []int{0, 60, 80, 120} {
		status, out, errs := run(columns)
		out = withoutWall(out)
		if columns == 0 {
			piped = out
			fmt.Fprintf(&all, "== piped, exit status %d\n", status)
		} else {
			checkColumns(t, columns, out+errs, piped)
			fmt.Fprintf(&all, "== %d columns\n", columns)
		}
		all.WriteString(out)
		if errs != "" {
			all.WriteString("== standard error\n" + errs)
		}
	}
	golden(t, filepath.Join("columns", name+".txt"), all.String())
}

// checkColumns reports lines that are too wide, and words of the piped text that are lost.
func checkColumns(t *testing.T, columns int, text, piped string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if utf8.RuneCountInString(line) > columns && strings.Contains(strings.TrimSpace(line), " ") && !program(line) {
			t.Errorf("%d columns: a line of %d: %s", columns, utf8.RuneCountInString(line), line)
		}
	}
	for line := range strings.Lines(piped) {
		for word := range strings.FieldsSeq(line) {
			word = strings.TrimSuffix(word, "-")                               // of a name in two lines
			if !strings.Contains(line, "|") && !strings.Contains(text, word) { // but for a drawing
				t.Errorf("%d columns: %q is lost", columns, word)
			}
		}
	}
}

// program reports whether a line is one of a program, which are not folded.
func program(line string) bool {
	return strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "func ") || strings.HasPrefix(line, "__global__ ") || strings.HasPrefix(line, "//")
}

// TestColumnsOfDocuments: a document is the same in any terminal.
func TestColumnsOfDocuments(t *testing.T) {
	for _, name := range []string{"info", "diff", "profile-list", "trace"} {
		args := append(inColumns[name], "--json")
		_, piped, _ := ferryIn(t, 0, args...)
		if _, got, _ := ferryIn(t, 60, args...); got != piped || !isDocument(got) {
			t.Errorf("%v: another document in 60 columns:\n%s", args, got)
		}
	}
}

// TestColumnsOfHelp: the pages of all commands fit into 60 columns, and into more they are as in
// a pipe.
func TestColumnsOfHelp(t *testing.T) {
	for _, path := range everyCommand(t) {
		args := append([]string{"help"}, path...)
		piped := wantIn(t, 0, args...)
		narrow := wantIn(t, 60, args...)
		for _, part := range helptext.Parse(piped) {
			if part.Kind == helptext.Exact { // a line of a program, or a command
				narrow = strings.Replace(narrow, part.Text+"\n", strings.Join(strings.Fields(part.Text), "\n")+"\n", 1)
			}
		}
		checkColumns(t, 60, narrow, piped)
		for _, columns := range []int{80, 120} {
			if got := wantIn(t, columns, args...); got != piped {
				t.Errorf("%v in %d columns: got\n%s\nwant\n%s", args, columns, got, piped)
			}
		}
	}
	golden(t, filepath.Join("columns", "help-bench-60.txt"), wantIn(t, 60, "help", "bench"))
}

// TestColumnsOfErrors: errors and hints fold.
func TestColumnsOfErrors(t *testing.T) {
	var all strings.Builder
	for _, args := range [][]string{{"bench", "--quik"}, {"info", "--device", "soft:h300"}, {"compare", "--min", "40"}, {"explain", "zero"}} {
		for _, columns := range []int{0, 60} {
			status, out, errs := ferryIn(t, columns, args...)
			if status == exitOK || out != "" {
				t.Errorf("%v: status %d, output %q", args, status, out)
			}
			if columns > 0 {
				checkColumns(t, columns, errs, "")
			}
			fmt.Fprintf(&all, "== %s, %d columns\n%s", strings.Join(args, " "), columns, errs)
		}
	}
	golden(t, filepath.Join("columns", "errors.txt"), all.String())
}

// TestColumnsOfTerminal: a command asks its terminal for the columns, unless COLUMNS says them.
func TestColumnsOfTerminal(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	t.Setenv("COLUMNS", "60")
	if got := columns(f); got != 0 {
		t.Errorf("a file has %d columns", got)
	}
}
