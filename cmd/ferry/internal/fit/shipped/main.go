package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/fit"
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
	measured, err := fit.Read(machines, late)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	fitted, err := fit.Anew(ctx, text, measured, rounds, only)
	if err != nil {
		return err
	}
	return os.WriteFile(path, fitted, 0o644)
}
