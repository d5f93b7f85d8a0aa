package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/profile"
)

// goldens compares the text and the document of a command with files in testdata.
func goldens(t *testing.T, name string, args ...string) {
	t.Helper()
	golden(t, name+".txt", want(t, args...))
	document := want(t, append(args, "--json")...)
	if !isDocument(document) {
		t.Errorf("%v: not an indented document: %s", args, document)
	}
	golden(t, name+".json", document)
}

func TestBench(t *testing.T) {
	for _, against := range sample.Of(t, []bool{false, true}, 1) {
		if against {
			goldens(t, "bench-against", "bench", "--device", "soft:fermi-c2050", "--only", "fill", "--against", "testdata/bench.json")
		} else {
			goldens(t, "bench", "bench", "--device", "soft:fermi-c2050", "--only", "fill")
		}
	}
}

// TestBenchRoundTrip reads the document of bench as bench and diff do.
func TestBenchRoundTrip(t *testing.T) {
	r, err := readGrids([]string{"testdata/bench.json"})
	if err != nil || len(r.Points) == 0 || r.Points[0].Median <= 0 || r.Device.Profile == nil || *r.Device.Profile != "fermi-c2050" {
		t.Fatalf("got %+v, %v", r, err)
	}
	text, err := os.ReadFile("testdata/bench.json")
	if err != nil {
		t.Fatal(err)
	}
	if old, err := grid.Parse(text); err != nil || !reflect.DeepEqual(old, r) {
		t.Errorf("package grid reads another result: %+v, %v", old, err)
	}
}

