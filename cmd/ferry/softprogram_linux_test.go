package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/checkrun"
	"github.com/ferrygpu/ferry/internal/test/compiletest"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/trace"
)

// softLibrary returns the folder of the real library, in a cache of this process.
func softLibrary(t *testing.T) string {
	t.Helper()
	sample.SkipRace(t)
	if _, err := exec.LookPath("gcc"); err != nil {
		if os.Getenv(compiletest.RequireVariable) == "1" {
			t.Fatalf("%s is 1, and there is no gcc", compiletest.RequireVariable)
		}
		t.Skip("no gcc")
	}
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOCACHE", strings.TrimSpace(string(out))) // which is in the user's cache
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("CC", "gcc")
	status, folder, errs := ferryRun("lib")
	if status != exitOK {
		t.Fatal(errs)
	}
	return strings.TrimSuffix(folder, "\n")
}

// cProgram compiles a program of testdata/c and returns its path, and its text.
func cProgram(t *testing.T, library, name string) (path, text string) {
	t.Helper()
	source := filepath.Join("testdata", "c", name+".c")
	data, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), name)
	c := exec.Command("gcc", "-std=gnu11", "-g", "-O1", "-Wall", "-Werror", "-I../libcuda/testdata", "-o", path, source, "-L"+library, "-lcuda")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", c.Args, err, out)
	}
	return path, string(data)
}

// lineOf returns the line of a text that has a mark, as reports name it.
func lineOf(t *testing.T, text, mark string) string {
	t.Helper()
	before, _, ok := strings.Cut(text, "// "+mark+"\n")
	if !ok {
		t.Fatalf("no line has the mark %q", mark)
	}
	return fmt.Sprintf("wrong.c:%d", strings.Count(before, "\n")+1)
}

// wrongPrograms are those of testdata/c/wrong.c with what begins their reports.
var wrongPrograms = map[string]string{
	"fills": "unordered: ", "copy_beside_fill": "unordered: ", "event_too_early": "unordered: ",
	"used_before_its_allocation": "before allocation: ", "free_in_flight": "free in flight: ", "free_of_page_locked_memory": "free in flight: ",
	"copy_after_free": "use after free: ", "freed_twice": "double free: ", "past_the_end": "out of range: ", "uninitialized": "uninitialized: ",
	"source_changed": "host in flight: ", "race_in_a_kernel": "race in kernel neighbour: ",
}

// TestProgramsInC runs programs in C on the library. Each wrong one is found, at its lines, and
// nothing in its correct twin. A program that nobody linked with the library finds it by dlopen.
func TestProgramsInC(t *testing.T) {
	library := softLibrary(t)
	program, text := cProgram(t, library, "wrong")
	if got := strings.Count(text, "static void ") - 1; got != len(wrongPrograms) { // one is a helper
		t.Errorf("wrong.c has %d programs, want %d", got, len(wrongPrograms))
	}
	for name, begins := range wrongPrograms {
		r := checkC(t, exitFound, program, name)
		if len(r.Findings) != 1 || !strings.HasPrefix(r.Findings[0].Text, begins) {
			t.Errorf("%s: got %d findings, want one that begins with %q:\n%s", name, len(r.Findings), begins, r.Text())
			continue
		}
		for _, mark := range []string{name + " 1", name + " 2"} {
			if strings.Contains(text, "// "+mark+"\n") && !strings.Contains(r.Findings[0].Text, lineOf(t, text, mark)) {
				t.Errorf("%s: the report lacks %s:\n%s", name, lineOf(t, text, mark), r.Findings[0].Text)
			}
		}
		if r = checkC(t, exitOK, program, name, "right"); len(r.Findings) != 0 || !strings.HasPrefix(r.Watched, "watched: the driver's") {
			t.Errorf("%s right: %s", name, r.Text())
		}
	}
	if r := checkC(t, 2, program, "none"); r.Status != 2 {
		t.Errorf("a program that fails: status %d", r.Status)
	}
}

// checkC runs a program under ferry check.
func checkC(t *testing.T, status int, args ...string) *checkrun.Report {
	t.Helper()
	got, out, errs := ferryRun(append([]string{"check", "--device", "soft", "--json", "--"}, args...)...)
	r := &checkrun.Report{}
	if err := json.Unmarshal([]byte(out), r); err != nil || got != status {
		t.Fatalf("%v: status %d, want %d; %v\n%s\n%s", args, got, status, err, out, errs)
	}
	return r
}

// TestRecordingInC: the recording of a program in C is complete, although that closes nothing, and
// each call has its line. ferry explain reads it.
func TestRecordingInC(t *testing.T) {
	program, text := cProgram(t, softLibrary(t), "wrong")
	path := filepath.Join(t.TempDir(), "rec.json")
	status, out, errs := ferryRun("trace", "--device", "soft:a100", "--record", path, "--", program, "fills")
	if status != exitOK || errs != "" || !strings.Contains(out, "soft:a100") && !strings.Contains(out, "A100") {
		t.Fatalf("status %d, stdout %q, stderr %q", status, out, errs)
	}
	data, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(data, []byte(`{"end":`)) {
		t.Errorf("the recording has no end, %v", err)
	}
	rec, err := trace.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for i := range rec.Calls {
		if c := &rec.Calls[i]; c.Name == "cuMemsetD32Async" {
			lines = append(lines, rec.Sites[c.Site].String()+" "+rec.Sites[c.Site].Func)
		}
	}
	want := []string{lineOf(t, text, "fills 1") + " fills", lineOf(t, text, "fills 2") + " fills"}
	if strings.Join(lines, ",") != strings.Join(want, ",") || rec.Program != "wrong" {
		t.Errorf("%s: got the lines %q, want %q", rec.Program, lines, want)
	}
	status, out, errs = ferryRun("explain", "--device", "soft", "--", program, "copy_beside_fill")
	if status != exitOK || !strings.Contains(out, "wrong (process ") {
		t.Errorf("explain: status %d, stdout %q, stderr %q", status, out, errs)
	}
}
