package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/measure/bench"
)

// TestRun: a short run on a software GPU prints and writes its result.
func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "soak.json")
	var out, progress bytes.Buffer
	if status := run([]string{"-device", "soft", "-rounds", "2000", "-goroutines", "8", "-seed", "1", "-json", file}, &out, &progress); status != exitOK {
		t.Fatalf("exit status %d\n%s%s", status, &out, &progress)
	}
	text, err := os.ReadFile(file)
	var d document
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil || d.Schema != schema || d.Soak.Rounds != 2000 || len(d.Soak.Health) != 20 || d.Machine["device"] == "" {
		t.Errorf("error %v, document %+v", err, d)
	}
	if !strings.HasPrefix(out.String(), "2000 rounds in ") {
		t.Errorf("printed %q", &out)
	}
}

// TestUsage: a wrong command line is refused with status 2.
func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-only", "nothing"}, {"-rounds", "-1"}, {"-goroutines", "0"}, {"more"}} {
		var out, progress bytes.Buffer
		if status := run(args, &out, &progress); status != exitUsage {
			t.Errorf("%v: exit status %d, %s", args, status, &progress)
		}
	}
}

// TestChanges: a ratio that fell is a negative change, and results without a peer are left
// out.
func TestChanges(t *testing.T) {
	before := []bench.SpeedResult{{What: "pin", PeerName: "C", Ratio: 2}, {What: "pin", Ratio: 0}, {What: "copy", PeerName: "C", Ratio: 1}}
	after := []bench.SpeedResult{{What: "pin", PeerName: "C", Ratio: 1.5}, {What: "pin", Ratio: 0}, {What: "copy", PeerName: "C", Ratio: 1.1}}
	got := changes(before, after)
	if len(got) != 2 || got[0].By != -0.25 || got[0].What != "pin beside C" || got[1].By < 0.099 {
		t.Errorf("got %+v", got)
	}
}

// TestGroups: the figures of a kind are compared by their median.
func TestGroups(t *testing.T) {
	all := []change{{What: "page-lock 1", By: -0.5}, {What: "page-lock 2", By: 0.01}, {What: "page-lock 3", By: 0.3}, {What: "plain slice in", By: -0.1}, {What: "other"}}
	got := groups(all)
	if len(got) != 2 || got[0] != (group{"page-locking", 3, 0.01, -0.5, 0.3}) || got[1] != (group{"staging", 1, -0.1, -0.1, -0.1}) {
		t.Errorf("got %+v", got)
	}
}

// TestServe: a new process answers with two times for each request.
func TestServe(t *testing.T) {
	for _, what := range []string{"pin", "cached"} {
		var out bytes.Buffer
		o := &settings{device: "soft", serve: what}
		if err := o.asNewProcess(strings.NewReader("1048576\n4096\n"), &out); err != nil {
			t.Fatal(err)
		}
		var a, b, c, d float64
		if n, err := fmt.Sscanf(out.String(), "%f %f\n%f %f\n", &a, &b, &c, &d); n != 4 || a <= 0 || c <= 0 {
			t.Errorf("%s: %q, error %v", what, &out, err)
		}
		if err := o.asNewProcess(strings.NewReader("much\n"), &out); err == nil {
			t.Errorf("%s: no error for a request that is no number", what)
		}
	}
}
