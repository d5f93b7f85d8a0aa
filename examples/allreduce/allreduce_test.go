package main

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/nccl"
)

// TestTrain: three ranks of this process find the true weights, and have the same ones.
func TestTrain(t *testing.T) {
	gpus, err := ferry.OpenAll("soft:h200*3")
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	comms, err := nccl.OpenAll(ctx, gpus, nil)
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		weights []float32
		err     error
	}
	results := make(chan result)
	for _, c := range comms {
		go func() {
			w, err := train(ctx, c, 60)
			results <- result{w, errors.Join(err, c.Close())}
		}()
	}
	var first []float32
	for range comms {
		r := <-results
		if r.err != nil {
			t.Fatal(r.err)
		}
		if first == nil {
			first = r.weights
		}
		if !slices.Equal(first, r.weights) {
			t.Errorf("ranks have %v and %v", first, r.weights)
		}
	}
	for j, w := range first {
		if e := w - truth(j); e > 0.01 || e < -0.01 {
			t.Errorf("weight %d is %v, want %v", j, w, truth(j))
		}
	}
}

// TestAlone: without a launcher the program is the only rank.
func TestAlone(t *testing.T) {
	t.Setenv("FERRY_DEVICE", "soft")
	if err := run(context.Background(), 3); err != nil {
		t.Error(err)
	}
}
