package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/checkrun"
	"github.com/ferrygpu/ferry/internal/test/compiletest"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/trace"
)

// processCache is a cache folder of this process, which all tests share: the library and the runtime of
// ferry cc are built once. TestMain removes it.
var processCache = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "ferry-tests")
	if err == nil {
		processCacheMade = dir
	}
	return dir, err
})

var processCacheMade string // "" for none

func TestMain(m *testing.M) {
	code := m.Run()
	if processCacheMade != "" {
		_ = os.RemoveAll(processCacheMade)
	}
	os.Exit(code)
}

// softLibrary returns the folder of the real library, in the cache of this process.
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
	cache, err := processCache()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CACHE_HOME", cache)
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
	c := exec.Command("gcc", "-std=gnu11", "-g", "-O1", "-Wall", "-Werror", "-pthread", "-I../libcuda/testdata", "-o", path, source, "-Wl,--as-needed", "-L"+library, "-lcuda", "-ldl")
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
	return fmt.Sprintf(":%d", strings.Count(before, "\n")+1)
}

// TestInC runs programs in C on the real library.
func TestInC(t *testing.T) {
	library := softLibrary(t)
	t.Run("programs", func(t *testing.T) { testProgramsInC(t, library) })
	t.Run("variables", func(t *testing.T) { testVariablesInC(t, library) })
	t.Run("recording", func(t *testing.T) { testRecordingInC(t, library) })
	t.Run("lines", func(t *testing.T) { testLinesInC(t, library) })
}

// wrongPrograms are those of testdata/c/wrong.c with what begins their reports.
var wrongPrograms = map[string]string{
	"fills": "unordered: ", "fills_of_threads": "unordered: ", "copy_beside_fill": "unordered: ", "event_too_early": "unordered: ",
	"used_before_its_allocation": "before allocation: ", "free_in_flight": "free in flight: ", "free_of_page_locked_memory": "free in flight: ",
	"copy_after_free": "use after free: ", "freed_twice": "double free: ", "past_the_end": "out of range: ", "uninitialized": "uninitialized: ",
	"source_changed": "host in flight: ", "race_in_a_kernel": "race in kernel neighbour: ",
}

// testProgramsInC runs wrong programs in C. Each is found, at its lines, and nothing in its correct
// twin.
func testProgramsInC(t *testing.T, library string) {
	program, text := cProgram(t, library, "wrong")
	if got := strings.Count(text, "(int right) {"); got != len(wrongPrograms) {
		t.Errorf("wrong.c has %d programs, want %d", got, len(wrongPrograms))
	}
	for name, begins := range wrongPrograms {
		r := checkC(t, exitFound, program, name)
		if len(r.Findings) != 1 || !strings.HasPrefix(r.Findings[0].Text, begins) {
			t.Errorf("%s: got %d findings, want one that begins with %q:\n%s", name, len(r.Findings), begins, r.Page().Text(0))
			continue
		}
		for _, mark := range []string{name + " 1", name + " 2"} {
			if strings.Contains(text, "// "+mark+"\n") && !strings.Contains(r.Findings[0].Text, "wrong.c"+lineOf(t, text, mark)) {
				t.Errorf("%s: the report lacks wrong.c%s:\n%s", name, lineOf(t, text, mark), r.Findings[0].Text)
			}
		}
		if r = checkC(t, exitOK, program, name, "right"); len(r.Findings) != 0 || !strings.HasPrefix(r.Watched, "watched: the driver's") {
			t.Errorf("%s right: %s", name, r.Page().Text(0))
		}
	}
	if r := checkC(t, 2, program, "none"); r.Status != 2 {
		t.Errorf("a program that fails: status %d", r.Status)
	}
}

