package main

import (
	"context"
	"math/bits"

	"github.com/ferrygpu/ferry/internal/bench"
)

var compareCommand = command{
	name:    "compare",
	summary: "measure vector addition with every kind of host memory",
	usage:   "compare [--device D] [--min 10] [--max 22] [--json]",
	run:     compare,
	help: `Adds vectors of 2^min to 2^max floats, c = a + b, with every kind of memory.
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

flags:
  --min E     smallest size, 2^E floats (10)
  --max E     largest size (22)
  --json      one JSON document, schema ferry.compare/1; times in nanoseconds
  --device D  which device

` + deviceHelp,
}

func compare(ctx context.Context, s *session) error {
	f := newFlags("compare")
	device, asJSON := deviceFlag(f), jsonFlag(f)
	low := f.Int("min", 10, "")
	high := f.Int("max", 22, "")
	words, err := parse(f, s.args)
	if err != nil {
		return err
	}
	if err := noWords(words); err != nil {
		return err
	}
	if *low < bench.MinExponent || *high > bench.MaxExponent || *low > *high {
		return badUsage("--min %d --max %d: want %d <= min <= max <= %d", *low, *high, bench.MinExponent, bench.MaxExponent)
	}
	g, err := s.open(*device)
	if err != nil {
		return err
	}
	p := newProgress(s.stderr)
	c, err := bench.Compare(ctx, g, &bench.Options{
		Min: *low, Max: *high,
		Progress: func(done, total, elements int) {
			p.say("comparing 2^%d floats (size %d of %d)", bits.Len(uint(elements))-1, done+1, total)
		},
	})
	p.done()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if c == nil || len(c.Rows) == 0 {
		return firstError(err, g.Close())
	}
	text := []byte(c.Text(colour(s.stdout)))
	if *asJSON {
		var failed error
		if text, failed = c.JSON(); failed != nil {
			return failed
		}
	}
	return firstError(s.write(text), err, g.Close())
}

// firstError returns the first error that is not nil.
func firstError(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}
