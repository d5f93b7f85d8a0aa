package checkrun_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/checkrun"
	"github.com/ferrygpu/ferry/internal/checks"
)

// report runs a script of the shell and returns its report.
func report(t *testing.T, script string) *checkrun.Report {
	t.Helper()
	r, err := (&checkrun.Program{Args: []string{"sh", "-c", script}, Stdout: io.Discard, Stderr: io.Discard}).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRelativeFolder: a process that runs in another folder writes to the same file, although
// TMPDIR is relative.
func TestRelativeFolder(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.MkdirAll(filepath.Join("tmp", "else"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", "tmp")
	r := report(t, `cd tmp/else && echo '{"text":"planted"}' >>$FERRY_CHECK_REPORT`)
	if len(r.Findings) != 1 || r.Status != 0 {
		t.Errorf("%d findings, status %d, want one and 0", len(r.Findings), r.Status)
	}
	if left, err := os.ReadDir("tmp"); err != nil || len(left) != 1 {
		t.Errorf("the folder has %v, %v", left, err)
	}
}

// TestBadRows: a row that is cut, long or none costs itself, not those before and after it, and
// counts as given up. A row behind one that was cut is on the same line.
func TestBadRows(t *testing.T) {
	for _, c := range []struct {
		bad   string // in the format of printf
		after bool   // the next row is on the same line
		want  string
	}{
		{`{"process":7,"text":"cut`, true, "is cut, or is none"},
		{`{"process":7,"finding":{"a":1},"te`, true, "is cut, or is none"},
		{`{"process":7}\n`, false, "is cut, or is none"},
		{`\0\0\0\n`, false, "is cut, or is none"},
		{`[1]\n`, false, "is cut, or is none"},
	} {
		r := report(t, fmt.Sprintf(`exec >>$FERRY_CHECK_REPORT
echo '{"process":1,"text":"before"}'
printf '%s'
echo '{"process":2,"text":"after"}'
echo '{"process":3,"text":"later"}'`, c.bad))
		texts := func() (all []string) {
			for _, f := range r.Findings {
				all = append(all, f.Text)
			}
			return all
		}()
		if !slices.Equal(texts, []string{"before", "after", "later"}) {
			t.Errorf("%s: the findings are %q", c.bad, texts)
		}
		if len(r.GaveUp) != 1 || r.GaveUp[0].Count != 1 || !strings.Contains(r.GaveUp[0].What, c.want) {
			t.Errorf("%s: given up %v, want one with %q", c.bad, r.GaveUp, c.want)
		}
	}
	r := report(t, `exec >>$FERRY_CHECK_REPORT
echo '{"text":"before"}'
printf '{"text":"'; head -c 20000000 /dev/zero | tr '\0' x; printf '"}\n'
echo '{"text":"after"}'
printf '{"text":"the end is'`)
	if len(r.Findings) != 2 || len(r.GaveUp) != 2 || !strings.Contains(r.Page().Text(0), "is too long (1 time)") {
		t.Errorf("%d findings, given up %v", len(r.Findings), r.GaveUp)
	}
}

// TestRemoved: findings that were removed are an error, and so is their folder.
func TestRemoved(t *testing.T) {
	for _, script := range []string{`rm $FERRY_CHECK_REPORT`, `rm -r $(dirname $FERRY_CHECK_REPORT)`} {
		r, err := (&checkrun.Program{Args: []string{"sh", "-c", script}, Stdout: io.Discard, Stderr: io.Discard}).Run(t.Context())
		if err == nil || r == nil || !strings.Contains(err.Error(), "read the findings") {
			t.Errorf("%s: %+v, %v", script, r, err)
		}
	}
}

// TestLongRows: a process writes no row that is too long to be read. The text stays longer than
// the details.
func TestLongRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "findings")
	t.Setenv(checks.ReportVariable, path)
	details := []byte(`"` + strings.Repeat("d", 2*checks.MostRow) + `"`)
	for _, c := range []struct {
		text string
		want string
	}{{"short", `"text":"short"}`}, {strings.Repeat("\"\x01", checks.MostRow), "bytes)\"}"}} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if !checks.Append(checks.Row{Check: "memory", Text: c.text, Finding: details}) {
			t.Error("the row was not written")
		}
		if text, err := os.ReadFile(path); err != nil || len(text) > checks.MostRow || !strings.HasSuffix(string(text), c.want+"\n") {
			t.Errorf("%d bytes, want at most %d, and the end %q (%v): %.60q", len(text), checks.MostRow, c.want, err, text)
		}
	}
}

// TestReady: where findings can be written, or be marked as lost, a check may begin. Elsewhere
// the error names the variable.
func TestReady(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "folder")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"": "", filepath.Join(dir, "new"): "", folder: "", // beside the folder there is room for the mark
		filepath.Join(dir, "none", "x"): checks.ReportVariable + ": write ",
	} {
		t.Setenv(checks.ReportVariable, path)
		if err := checks.Ready(); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
}
