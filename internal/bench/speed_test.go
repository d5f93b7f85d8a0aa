package bench

import "testing"

// shell is a peer that a line of a shell plays.
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
