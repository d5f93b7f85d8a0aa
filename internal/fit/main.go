package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/ferrygpu/ferry/internal/bench"
	"github.com/ferrygpu/ferry/internal/bench/grid"
	"github.com/ferrygpu/ferry/profile"
)

func main() {
	path := flag.String("profile", "profile/h200.json", "the profile to fit; it is overwritten")
	rounds := flag.Int("rounds", 3, "how often all numbers and curves are fitted")
	only := flag.String("only", "", "fit only fields whose path begins with this, such as \"managed.\"")
	late := flag.String("late", "", "a machine that is used only for cases that the others lack")
	flag.Parse()
	machines := flag.Args()
	if len(machines) == 0 {
		machines, *late = ours, oursLate
	}
	if err := run(context.Background(), *path, *only, *rounds, machines, *late); err != nil {
		fmt.Fprintln(os.Stderr, "fit:", err)
		os.Exit(1)
	}
}

// ours are the machines to which profile/h200.json is fitted, as paths from the root of the
// repository. Machine e was kept for testing. It is oursLate, because it has cases that the
// grid did not measure before.
var ours = []string{
	"docs/results/grid-h200-a[123].json", "docs/results/grid-h200-b[123].json",
	"docs/results/grid-h200-c[12].json", "docs/results/grid-h200-d[123].json",
	"docs/results/compare-h200-1.json", "docs/results/compare-h200-2.json", "docs/results/compare-h200-3.json",
}

const oursLate = "docs/results/grid-h200-e1.json"

func run(ctx context.Context, path, only string, rounds int, machines []string, late string) error {
	measured, err := read(machines, late)
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
	f := &fitter{p: p, measured: measured, only: only}
	if err := f.fit(ctx, rounds); err != nil {
		return err
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

func (f *fitter) fit(ctx context.Context, rounds int) error {
	f.reset()
	for range rounds {
		if err := f.round(ctx); err != nil {
			return err
		}
	}
	return nil
}

// read returns the median over the machines of each case for fitting. The value of a machine
// is the median over its files. A machine is given by a pattern of file names.
func read(machines []string, late string) (map[grid.Case]float64, error) {
	all := map[grid.Case][]float64{}
	for _, pattern := range machines {
		one, err := readMachine(pattern)
		if err != nil {
			return nil, err
		}
		for c, ns := range one {
			all[c] = append(all[c], ns)
		}
	}
	known := map[grid.Case]bool{}
	for c := range all {
		known[c] = true
	}
	if late != "" {
		one, err := readMachine(late)
		if err != nil {
			return nil, err
		}
		for c, ns := range one {
			if !known[c] {
				all[c] = append(all[c], ns)
			}
		}
	}
	return medians(all), nil
}

func readMachine(pattern string) (map[grid.Case]float64, error) {
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no such files", pattern)
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
			return nil, fmt.Errorf("%s has predictions, not measurements", name)
		}
		for _, x := range r.Points {
			if x.Fits() {
				all[x.Case] = append(all[x.Case], x.Median)
			}
		}
	}
	return medians(all), nil
}

func medians(all map[grid.Case][]float64) map[grid.Case]float64 {
	out := map[grid.Case]float64{}
	for c, times := range all {
		slices.Sort(times)
		n := len(times)
		out[c] = (times[(n-1)/2] + times[n/2]) / 2
	}
	return out
}
