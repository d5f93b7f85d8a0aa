package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/ferrygpu/ferry/internal/bench/grid"
)

var benchCommand = command{
	name:    "bench",
	summary: "measure the time of single operations: copies, kernels, allocations",
	usage:   "bench [--device D] [--only TEXT] [--against FILES] [--json]",
	run:     benchmark,
	help: `Measures single operations by kind and size, from their submission until the
host knows that they are done: copies of every kind of memory in both
directions, fills, kernels on device memory and over the link, launches, events,
allocation, page-locking, and managed memory that moves. A time is the median of
up to 28 samples, taken in four passes. On a software GPU the times are
predictions from a profile.

flags:
  --only TEXT  only kinds whose name contains TEXT, like "pinned" or "managed"
  --against FILE,...
               compare the times with those in FILE, which "bench --json" wrote,
               or with the medians of several files. Only the half of the cases
               that profiles are not fitted to is measured. JSON schema
               ferry.accuracy/1
  --json       one JSON document, schema ferry.grid/1; times in nanoseconds
  --device D   which device

` + deviceHelp,
}

func benchmark(ctx context.Context, s *session) error {
	f := newFlags("bench")
	device, asJSON := deviceFlag(f), jsonFlag(f)
	only, against := f.String("only", "", ""), f.String("against", "", "")
	words, err := parse(f, s.args)
	if err != nil {
		return err
	}
	if err := noWords(words); err != nil {
		return err
	}
	if !someKind(*only) {
		return badUsage("--only %q: no kind has that in its name; the kinds are %s", *only, strings.Join(grid.Kinds(), "; "))
	}
	var other *grid.Result
	if *against != "" {
		if other, err = readGrids(*against); err != nil {
			return err
		}
	}
	g, err := s.open(*device)
	if err != nil {
		return err
	}
	p := newProgress(s.stderr)
	r, err := grid.Measure(ctx, g, &grid.Options{
		Only:     func(c grid.Case) bool { return strings.Contains(c.Kind, *only) && (other == nil || c.Test()) },
		Progress: func(done, total int, next grid.Case) { p.say("%v (%d of %d)", next, done+1, total) },
	})
	p.done()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if r == nil || len(r.Points) == 0 {
		return firstError(err, g.Close())
	}
	var data document = r
	if other != nil {
		data = grid.Compare(r, other)
	}
	return firstError(s.writeDocument(data, *asJSON), err, g.Close())
}

// document is a result that can be written as text or as JSON.
type document interface {
	Text() string
	JSON() ([]byte, error)
}

func (s *session) writeDocument(d document, asJSON bool) error {
	text := []byte(d.Text())
	if asJSON {
		var err error
		if text, err = d.JSON(); err != nil {
			return err
		}
	}
	return s.write(text)
}

// readGrids reads one or several files that "ferry bench --json" wrote, separated by
// commas. It returns the medians of several files.
func readGrids(paths string) (*grid.Result, error) {
	var all []*grid.Result
	for path := range strings.SplitSeq(paths, ",") {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		r, err := grid.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, r)
	}
	return grid.Merge(all...), nil
}

func someKind(part string) bool {
	for _, k := range grid.Kinds() {
		if strings.Contains(k, part) {
			return true
		}
	}
	return false
}
