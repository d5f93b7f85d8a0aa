package bench

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSpeedServe checks the rows of cells with and without a peer, the command line of the
// peer, and its errors.
func TestSpeedServe(t *testing.T) {
	said := filepath.Join(t.TempDir(), "said")
	answer := `{"per_second":1e6,"p50_us":2,"p99_us":3,"p999_us":4,"cpu_per_second":0.5}`
	peer := []string{"sh", "-c", "echo $0 $* >>" + said + "; echo '" + answer + "'", "serve_c"}
	results, err := SpeedServe(open(t, "soft"), fewCells, 5*time.Millisecond, 1, peer)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]SpeedResult{}
	for _, r := range results {
		byName[r.What] = r
		if r.Ferry <= 0 || r.Unit != "ns" {
			t.Errorf("%+v", r)
		}
	}
	for name, want := range map[string]SpeedResult{
		"pinned,4096,16: a request":   {Peer: 1000, GoalRatio: goalOfRequests},
		"pinned,4096,16: CPU time":    {Peer: 500},
		"pinned,4096,16: p50":         {Peer: 2000},
		"pinned,4096,16: p99":         {Peer: 3000, GoalRatio: goalOfTail},
		"pinned,4096,16: p99.9":       {Peer: 4000, GoalRatio: goalOfTail},
		"pageable,65536,4: a request": {Peer: 1000, GoalRatio: goalOfPageable},
		"pool,4096,4: a request":      {},
		"pinned,4096,4,gc: p99.9":     {},
	} {
		if r := byName["serve "+name]; r.Peer != want.Peer || r.GoalRatio != want.GoalRatio {
			t.Errorf("%s: %+v", name, r)
		}
	}
	text, err := os.ReadFile(said)
	want := strings.Repeat("serve_c --time 0.005s pinned,4096,16\n", 2) + strings.Repeat("serve_c --time 0.005s pageable,65536,4\n", 2)
	if err != nil || string(text) != want || len(results) != 20 {
		t.Errorf("%d results, the peer was called with\n%s", len(results), text)
	}
	for script, want := range map[string]string{"exit 3": "exit status 3", "echo wrong": `read "wrong\n"`} {
		if _, err := askServe([]string{"sh", "-c", script}, fewCells[0], time.Second); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", script, err)
		}
	}
}

// scriptFigures returns a program for serve.py with given requests a second. It adds 1 to them
// with every call.
func scriptFigures(t *testing.T, name, perSecond, more string) string {
	path := filepath.Join(t.TempDir(), name)
	text := `#!/bin/sh
for cell in "$@"; do :; done
echo >>` + path + `.calls
n=$(wc -l <` + path + `.calls)
echo '{"cell":"'$cell'","seconds":1,"requests":9,"per_second":'$((` + perSecond + ` + n))',"p50_us":1,"p99_us":20,"p999_us":30,"longest_us":40,
"fewest":8,"most":10,"cpu_per_second":2.5,"threads":7,` + more + `"device":"a GPU"}'
`
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestServeScript runs internal/measure/bench/peer/serve.py with programs that invent figures. It
// checks the medians, the goals, and that lines that were kept give the same document.
func TestServeScript(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3 here")
	}
	dir := t.TempDir()
	own := scriptFigures(t, "own", "1000", `"allocs_per_request":0,"commit":"0123abc","go":"go1",`)
	c := scriptFigures(t, "c", "2000", "")
	script := func(args ...string) (table, document string) {
		t.Helper()
		out := filepath.Join(dir, "out.json")
		stdout, err := exec.Command("python3", append([]string{"peer/serve.py", "--json", out}, args...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return string(stdout), string(text)
	}
	lines := filepath.Join(dir, "lines.jsonl")
	table, document := script("--new", own, "--c", c, "--rounds", "3", "--cells", "pinned,4096,1*", "pool,65536,4", "--lines", lines)
	var got struct {
		About   map[string]string
		Results []struct {
			Cell, Program string
			Runs          int
			Fairness      float64
			PerSecond     float64 `json:"per_second"`
		}
		Goals []struct {
			Cell, What string
			Value      float64
			Met        bool
		}
	}
	if err := json.Unmarshal([]byte(document), &got); err != nil {
		t.Fatal(err)
	}
	// pinned,4096,1*: 1 and 16 goroutines, and 16 with gc, which C cannot measure.
	if len(got.Results) != 3+3+1+1 || got.About["commit"] != "0123abc" || got.About["device"] != "a GPU" {
		t.Fatalf("%d results, %v", len(got.Results), got.About)
	}
	// The calls of the first cell are the 1st, 5th and 9th of own.
	if r := got.Results[0]; r.Cell != "pinned,4096,1" || r.Program != "new" || r.Runs != 3 || r.PerSecond != 1005 || r.Fairness != 0.8 {
		t.Errorf("%+v", r)
	}
	met := map[string]bool{}
	for _, g := range got.Goals {
		met[g.Cell+" "+g.What] = g.Met
	}
	for name, want := range map[string]bool{"pinned,4096,1 requests/s, of C": false, "pinned,4096,1 p99, of C": true, "pinned,4096,16 fewest, of most": true, "pinned,4096,16,gc p99, of that without gc": true} {
		if got, ok := met[name]; got != want || !ok {
			t.Errorf("goal %q is met: %v, in the list: %v", name, got, ok)
		}
	}
	if again, document2 := script("--merge", lines); again != table || document2 != document {
		t.Errorf("lines that were kept give\n%s\nwant\n%s", again, table)
	}
}
