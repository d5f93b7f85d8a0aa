package bench

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
)

// TestContest checks that entrants take turns, that the first round does not count, and
// that the results are medians.
func TestContest(t *testing.T) {
	var turns []string
	take := func(name string, of ...float64) entrant {
		return entrant{name, func() ([]float64, error) {
			turns = append(turns, name)
			ns := of[0]
			of = of[1:]
			return []float64{ns, 2 * ns}, nil
		}}
	}
	c := contest{
		rows:     []figure{{5, "time", 0, 0.5}, {5, "rate", 1000, 0.9}},
		entrants: []entrant{take("", 1e6, 10, 40, 20), take("C", 1e6, 10, 10, 10)},
	}
	got, err := c.run(3)
	if err != nil {
		t.Fatal(err)
	}
	want := []SpeedResult{
		{Target: 5, What: "time", Unit: "ns", Ferry: 20, PeerName: "C", Peer: 10, Ratio: 0.5, GoalRatio: 0.5, Goal: 20, Met: true, Samples: 3, MAD: 10},
		{Target: 5, What: "rate", Unit: "bytes_per_s", Ferry: 2.5e10, PeerName: "C", Peer: 5e10, Ratio: 0.5, GoalRatio: 0.9, Goal: 4.5e10, Samples: 3, MAD: 1.25e10},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	for i := 0; i < len(turns); i += 2 {
		if turns[i] == turns[i+1] {
			t.Errorf("an entrant took two samples in a round: %q", turns)
		}
	}
}

// TestContestOfMethods checks that each of several entrants of Ferry is compared with each
// peer, and that the goal may depend on the peer.
func TestContestOfMethods(t *testing.T) {
	take := func(name string, ns float64) entrant {
		return entrant{name, func() ([]float64, error) { return []float64{ns}, nil }}
	}
	c := contest{
		rows:     []figure{{4, "plain", 0, 0.5}, {4, "in place", 100, 0.25}},
		entrants: []entrant{take("", 10), take("", 20), take("C", 40), take("limit", 5)},
		repeats:  2,
		goal: func(r figure, peer string) float64 {
			if peer == "limit" {
				return r.goal
			}
			return 0
		},
	}
	got, err := c.run(1)
	if err != nil {
		t.Fatal(err)
	}
	want := []SpeedResult{
		{Target: 4, What: "plain", Unit: "ns", Ferry: 10, PeerName: "C", Peer: 40, Ratio: 4, Met: true, Samples: 2},
		{Target: 4, What: "plain", Unit: "ns", Ferry: 10, PeerName: "limit", Peer: 5, Ratio: 0.5, GoalRatio: 0.5, Goal: 10, Met: true, Samples: 2},
		{Target: 4, What: "in place", Unit: "bytes_per_s", Ferry: 5e9, PeerName: "C", Peer: 2.5e9, Ratio: 2, Met: true, Samples: 2},
		{Target: 4, What: "in place", Unit: "bytes_per_s", Ferry: 5e9, PeerName: "limit", Peer: 20e9, Ratio: 0.25, GoalRatio: 0.25, Goal: 5e9, Met: true, Samples: 2},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if some, err := runAll([]contest{c, {rows: c.rows, entrants: c.entrants[:1]}, c}, 1); err == nil || !slices.Equal(some, want) {
		t.Errorf("the second contest fails: %+v, %v", some, err)
	}
	c.entrants = c.entrants[:2]
	if got, err := c.run(1); err != nil || len(got) != 2 || got[0].Ferry != 10 || got[1].Ferry != 5e9 || got[0].PeerName != "" || got[0].GoalRatio != 0 {
		t.Errorf("without peers: %+v, %v", got, err)
	}
}

// TestContestRefuses checks that an invalid sample ends the contest with an error that names
// the entrant.
func TestContestRefuses(t *testing.T) {
	for _, bad := range []func() ([]float64, error){
		func() ([]float64, error) { return nil, errors.New("no link") },
		func() ([]float64, error) { return []float64{1}, nil },
		func() ([]float64, error) { return []float64{1, 0}, nil },
	} {
		good := func() ([]float64, error) { return []float64{1, 1}, nil }
		rows := []figure{{what: "copy"}, {what: "back"}, {what: "fill"}, {what: "clear"}}
		for want, entrants := range map[string][]entrant{"copy by C: ": {{"", good}, {"", good}, {"C", bad}}, "fill: ": {{"", good}, {"", bad}}} {
			_, err := contest{rows: rows, entrants: entrants}.run(1)
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
	}
}

// TestRigChecks checks that a rig finds wrong bytes and wrong sums, and poisons destinations.
func TestRigChecks(t *testing.T) {
	g := open(t, "soft")
	const n = 1 << 16
	r, err := newRig(g, n)
	defer func() {
		if err := r.undo.close(); err != nil {
			t.Error(err)
		}
	}()
	if err != nil {
		t.Fatal(err)
	}
	spoil := func(what string, sample func() error, check func() error, at int) {
		t.Helper()
		if err := errors.Join(sample(), check()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		r.b.Slice()[at] ^= 1
		if err := check(); !errors.Is(err, errDiffer) {
			t.Errorf("%s with byte %d spoiled: %v", what, at, err)
		}
	}
	spoil("copy", func() error { _, err := r.sampleCopy(n); return err }, func() error { return r.check(n) }, n-1)
	spoil("sum", func() error { _, err := r.sampleSum(r.b.Range(0, n/2), n/2); return err }, func() error { return r.checkSum(n / 2) }, n/2-2)
	if err := r.fresh(n); err != nil {
		t.Fatal(err)
	}
	poison := bytes.Repeat([]byte{poisoned}, n)
	for _, m := range []ferry.Memory[byte]{r.b, r.d} {
		got := make([]byte, n)
		if err := ferry.Copy(r.s, ferry.Pageable(got), m); err != nil || !bytes.Equal(got, poison) {
			t.Errorf("a destination is not poisoned; error %v", err)
		}
	}
	if err := r.check(n); !errors.Is(err, errDiffer) {
		t.Errorf("no copy was made: %v", err)
	}
	if err := r.checkDevice(r.d, n); !errors.Is(err, errDiffer) {
		t.Errorf("no copy to the device was made: %v", err)
	}
	before := slices.Clone(r.a.Slice())
	if err := r.fresh(n); err != nil || slices.Equal(before[:pageBytes], r.a.Slice()[:pageBytes]) {
		t.Errorf("the source has not changed; error %v", err)
	}
	x := &prefetching{r: r}
	if x.m, err = ferry.AllocManaged[float32](g, 1000, nil); err != nil {
		t.Fatal(err)
	}
	defer x.m.Close()
	if err := x.check(); !errors.Is(err, errDiffer) {
		t.Errorf("managed memory that was never written: %v", err)
	}
}
