package soak

import (
	"context"
	"flag"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

var rounds = flag.Int("rounds", sample.Count(2000, 4000), "how many tasks")

// TestSoak: all tasks end as they must, and nothing grows.
func TestSoak(t *testing.T) {
	g, err := ferry.Open("")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	report, err := Run(context.Background(), g, Options{Rounds: *rounds, Legs: 8, Seed: sample.Rand(t).Uint64(), Progress: func(h Health) { t.Logf("%+v", h) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d rounds, %d elements verified, %d cancelled; %v", report.Rounds, report.Verified, report.Cancelled, report.Tasks)
	if err := report.Flat(); err != nil {
		t.Error(err)
	}
	if report.Rounds != *rounds || report.Verified == 0 {
		t.Errorf("%d rounds, %d elements verified", report.Rounds, report.Verified)
	}
}
