package main

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ferrygpu/ferry"
)

// TestRun: two GPUs get the same network, and compute what the CPU does, bit by bit.
func TestRun(t *testing.T) {
	gpus, err := ferry.OpenAll("soft:h200*2")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range gpus {
		t.Cleanup(func() { _ = g.Close() })
	}
	path := filepath.Join(t.TempDir(), "network.safetensors")
	if err := save(context.Background(), gpus[0], path); err != nil {
		t.Fatal(err)
	}
	results, err := runAll(context.Background(), gpus, path)
	if err != nil || len(results) != 2 {
		t.Fatalf("%d results, error %v", len(results), err)
	}
	want := onCPU()
	for i, got := range results {
		if !slices.Equal(got, want) {
			t.Errorf("%v: %v, want %v", gpus[i], got, want)
		}
	}
	if slices.Max(want) <= 0 || slices.Min(want) == slices.Max(want) {
		t.Errorf("the network says nothing: %v", want)
	}
}

// onCPU computes the network. All sums are exact in float64.
func onCPU() []float32 {
	x := input()
	for i := 1; i < len(widths); i++ {
		w, b := values(weightName(i), widths[i]*widths[i-1]), values(biasName(i), widths[i])
		y := make([]float32, widths[i])
		for row := range y {
			sum := float64(b[row])
			for k, v := range x {
				sum += float64(w[row*len(x)+k]) * float64(v)
			}
			y[row] = float32(max(sum, 0))
		}
		x = y
	}
	return x
}

// TestAlone: without an argument the program makes the file itself.
func TestAlone(t *testing.T) {
	t.Setenv("FERRY_DEVICE", "soft:h200*2")
	if err := run(context.Background(), ""); err != nil {
		t.Error(err)
	}
}
