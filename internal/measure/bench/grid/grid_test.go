package grid

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

func open(t *testing.T, name string) *ferry.GPU {
	t.Helper()
	g, err := ferry.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func small(c Case) bool { return c.Size <= 16*kib }

// TestMeasure checks that every kind that a machine has is measured, and that a second run
// has the same times. Without FERRY_FULL=1 the smallest case of each kind is.
func TestMeasure(t *testing.T) {
	for device, managed := range map[string]bool{"soft:h200": true, "soft:fermi-c2050": false} {
		measure := func() *Result {
			r, err := Measure(t.Context(), open(t, device), &Options{Only: func(c Case) bool { return small(c) && (sample.Full() || quick(c)) }})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		r := measure()
		seen := map[string]bool{}
		for _, p := range r.Points {
			seen[p.Kind] = true
			if p.Median < 0 || p.Samples != 1 || !r.Predicted {
				t.Errorf("%s: got %+v", device, p)
			}
		}
		for _, k := range Operations.Kinds() {
			lacks := !managed && (strings.HasPrefix(k, "managed") || strings.HasPrefix(k, "pool") || strings.Contains(k, "regist") || k == "copy host to host" || strings.HasPrefix(k, "graph "))
			if seen[k] == lacks {
				t.Errorf("%s: %s: measured is %v", device, k, seen[k])
			}
		}
		if again := measure(); !reflect.DeepEqual(again.Points, r.Points) {
			t.Errorf("%s: a second run has other times", device)
		}
		text, err := r.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := Parse(text); err != nil || !reflect.DeepEqual(back, r) {
			t.Errorf("%s: parsed JSON: got %+v, %v", device, back, err)
		}
		if _, err := Parse([]byte(`{"schema":"ferry.grid/0"}`)); err == nil {
			t.Error("another schema was accepted")
		}
	}
}

func TestMeasureEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, err := Measure(ctx, open(t, "soft"), &Options{Only: small, Progress: func(done, _ int, _ Case) {
		if done == 3 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || len(r.Points) != 3 {
		t.Errorf("got %d points, %v", len(r.Points), err)
	}
}

// TestHalves checks that nearly half of the cases are for tests, and at least two of each
// kind with many sizes.
func TestHalves(t *testing.T) {
	test, byKind := 0, map[string][2]int{}
	for _, c := range Operations.Cases() {
		n := byKind[c.Kind]
		if c.Test() {
			test++
			n[1]++
		} else {
			n[0]++
		}
		byKind[c.Kind] = n
	}
	if all := len(Operations.Cases()); test < all*45/100 || test > all*55/100 {
		t.Errorf("%d of %d cases are for tests", test, all)
	}
	for k, n := range byKind {
		if n[0]+n[1] > 8 && min(n[0], n[1]) < 2 {
			t.Errorf("%s: %d cases to fit, %d to test", k, n[0], n[1])
		}
	}
}

// TestOlderNames: results of older versions have the names of today, and the same cases as
// before are for tests.
func TestOlderNames(t *testing.T) {
	for now, older := range olderNames {
		text := `{"schema":"` + Schema + `","points":[{"kind":"` + older + `","size":4096,"median_ns":1}],
			"skipped":[{"kind":"` + older + `"}],"left_out":[{"kind":"` + older + `","size":8192}]}`
		r, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{r.Points[0].Kind, r.Skipped[0].Kind, r.LeftOut[0].Kind} {
			if kind != now || kindOf(Case{Kind: kind}).make == nil {
				t.Errorf("%q is read as %q, want %q", older, kind, now)
			}
		}
		for _, n := range kindOf(Case{Kind: now}).sizes {
			if a, b := (Case{now, n}).Test(), (Case{older, n}).Test(); a != b {
				t.Errorf("%s of %d: for tests is %v, with the older name %v", now, n, a, b)
			}
		}
	}
}
