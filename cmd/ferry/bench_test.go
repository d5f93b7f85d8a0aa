package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
)

// TestBenchPatterns measures a family of patterns, writes the times, and compares others with
// them: those of another run, and those of the file itself.
func TestBenchPatterns(t *testing.T) {
	bench := func(args ...string) string {
		t.Helper()
		status, out, errs := ferryRun(append([]string{"bench", "--set", "patterns"}, args...)...)
		if status != 0 {
			t.Fatalf("%v: status %d: %s", args, status, errs)
		}
		return out
	}
	file := filepath.Join(t.TempDir(), "times.json")
	text := bench("--device", "soft:h200", "--only", "graphs", "--json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(text, "graph of copies, kernels and copies out"); n != 3 {
		t.Errorf("%d cases of a kind that has 3:\n%s", n, text)
	}
	const none = "graphs                             5   0.0 %  0.0 %     0         6   0.0 %  0.0 %     0"
	if got := bench("--device", "soft:h200", "--against", file); !strings.Contains(got, none) {
		t.Errorf("measured again: got\n%s\nwant %s", got, none)
	}
	if got := bench("--read", file, "--against", file); !strings.Contains(got, none) {
		t.Errorf("read: got\n%s\nwant %s", got, none)
	}
	if got := bench("--read", file, "--against", file, "--cases"); strings.Count(got, "\ngraph of ") != 5 {
		t.Errorf("got\n%s\nwant the 5 cases for development", got)
	}
}

// TestBenchFlags: flags that exclude each other, and values that are none.
func TestBenchFlags(t *testing.T) {
	dir := t.TempDir()
	wrongTimes := filepath.Join(t.TempDir(), "wrong.json")
	write(t, wrongTimes, `{"schema": "ferry.grid/1", "points": [{"kind": "a", "size": 0, "median_ns": -1}]}`)
	for _, c := range []struct {
		line, want string
		status     int
	}{
		{"--quick --full", "--quick and --full exclude each other", exitUsage},
		{"--csv --json", "--csv and --json exclude each other", exitUsage},
		{"--csv --list", "--csv and --list exclude each other", exitUsage},
		{"--csv --normal h200", "leave out --against and --normal", exitUsage},
		{"--normal h200 --against testdata/bench.json", "--normal and --against exclude each other", exitUsage},
		{"--save-profile mine", `want a name that ends with .json`, exitUsage},
		{"--save-profile mine.json --read testdata/bench.json", "measured now", exitUsage},
		{"--save-profile mine.json --set patterns", "measured now", exitUsage},
		{"--budget 0s", "want a time above 0", exitUsage},
		{"--budget=-1s", "want a time above 0", exitUsage},
		{"--budget soon", `invalid value "soon" for flag --budget`, exitUsage},
		{"--normal h20", `there is no such reference; did you mean "h200"?`, exitUsage},
		{"--normal absent.json", "absent.json: no such file", exitError},
		{"--normal testdata/info-h200.json", `the schema is "ferry.info/1"`, exitError},
		{"--save-profile " + dir + "/none/mine.json", "none/mine.json: no such file", exitError},
		{"--save-profile " + dir + "/../absent-ferry/x.json", "no such file", exitError},
		{"--set patterns --only graphs --normal h200", "the reference has none of these cases, so nothing was measured", exitError},
		{"--only copy --normal testdata/before.json --save-profile testdata/before.json", "would replace the reference", exitUsage},
		{"--read testdata/bench.json --quick", "--read measures nothing", exitUsage},
		{"--read testdata/bench.json --budget 3s", "--read measures nothing", exitUsage},
		{"--read " + wrongTimes, "a/0 has the median -1 ns", exitError},
	} {
		status, out, errs := ferryRun(append([]string{"bench", "--device", "soft", "--only", "graph"}, strings.Fields(c.line)...)...)
		if status != c.status || !strings.Contains(errs, c.want) {
			t.Errorf("%s: status %d, %q, want %q", c.line, status, errs, c.want)
		}
		if out != "" {
			t.Errorf("%s: something was measured before: %s", c.line, out)
		}
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) > 0 {
		t.Errorf("files were left: %v, %v", all, err)
	}
}

// TestBenchList lists the kinds without a device.
func TestBenchList(t *testing.T) {
	goldens(t, "bench-list", "bench", "--list", "--only", "copy", "--device", "soft:nothing")
	text := want(t, "bench", "--list", "--set", "patterns")
	if !strings.Contains(text, " kinds, 412 cases; ") {
		t.Errorf("got\n%s", text)
	}
}

