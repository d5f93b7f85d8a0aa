package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/internal/bench/grid"
)

var benchCommand = command{
	name:    "bench",
	summary: "measure the time of single operations: copies, kernels, allocations",
	usage:   "bench [--device D] [--set SET] [--only TEXT] [--against FILES] ...",
	run:     benchmark,
	help: `Measures single operations by kind and size, from their submission until the
host knows that they are done: copies of every kind of memory in both
directions, fills, kernels on device memory and over the link, launches, events,
allocation, page-locking, and managed memory that moves. A time is the median of
up to 28 samples, taken in four passes. On a software GPU the times are
predictions from a profile.

flags:
  --set SET    "operations", which is the default, or "patterns". Patterns are
               kernels by how they access memory, gathers, atomics, arithmetic,
               copies of rows, many small operations, graphs, copies that share
               the link, managed memory with advice, and the CPU's accesses
  --only TEXT  only kinds whose name contains TEXT, like "pinned" or "managed"
  --against FILE,...
               compare the times with those in FILE, which "bench --json" wrote,
               or with the medians of several files. Of the operations, only the
               half that profiles are not fitted to is measured. JSON schema
               ferry.accuracy/1; for patterns ferry.families/1
  --read FILE,...
               read the times from FILE instead of measuring them
  --cases      with --set patterns and --against: print each case, except those
               that are held out
  --json       one JSON document, schema ferry.grid/1; times in nanoseconds
  --device D   which device

` + deviceHelp,
}

// benchFlags are the flags of "ferry bench".
type benchFlags struct {
	device, only, against, read string
	set                         grid.Set
	cases, json                 bool
}

func parseBench(args []string) (b benchFlags, err error) {
	f := newFlags("bench")
	device, asJSON := deviceFlag(f), jsonFlag(f)
	f.StringVar(&b.only, "only", "", "")
	f.StringVar(&b.against, "against", "", "")
	f.StringVar(&b.read, "read", "", "")
	f.BoolVar(&b.cases, "cases", false, "")
	set := f.String("set", "operations", "")
	words, err := parse(f, args)
	if err != nil {
		return b, err
	}
	if err := noWords(words); err != nil {
		return b, err
	}
	b.device, b.json = *device, *asJSON
	switch *set {
	case "operations":
	case "patterns":
		b.set = grid.Patterns
	default:
		return b, badUsage("--set %q: the sets are operations and patterns", *set)
	}
	if b.cases && (b.set != grid.Patterns || b.against == "") {
		return b, badUsage("--cases needs --set patterns and --against")
	}
	if !b.someKind() {
		return b, badUsage("--only %q: no kind has that in its name; the kinds are %s", b.only, strings.Join(b.set.Kinds(), "; "))
	}
	return b, nil
}

func (b *benchFlags) someKind() bool {
	return slices.ContainsFunc(b.set.Cases(), b.matches)
}

// matches reports whether --only accepts a case, by its kind or its family.
func (b *benchFlags) matches(c grid.Case) bool {
	return strings.Contains(c.Kind, b.only) || strings.Contains(c.Family(), b.only)
}

// wants returns which cases to measure. Of operations, only those for tests can be compared.
func (b *benchFlags) wants(other *grid.Result) func(grid.Case) bool {
	if other == nil {
		return b.matches
	}
	has := map[grid.Case]bool{}
	for _, p := range other.Points {
		has[p.Case] = b.set == grid.Patterns || p.Test()
	}
	return func(c grid.Case) bool { return has[c] && b.matches(c) }
}

func benchmark(ctx context.Context, s *session) error {
	b, err := parseBench(s.args)
	if err != nil {
		return err
	}
	var other *grid.Result
	if b.against != "" {
		if other, err = readGrids(b.against); err != nil {
			return err
		}
	}
	if b.read != "" {
		r, err := readGrids(b.read)
		if err != nil {
			return err
		}
		return s.writeBench(&b, r, other)
	}
	g, err := s.open(b.device)
	if err != nil {
		return err
	}
	p := newProgress(s.stderr)
	r, err := grid.Measure(ctx, g, &grid.Options{
		Set:      b.set,
		Only:     b.wants(other),
		Progress: func(done, total int, next grid.Case) { p.say("%v (%d of %d)", next, done+1, total) },
	})
	p.done()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if r == nil || len(r.Points) == 0 {
		return firstError(err, g.Close())
	}
	return firstError(s.writeBench(&b, r, other), err, g.Close())
}

// writeBench writes the times, or how they differ from the others.
func (s *session) writeBench(b *benchFlags, r, other *grid.Result) error {
	switch {
	case other == nil:
		return s.writeDocument(r, b.json)
	case b.set == grid.Operations:
		return s.writeDocument(grid.Compare(r, other), b.json)
	}
	f := grid.CompareFamilies(r, other)
	if b.cases && !b.json {
		return s.write([]byte(f.CasesText()))
	}
	return s.writeDocument(f, b.json)
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