// TestProfileCheck: it is bench --against under another name.
func TestProfileCheck(t *testing.T) {
	for _, more := range [][]string{nil, {"--json"}} {
		got := want(t, append([]string{"profile", "check", "testdata/before.json", "testdata/after.json", "--device", "soft:h200", "--only", "copy pinned in"}, more...)...)
		want := want(t, append([]string{"bench", "--against", "testdata/before.json,testdata/after.json", "--device", "soft:h200", "--only", "copy pinned in"}, more...)...)
		if got != want || got == "" {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

func TestProfiles(t *testing.T) {
	goldens(t, "profile-list", "profile", "list")
	golden(t, "profile-show.txt", want(t, "profile", "show", "tesla-c1060"))
	for _, name := range profile.Names() {
		document := want(t, "profile", "show", name, "--json")
		p, err := profile.Parse([]byte(document))
		shipped, _ := profile.Named(name)
		if err != nil || !isDocument(document) || !reflect.DeepEqual(p, shipped) {
			t.Errorf("%s: %v: %s", name, err, document)
		}
		file := filepath.Join(t.TempDir(), name+".json")
		write(t, file, document)
		if got := want(t, "profile", "show", file, "--json"); got != document {
			t.Errorf("%s: the file shows %s", name, got)
		}
	}
}

// TestDiff: a row that is slower than the noise gives exit status 3.
func TestDiff(t *testing.T) {
	status, text, errs := ferryRun("diff", "testdata/before.json", "testdata/after.json")
	if status != exitFound || errs != "ferry diff: 1 of 3 rows are slower in B than the noise\n" {
		t.Errorf("status %d, stderr %q", status, errs)
	}
	golden(t, "diff.txt", text)
	status, document, _ := ferryRun("diff", "-json", "testdata/before.json", "testdata/after.json")
	if status != exitFound || !isDocument(document) {
		t.Errorf("--json: status %d, %s", status, document)
	}
	golden(t, "diff.json", document)
	var doc struct {
		Schema         string
		Slower, Faster int
		Rows           []struct {
			Kind  string
			Size  int
			Ratio float64
			State string
		}
	}
	if err := json.Unmarshal([]byte(document), &doc); err != nil || doc.Schema != "ferry.diff/1" || doc.Slower != 1 || doc.Faster != 1 || len(doc.Rows) != 3 ||
		doc.Rows[1].State != "slower" || doc.Rows[1].Ratio != 1.2 || doc.Rows[1].Size != 1<<20 {
		t.Errorf("got %+v, %v", doc, err)
	}
	if same := want(t, "diff", "testdata/before.json", "testdata/before.json"); !strings.Contains(same, "4 rows: 0 slower in B than the noise, 0 faster, 4 the same") {
		t.Errorf("a file with itself: %s", same)
	}
	if merged := want(t, "diff", "testdata/before.json,testdata/after.json", "testdata/after.json"); !strings.Contains(merged, " 0 slower") {
		t.Errorf("several files: %s", merged)
	}
	predicted := want(t, "diff", "../../docs/results/grid-soft-h200.json", "../../docs/results/grid-soft-h200.json")
	if !strings.Contains(predicted, "predicted on soft:h200") {
		t.Errorf("a prediction: %s", predicted)
	}
}

// TestBadFiles: a file that is no result of bench is refused with the position.
func TestBadFiles(t *testing.T) {
	good, err := os.ReadFile("testdata/before.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"empty":     {"", ":1:1: the file is empty"},
		"truncated": {string(good[:300]), ":7:31: the file is truncated"},
		"text":      {"device: soft\n", ":1:1: not JSON"},
		"newer":     {strings.Replace(string(good), "grid/1", "grid/9", 1), `:2:13: the schema is "ferry.grid/9", want "ferry.grid/1": another version of Ferry wrote it`},
		"other":     {`{"schema": "ferry.info/1"}`, `:1:12: the schema is "ferry.info/1", want "ferry.grid/1"`},
		"no times":  {`{"schema": "ferry.grid/1"}`, "has no times"},
		"one case":  {`{"schema": "ferry.grid/1", "points": [{"size": 1, "kind": "x", "median_ns": 1}]}`, "have no case in common"},
	} {
		bad := filepath.Join(t.TempDir(), "bad.json")
		write(t, bad, c.text)
		for _, args := range [][]string{
			{"diff", "testdata/before.json", bad}, {"diff", bad, "testdata/before.json"},
			{"bench", "--device", "soft", "--against", bad}, {"profile", "check", bad, "--device", "soft"},
		} {
			if name == "one case" && args[0] != "diff" {
				continue
			}
			status, out, errs := ferryRun(args...)
			if status != exitError || out != "" || !strings.Contains(errs, c.want) || !strings.Contains(errs, bad) {
				t.Errorf("%s: %v: status %d, stdout %q, stderr %q", name, args, status, out, errs)
			}
		}
	}
}

// TestEndlessFiles: a file that never ends is refused by every command that reads one.
func TestEndlessFiles(t *testing.T) {
	const endless = "/dev/zero"
	if _, err := os.Stat(endless); err != nil {
		t.Skip(err)
	}
	profile := filepath.Join(t.TempDir(), "endless.json")
	if err := os.Symlink(endless, profile); err != nil {
		t.Skip(err)
	}
	for _, args := range [][]string{
		{"diff", "testdata/before.json", endless}, {"bench", "--read", endless}, {"bench", "--device", "soft", "--against", endless},
		{"bench", "--device", "soft", "--normal", endless}, {"profile", "check", endless, "--device", "soft"}, {"profile", "fit", endless},
		{"profile", "show", profile}, {"info", "--device", "soft:" + profile}, {"trace", endless}, {"explain", endless},
		{"run", endless, "--kernel", "k", "--grid", "1", "--block", "1"}, {"compare", "--device", "soft", "--ptx", endless, "--kernel", "k"}, {"check", "--allow", endless, "--", "true"},
	} {
		status, out, errs := ferryRun(args...)
		if status != exitError || out != "" || !strings.Contains(errs, "bytes") {
			t.Errorf("%v: status %d, stdout %q, stderr %q", args, status, out, errs)
		}
	}
}
