package main

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry/internal/bench"
)

// compareOptions are the flags of "ferry compare".
type compareOptions struct {
	device   string
	min, max int // exponents of the sizes
	json     bool
}

// newCompare returns the command "ferry compare".
func newCompare(s *session) *cobra.Command {
	o := &compareOptions{}
	c := &cobra.Command{
		Use:   "compare [--device D] [--min 10] [--max 22] [--html FILE] [--json]",
		Short: "measure vector addition with every kind of host memory",
		Long: `Adds vectors of 2^min to 2^max floats, c = a + b, with every kind of memory.
A time covers the whole step, from its submission until the CPU can see c:

  pageable        pageable memory: a and b copied in, kernel, c copied out
  pinned          the same with page-locked memory, queued on one stream
  write-combined  like pinned, with a and b in write-combined memory
  zero-copy       the kernel reads and writes page-locked memory over the link;
                  with "in" it only reads over the link, and c is copied out
  managed         managed memory that moves on demand: the CPU wrote a and b,
                  and reads a word of every page of c
  prefetched      managed memory moved before the kernel, and c moved back after
  kernel alone    the vectors are on the device already; never marked as best

Inputs are new for every sample, and all results are verified. The kinds are
measured in random order, and a time is a median. The CPU has just written the
inputs, so small ones are still in its caches. Kinds that the device lacks are
"-", in JSON null. On a software GPU the times are predictions from a profile.
`,
		Example: "  ferry compare\n  ferry compare --device soft:fermi-c2050 --max 14\n  ferry compare --device cuda --json >mine.json",
		Args:    noWords,
		RunE:    func(c *cobra.Command, _ []string) error { return compare(c.Context(), s, o) },
	}
	c.Flags().IntVar(&o.min, "min", 10, "smallest size, 2^`E` floats")
	c.Flags().IntVar(&o.max, "max", 22, "largest size, 2^`E` floats")
	htmlFlag(c, s)
	jsonFlag(c, &o.json, "schema ferry.compare/1; times in nanoseconds")
	deviceFlag(c, &o.device)
	return c
}

// compare implements "ferry compare".
func compare(ctx context.Context, s *session, o *compareOptions) error {
	if o.min < bench.MinExponent || o.max > bench.MaxExponent || o.min > o.max {
		return badUsage("--min %d --max %d: want %d <= min <= max <= %d", o.min, o.max, bench.MinExponent, bench.MaxExponent)
	}
	g, err := s.open(o.device)
	if err != nil {
		return err
	}
	p := newProgress(s.stderr)
	c, err := bench.Compare(ctx, g, &bench.Options{
		Min: o.min, Max: o.max,
		Progress: func(done, total, elements int) {
			p.step(done, total, fmt.Sprintf("comparing 2^%d floats", bits.Len(uint(elements))-1))
		},
	})
	p.done()
	if ctx.Err() != nil && c != nil {
		c.Rows = wholeRows(c.Rows)
	}
	if c == nil || len(c.Rows) == 0 {
		return s.measured(ctx, err, g, nil, o.json)
	}
	return s.measured(ctx, err, g, comparison{c, colour(s.stdout)}, o.json)
}

// wholeRows returns rows without the last if that was interrupted before it was verified.
func wholeRows(rows []bench.Row) []bench.Row {
	if n := len(rows); n > 0 && !rows[n-1].Verified {
		return rows[:n-1]
	}
	return rows
}

// comparison is the report of "ferry compare".
type comparison struct {
	*bench.Comparison
	colour bool
}

// Text returns the comparison as a table.
func (c comparison) Text() string { return c.Comparison.Text(c.colour) }