// testVariablesInC: a program in C has the variables of Ferry as one in Go, and what is wrong with
// them is said, because C gets a code alone. One that is not linked with the library finds it.
func testVariablesInC(t *testing.T, library string) {
	status, out, errs := ferryRun("check", "--device", "soft:h200*3", "--", first(cProgram(t, library, "dlopen")))
	if status != exitOK || !strings.Contains(out, "3 devices\n") {
		t.Errorf("a program that opens the library: status %d, stdout %q, stderr %q", status, out, errs)
	}
	program, text := cProgram(t, library, "wrong")
	for variable, want := range map[string]string{
		"FERRY_FAULT=cuMemAlloc:1:CUDA_ERROR_OUT_OF_MEMORY": "cuMemAlloc_v2(&d, bytes): got 2 (CUDA_ERROR_OUT_OF_MEMORY)",
		"FERRY_FAULT=cuMemAlloc":                            "ferry: open FERRY_DEVICE=\"soft\": FERRY_FAULT is \"cuMemAlloc\": ",
		"FERRY_SCHEDULE=never":                              "FERRY_SCHEDULE",
		"FERRY_DEVICE=cuda:0":                               "ferry: open FERRY_DEVICE=\"cuda:0\": this libcuda.so.1 is the software GPU: use soft,",
		"FERRY_DEVICE=soft:h300":                            "ferry: open FERRY_DEVICE=\"soft:h300\": ",
	} {
		c := exec.Command(program, "fills")
		c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+library, variable)
		if said, err := c.CombinedOutput(); err == nil || !strings.Contains(string(said), want) || strings.Count(string(said), "\n") > 2 {
			t.Errorf("%s: %v, %s, want %q", variable, err, said, want)
		}
	}
	t.Setenv("FERRY_SCHEDULE", "")
	status, out, _ = ferryRun("check", "--device", "soft", "--seeds", "2", "--", program, "source_changed")
	if again := "ferry check --device soft -- " + program + " source_changed"; status != exitFound || !strings.Contains(out, "again: FERRY_SCHEDULE=random:1 "+again) || !strings.Contains(out, "wrong.c"+lineOf(t, text, "source_changed 1")) {
		t.Errorf("with seeds: status %d, stdout %s, want %q", status, out, again)
	}
}

func first(a, _ string) string { return a }

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

// testRecordingInC: the recording of a program in C is complete, although that closes nothing, and
// each call has its line. ferry explain reads it.
func testRecordingInC(t *testing.T, library string) {
	program, text := cProgram(t, library, "wrong")
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
	want := []string{"wrong.c" + lineOf(t, text, "fills 1") + " fills", "wrong.c" + lineOf(t, text, "fills 2") + " fills"}
	if strings.Join(lines, ",") != strings.Join(want, ",") || rec.Program != "wrong" {
		t.Errorf("%s: got the lines %q, want %q", rec.Program, lines, want)
	}
	status, out, errs = ferryRun("explain", "--device", "soft", "--", program, "copy_beside_fill")
	if status != exitOK || !strings.Contains(out, "wrong (process ") {
		t.Errorf("explain: status %d, stdout %q, stderr %q", status, out, errs)
	}
}

// testLinesInC: each call has a line of the program, also where the library puts it together from
// others.
func testLinesInC(t *testing.T, library string) {
	program, text := cProgram(t, library, "lines")
	path := filepath.Join(t.TempDir(), "rec.json")
	if status, _, errs := ferryRun("trace", "--device", "soft", "--record", path, "--", program); status != exitOK {
		t.Fatalf("status %d, stderr %q", status, errs)
	}
	rec, err := trace.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for i := range rec.Calls {
		c := &rec.Calls[i]
		at := rec.Sites[c.Site]
		if filepath.Base(at.File) != "lines.c" || at.Func != "main" {
			t.Errorf("%s is at %v in %s", c.Name, at, at.Func)
		}
		got[c.Name] += strings.TrimPrefix(at.String(), "lines.c")
	}
	in, out := lineOf(t, text, "in"), lineOf(t, text, "out")
	for name, want := range map[string]string{"cuMemcpyHtoDAsync": in, "cuMemcpyDtoHAsync": out, "cuMemsetD32Async": lineOf(t, text, "fill")} {
		if got[name] != want {
			t.Errorf("%s is at %q, want %q", name, got[name], want)
		}
	}
	if waits := got["cuStreamSynchronize"]; !strings.HasPrefix(waits, in+":") || !strings.HasSuffix(waits, ":17"+out) {
		t.Errorf("the waits are at %s, want %s, :17 and %s", waits, in, out)
	}
}
