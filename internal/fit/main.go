package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"slices"

	"github.com/ferrygpu/ferry/bench"
	"github.com/ferrygpu/ferry/bench/grid"
	"github.com/ferrygpu/ferry/profile"
)

func main() {
	path := flag.String("profile", "profile/h200.json", "the profile to fit, which is written back")
	rounds := flag.Int("rounds", 3, "how often all numbers and curves are gone through")
	only := flag.String("only", "", "fit only what begins with this, as \"managed.\"")
	flag.Parse()
	if err := run(context.Background(), *path, *only, *rounds, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "fit:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, path, only string, rounds int, files []string) error {
	measured, err := read(files)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	p, err := profile.Parse(text)
	if err != nil {
		return err
	}
	// Their other pieces are fitted only where the services are known at all.
	p.Managed.DeviceService.Batch.Source, p.Managed.HostService.Batch.Source = fitSource, fitSource
	f := &fitter{p: p, measured: measured, only: only}
	for round := range rounds {
		if err := f.round(ctx, round); err != nil {
			return err
		}
	}
	fitted, err := rewrite(text, f.results())
	if err != nil {
		return err
	}
	if _, err := profile.Parse(fitted); err != nil {
		return err
	}
	return os.WriteFile(path, fitted, 0o644)
}

// read is the median of each case for fitting over the files.
func read(files []string) (map[grid.Case]float64, error) {
	if len(files) == 0 {
		return nil, fmt.Errorf("name the measurements to fit to")
	}
	all := map[grid.Case][]float64{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if bytes.Contains(text, []byte(bench.Schema)) {
			if err := readSteps(text, all); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			continue
		}
		r, err := grid.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if r.Predicted {
			return nil, fmt.Errorf("%s is a prediction", name)
		}
		for _, x := range r.Points {
			if !x.Test() {
				all[x.Case] = append(all[x.Case], x.Median)
			}
		}
	}
	out := map[grid.Case]float64{}
	for c, times := range all {
		slices.Sort(times)
		n := len(times)
		out[c] = (times[(n-1)/2] + times[n/2]) / 2
	}
	return out, nil
}
