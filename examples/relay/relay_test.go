package main

import (
	"context"
	"errors"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/nccl"
)

// TestRelay: frames pass three ranks of this process, each of which adds 1.
func TestRelay(t *testing.T) {
	gpus, err := ferry.OpenAll("soft:h200*3")
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	comms, err := nccl.OpenAll(ctx, gpus, nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	for _, c := range comms {
		go func() {
			results, err := relay(ctx, c, 5)
			for f, got := range results {
				if want := float32(100*f + 3); got != want {
					t.Errorf("frame %d: got %v, want %v", f, got, want)
				}
			}
			if c.Rank() == 2 && len(results) != 5 {
				t.Errorf("the last rank has %d results", len(results))
			}
			done <- errors.Join(err, c.Close())
		}()
	}
	for range comms {
		if err := <-done; err != nil {
			t.Error(err)
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
