package main

import (
	"context"
	"strings"

	"github.com/ferrygpu/ferry/bench/grid"
)

var benchCommand = command{
	name:    "bench",
	summary: "measure what single operations cost: copies, kernels, allocations",
	usage:   "bench [--device D] [--only TEXT] [--json]",
	run:     benchmark,
	help: `Measures single operations by kind and size, from their submission until the
host knows that they are done: copies of every kind of memory in both
directions, fills, kernels on device memory and over the link, launches, events,
allocation, page-locking, and managed memory that moves. The median of up to 25
samples counts. On a software GPU the times are predictions from a profile.

flags:
  --only TEXT  only kinds whose name contains TEXT, as "pinned" or "managed"
  --json       one JSON document, schema ferry.grid/1; times in nanoseconds
  --device D   which device

` + deviceHelp,
}

func benchmark(ctx context.Context, s *session) error {
	f := newFlags("bench")
	device, asJSON := deviceFlag(f), jsonFlag(f)
	only := f.String("only", "", "")
	words, err := parse(f, s.args)
	if err != nil {
		return err
	}
	if err := noWords(words); err != nil {
		return err
	}
	if !someKind(*only) {
		return badUsage("--only %q: no kind has that in its name; there are %s", *only, strings.Join(grid.Kinds(), "; "))
	}
	g, err := s.open(*device)
	if err != nil {
		return err
	}
	p := newProgress(s.stderr)
	r, err := grid.Measure(ctx, g, &grid.Options{
		Only:     func(c grid.Case) bool { return strings.Contains(c.Kind, *only) },
		Progress: func(done, total int, next grid.Case) { p.say("%v (%d of %d)", next, done+1, total) },
	})
	p.done()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if r == nil || len(r.Points) == 0 {
		return firstError(err, g.Close())
	}
	text := []byte(r.Text())
	if *asJSON {
		var failed error
		if text, failed = r.JSON(); failed != nil {
			return failed
		}
	}
	return firstError(s.write(text), err, g.Close())
}

func someKind(part string) bool {
	for _, k := range grid.Kinds() {
		if strings.Contains(k, part) {
			return true
		}
	}
	return false
}
