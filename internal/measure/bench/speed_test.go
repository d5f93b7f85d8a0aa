package bench

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// shell returns a peer that a shell script implements.
func shell(name, script string) Peer { return Peer{name, []string{"sh", "-c", script}} }

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		unit        string
		ferry, goal float64
		met         bool
		ratio       float64
	}{
		{"ns", 50, 100, true, 4}, {"ns", 200, 100, false, 1}, {"bytes_per_s", 50, 100, false, 0.25}, {"bytes_per_s", 400, 100, true, 2}, {"ns", 1e9, 0, true, 2e-7},
	} {
		got := SpeedResult{Unit: c.unit, Ferry: c.ferry, Peer: 200, Goal: c.goal}.judge()
		if got.Met != c.met || got.Ratio != c.ratio {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// exampleReport returns a report with a result of each kind.
func exampleReport() *SpeedReport {
	r := &SpeedReport{Schema: SpeedSchema, Machine: map[string]string{"device": "NVIDIA H200", "commit": "0123abc"}}
	for _, x := range []SpeedResult{
		{Target: 1, What: "page-locked to device, 1 GiB", Unit: "bytes_per_s", Ferry: 55.25e9, PeerName: "C", Peer: 55.375e9, GoalRatio: 0.995, Samples: 9, MAD: 1e7, PeerMAD: 2e7},
		{Target: 6, What: "event record", Unit: "ns", Ferry: 300, PeerName: "C", Peer: 150, GoalRatio: 0.75, Samples: 9, MAD: 4},
		{Target: 6, What: "event query", Unit: "ns", Ferry: 31.25, GoalRatio: 0.75, Samples: 9},
		{Target: 3, What: "page-lock 4 GiB", Unit: "bytes_per_s", Ferry: 34.5e9, Goal: 28e9, Samples: 9},
		{What: "CopyAll in, 1024 of 4 KiB", Unit: "ns", Ferry: 340e3, PeerName: "C, a loop", Peer: 2.5e6, Samples: 9},
		{Target: 2, What: "by powers of two: plain slice of 1 bytes in", Unit: "ns", Ferry: 7250, PeerName: driverHere, Peer: 7300, GoalRatio: sizesGoal, Samples: 99},
		{Target: 2, What: "by powers of two: plain slice of 1 bytes in", Unit: "ns", Ferry: 7250, PeerName: driverInC, Peer: 6500, GoalRatio: sizesGoal, Samples: 99},
		{Target: 2, What: "by powers of two: plain slice of 1 bytes out", Unit: "ns", Ferry: 8500, PeerName: driverHere, Peer: 8600, GoalRatio: sizesGoal, Samples: 99},
		{Target: 2, What: "by powers of two: plain slice of 33554432 bytes in", Unit: "ns", Ferry: 2e6, PeerName: driverHere, Peer: 4e6, GoalRatio: sizesGoal, Samples: 9},
	} {
		r.Results = append(r.Results, x.judge())
	}
	return r
}

// TestSpeedReport compares the table and the document with golden files. With
// FERRY_UPDATE=1 it rewrites them.
func TestSpeedReport(t *testing.T) {
	r := exampleReport()
	out := filepath.Join(t.TempDir(), "speed.json")
	if err := r.Write(out); err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for path, got := range map[string]string{"testdata/speed.json": string(document), "testdata/speed.txt": r.Text()} {
		if os.Getenv("FERRY_UPDATE") == "1" {
			if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
		}
	}
}

// TestSizesAlone checks that there is no empty table above the table of sizes.
func TestSizesAlone(t *testing.T) {
	r := exampleReport()
	r.Results = slices.DeleteFunc(r.Results, func(x SpeedResult) bool { _, ok := x.ofSizes(); return !ok })
	if got := r.Text(); !strings.HasPrefix(got, "Copies of slices") || !strings.Contains(exampleReport().Text(), "\n\n"+got) {
		t.Errorf("got\n%s", got)
	}
}

func TestSizeText(t *testing.T) {
	for n, want := range map[int]string{0: "0 bytes", 1000: "1000 bytes", 1536: "1536 bytes", 51200: "50 KiB", 1 << 30: "1 GiB", 1 << 43: "8192 GiB"} {
		if got := sizeText(n); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
}