// TestBenchCSV: a line for each case, and a comment if the run was not whole.
func TestBenchCSV(t *testing.T) {
	golden(t, "bench.csv", want(t, "bench", "--device", "soft:fermi-c2050", "--only", "fill", "--quick", "--csv"))
	r, err := readGrids([]string{"testdata/bench.json"})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(table{r}.values("interrupted")); !strings.HasSuffix(got, "\n# partial: interrupted\n") || strings.Count(got, "\n") != len(r.Points)+2 {
		t.Errorf("got\n%s", got)
	}
}

// TestBenchSkips: what an old machine lacks is skipped and named, and the run succeeds.
func TestBenchSkips(t *testing.T) {
	golden(t, "bench-skips.txt", want(t, "bench", "--device", "soft:tesla-c1060", "--only", "many blocks"))
}

// TestBenchBudget: a budget that is too small names what is left out.
func TestBenchBudget(t *testing.T) {
	golden(t, "bench-budget.txt", want(t, "bench", "--device", "soft:fermi-c2050", "--only", "fill", "--budget", "1ns"))
	golden(t, "bench-budget.json", want(t, "bench", "--device", "soft:fermi-c2050", "--only", "fill", "--budget", "1ns", "--json"))
}

// normalRun runs "ferry bench --read FILE --normal NAMES".
func normalRun(file, names string, more ...string) (status int, stdout, stderr string) {
	return ferryRun(append([]string{"bench", "--read", file, "--normal", names}, more...)...)
}

// TestBenchNormal: a run on an H200 is normal for H200s and for itself. One that was slowed
// down is not, and the exit status is 3.
func TestBenchNormal(t *testing.T) {
	const run = "../../docs/results/grid-h200-f1.json"
	for _, names := range []string{"h200", run, run + ",../../docs/results/grid-h200-e1.json"} {
		if status, out, errs := normalRun(run, names); status != exitOK || errs != "" || !strings.Contains(out, " normal, 0 slower, 0 faster") {
			t.Errorf("%s: status %d, %s%s", names, status, errs, out[max(0, len(out)-500):])
		}
	}
	r, err := readGrids([]string{run})
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Points {
		if p := &r.Points[i]; p.Kind == "copy pinned out" && p.Size >= 1<<20 {
			p.Median, p.P5, p.P95 = 2*p.Median, 2*p.P5, 2*p.P95
		}
	}
	text, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	slow := filepath.Join(t.TempDir(), "slow.json")
	write(t, slow, string(text))
	status, out, errs := normalRun(slow, "h200", "--only", "pinned")
	if status != exitFound || errs != "ferry bench: 9 of 162 rows are not normal for h200: 9 slower, 0 faster\n" {
		t.Errorf("status %d, %s", status, errs)
	}
	_, summary, _ := strings.Cut(out, "\nsummary: ")
	golden(t, "bench-normal.txt", summary)
	status, out, _ = normalRun(slow, "h200", "--json")
	var doc struct {
		Schema  string
		Summary struct{ Reference string }
		Normal  struct{ Slower, Faster int }
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil || status != exitFound || !isDocument(out) ||
		doc.Schema != grid.Schema || doc.Summary.Reference != "h200" || doc.Normal.Slower != 9 || doc.Normal.Faster != 0 {
		t.Errorf("status %d, %v, %+v", status, err, doc)
	}
}

// TestBenchSaveProfile saves a profile of a machine, opens it, and checks it with the run.
func TestBenchSaveProfile(t *testing.T) {
	dir := t.TempDir()
	file, run := filepath.Join(dir, "mine.json"), filepath.Join(dir, "run.json")
	args := []string{"bench", "--device", "soft:fermi-c2050", "--only", "fill", "--quick", "--json"}
	status, out, errs := ferryRun(append(args, "--save-profile", file)...)
	if status != exitOK || !strings.Contains(errs, "wrote the profile "+file+", from that of fermi-c2050; on ") {
		t.Fatalf("status %d: %s", status, errs)
	}
	write(t, run, out)
	if shown := want(t, "profile", "show", file); !strings.Contains(shown, "Tesla C2050") || !strings.Contains(shown, "--save-profile") {
		t.Errorf("got\n%s", shown)
	}
	if checked := want(t, "profile", "check", run, "--device", "soft:"+file); !strings.Contains(checked, "0.0 %") {
		t.Errorf("got\n%s", checked)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if status, _, _ := ferryRun("bench", "--device", "soft:fermi-c2050", "--only", "launches", "--budget", "1ns", "--save-profile", file); status != exitOK {
		t.Errorf("one case: status %d", status)
	}
	if after, err := os.ReadFile(file); err != nil || len(after) < len(before)/2 {
		t.Errorf("the profile was not replaced: %v", err)
	}
}
