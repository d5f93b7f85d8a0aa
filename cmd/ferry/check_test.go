package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cmd/ferry/internal/checkrun"
)

// checkedVariable makes the test binary a program that "ferry check" runs: "wrong" or
// "right".
const checkedVariable = "FERRY_TEST_CHECKED"

// TestCheckedProgram is the program that TestCheck runs.
func TestCheckedProgram(t *testing.T) {
	how := os.Getenv(checkedVariable)
	if how == "" {
		t.Skip("only as a program of TestCheck")
	}
	g, err := ferry.Open("soft")
	if err != nil {
		t.Fatal(err)
	}
	o := &ferry.StreamOptions{NonBlocking: true}
	s, _ := ferry.NewStream(g, o)
	u, _ := ferry.NewStream(g, o)
	e, _ := ferry.NewEvent(g, nil)
	x, err := ferry.Alloc[byte](g, 64)
	if err != nil {
		t.Fatal(err)
	}
	_ = ferry.Fill(s, x, 1)
	_ = s.Record(e)
	if how == "right" {
		_ = u.WaitEvent(e)
	}
	_ = ferry.Fill(u, x, 2)
	if how == "fails" {
		t.Error("as asked")
	}
	for _, c := range []interface{ Close() error }{x, e, u, s, g} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestCheck: a wrong program is status 3 with its finding, a correct one that of itself, and
// an allowed finding is left out.
func TestCheck(t *testing.T) {
	program := []string{"--", os.Args[0], "-test.run=^TestCheckedProgram$"}
	allow := filepath.Join(t.TempDir(), "allow")
	if err := os.WriteFile(allow, []byte("# known\ncheck_test.go:41\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		how    string
		flags  []string
		status int
		want   string
	}{
		{"wrong", nil, exitFound, "nothing orders stream 1 before stream 2"},
		{"wrong", nil, exitFound, "\n1 finding, 0 notes\n"},
		{"wrong", []string{"--allow", allow}, exitOK, "0 findings, 0 notes, 1 allowed"},
		{"right", nil, exitOK, "0 findings, 0 notes"},
	} {
		t.Setenv(checkedVariable, c.how)
		status, out, errs := ferryRun(append(append([]string{"check"}, c.flags...), program...)...)
		if status != c.status || !strings.Contains(out, c.want) || !strings.Contains(out, "watched: the driver's copies") {
			t.Errorf("%s: status %d, want %d\n%s\n%s", c.how, status, c.status, out, errs)
		}
		if strings.Contains(out, "races has them") || strings.Contains(errs, "unordered") {
			t.Errorf("%s: the first line or standard error is wrong: the checks of kernels are on, and the report has the findings\n%s\n%s", c.how, out, errs)
		}
	}
	t.Setenv(checkedVariable, "wrong")
	status, out, _ := ferryRun(append([]string{"check", "--json"}, program...)...)
	var r checkrun.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != exitFound || len(r.Findings) != 1 || r.Schema != checkrun.Schema {
		t.Errorf("status %d, %v, %+v", status, err, r)
	}
}

// TestCheckStatus: without findings the status is the program's. The first line says that
// nothing was watched.
func TestCheckStatus(t *testing.T) {
	for _, c := range []struct {
		script string
		status int
		want   string
	}{{"exit 7", 7, "sh: exit status 7"}, {"kill -9 $$", 128 + 9, "sh: signal: killed"}} {
		status, out, errs := ferryRun("check", "--", "sh", "-c", c.script)
		if status != c.status || !strings.Contains(errs, c.want) || !strings.HasPrefix(out, "watched: nothing: ") {
			t.Errorf("%s: status %d, want %d\n%s%s", c.script, status, c.status, out, errs)
		}
	}
	for _, args := range [][]string{{"check"}, {"check", "--"}, {"check", "sh"}} {
		if status, _, _ := ferryRun(args...); status != exitUsage {
			t.Errorf("%q: status %d, want %d", args, status, exitUsage)
		}
	}
	if status, _, _ := ferryRun("check", "--allow", "/no/such", "--", "true"); status != exitError {
		t.Errorf("no file: status %d", status)
	}
}

// TestCheckGaveUp: a check that gave up something is status 4 if nothing was found and the
// program succeeded.
func TestCheckGaveUp(t *testing.T) {
	const row = `echo '{"check":"races","gave_up":{"check":"races","what":"launches were forgotten","count":4}}' >>$FERRY_CHECK_REPORT`
	for _, c := range []struct {
		script string
		status int
	}{
		{row, exitGaveUp},
		{row + `; echo '{"text":"planted"}' >>$FERRY_CHECK_REPORT`, exitFound},
		{row + "; exit 7", 7},
		{"true", exitOK},
	} {
		status, out, errs := ferryRun("check", "--", "sh", "-c", c.script)
		if status != c.status || strings.Contains(out, "gave up: races: launches were forgotten (4 times)") != (c.status != exitOK) {
			t.Errorf("%s: status %d, want %d\n%s%s", c.script, status, c.status, out, errs)
		}
	}
	status, out, _ := ferryRun("check", "--json", "--", "sh", "-c", row)
	var r checkrun.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != exitGaveUp || len(r.GaveUp) != 1 || r.GaveUp[0].Count != 4 {
		t.Errorf("status %d, %v, %+v", status, err, r.GaveUp)
	}
}

// TestCheckUnwritable: a program that can neither write what it finds, nor mark that as lost, does
// not begin to be checked. So its findings are not taken for none.
func TestCheckUnwritable(t *testing.T) {
	t.Setenv(checkedVariable, "wrong")
	for _, check := range []string{"memory", "races"} {
		status, out, errs := ferryRun("check", "--", "sh", "-c", `FERRY_CHECK=`+check+` FERRY_CHECK_REPORT=/none/at/all exec "$0" -test.run='^TestCheckedProgram$'`, os.Args[0])
		if status != exitError || !strings.Contains(out, "FERRY_CHECK_REPORT: write /none/at/all: no such file or directory: what is found here would be lost") {
			t.Errorf("%s: status %d\n%s%s", check, status, out, errs)
		}
	}
}
