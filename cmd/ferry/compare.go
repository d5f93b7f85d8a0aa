package main

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry/internal/layout"
	"github.com/ferrygpu/ferry/internal/measure/bench"
)

// compareOptions are the flags of "ferry compare".
type compareOptions struct {
	device   string
	min, max int // exponents of the sizes
	reuse    []int
	rates    bool
	ptx      string // file of an own kernel
	kernel   string
	json     bool
}

// newCompare returns the command "ferry compare".
func newCompare(s *session) *cobra.Command {
	o := &compareOptions{}
	c := &cobra.Command{
		Use: "compare [--device D] [--min 10] [--max 22] [--reuse N,...]\n" +
			"                     [--rates] [--ptx FILE --kernel K] [--html FILE]\n" +
			"                     [--json]",
		Short: "measure vector addition with every kind of host memory",
		Long: `Adds vectors of 2^min to 2^max floats, c = a + b, with every kind of memory.
A time covers the whole step, from its submission until the CPU can see c:

  pageable        pageable memory by the driver's cuMemcpy: a and b copied in,
                  kernel, c copied out (ferry bench has rows of ferry.Copy, too)
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
Devices that read pageable memory have a column more: "pageable in kernels".

--reuse launches the kernel N times on the same a and b. Zero-copy then crosses
the link each time, the copies once. --rates adds GB/s, the part of the time
that the link needs, and zero-copy's kernel alone, between two events.

--ptx and --kernel take a kernel of yours in place of the addition. It must be
  K` + bench.Signature + `
with n of 64 or 32 bits. It gets a thread for each element, in blocks of 256.
Its results must be those that it has on device memory, bit by bit.
`,
		Example: "  ferry compare\n  ferry compare --device soft:fermi-c2050 --max 14\n  ferry compare --max 16 --reuse 1,2,8\n  ferry compare --device cuda --json >mine.json",
		Args:    noWords,
		RunE:    func(c *cobra.Command, _ []string) error { return compare(c.Context(), s, o) },
	}
	c.Flags().IntVar(&o.min, "min", 10, "smallest size, 2^`E` floats")
	c.Flags().IntVar(&o.max, "max", 22, "largest size, 2^`E` floats")
	c.Flags().IntSliceVar(&o.reuse, "reuse", nil, "also with the kernel launched `N,...` times on the same inputs")
	c.Flags().BoolVar(&o.rates, "rates", false, "also GB/s, per cent of the link, and zero-copy's kernel alone")
	c.Flags().StringVar(&o.ptx, "ptx", "", "a PTX `FILE` with a kernel of yours")
	c.Flags().StringVar(&o.kernel, "kernel", "", "the name `K` of that kernel")
	complete(c, "kernel", func() []cobra.Completion { return kernelNames(o.ptx) })
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
	own, err := o.own()
	if err != nil {
		return err
	}
	g, err := s.open(ctx, o.device)
	if err != nil {
		return err
	}
	p := newProgress(s.stderr)
	c, err := bench.Compare(ctx, g, &bench.Options{
		Min: o.min, Max: o.max, Reuse: o.reuse, Rates: o.rates, Kernel: own,
		Progress: func(done, total, elements int) {
			p.step(done, total, fmt.Sprintf("comparing 2^%d floats", bits.Len(uint(elements))-1))
		},
	})
	p.done()
	if ctx.Err() != nil && c != nil {
		c.Rows = wholeRows(c.Rows)
		for i := range c.Reuse {
			c.Reuse[i].Rows = wholeRows(c.Reuse[i].Rows)
		}
	}
	if c == nil || len(c.Rows) == 0 {
		return s.measured(ctx, err, g, nil, o.json)
	}
	return s.measured(ctx, err, g, comparison{c, colour(s.stdout)}, o.json)
}

// own returns the kernel of --ptx and --kernel, nil without them.
func (o *compareOptions) own() (*bench.OwnKernel, error) {
	for _, n := range o.reuse {
		if n < 1 || n > bench.MaxReuse {
			return nil, badUsage("--reuse %d: want 1 to %d", n, bench.MaxReuse)
		}
	}
	switch {
	case o.ptx == "" && o.kernel == "":
		return nil, nil
	case o.ptx == "":
		return nil, badUsage("--kernel needs --ptx")
	case o.kernel == "":
		return nil, badUsage("--ptx needs --kernel")
	}
	return bench.ReadKernel(o.ptx, o.kernel)
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

// Page returns the comparison as a table.
func (c comparison) Page() *layout.Page { return c.Comparison.Page(c.colour) }
