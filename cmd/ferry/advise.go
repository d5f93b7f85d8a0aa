package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/advise"
)

// adviseOptions are the flags of "ferry advise".
type adviseOptions struct {
	job             advise.Job
	in, out, access string // as written
	device          string
	verify, json    bool
}

// newAdvise returns the command "ferry advise".
func newAdvise(s *session) *cobra.Command {
	o := &adviseOptions{}
	c := &cobra.Command{
		Use: "advise --in BYTES --out BYTES [--reuse N] [--access A]\n" +
			"                    [--threads N] [--kernel-time T] [--host-reads]\n" +
			"                    [--calls-per-second N] [--devices N] [--source S]\n" +
			"                    [--device D] [--verify] [--json]",
		Short: "say which host memory, path, chunks and streams suit a step",
		Long: `Says which kind of host memory, path, chunks and streams suit a step: data
that the CPU has written, a kernel, results for the CPU. Each alternative runs
on the software GPU with the profile of the device, with a kernel that reads
and writes as the flags say. Its time is from submission until the CPU can see
the results. Shown are the times with their parts, best first, why the others
lose, where the choice changes, and Go code for the best.

With --verify the alternatives are measured on the device, too. The exit status
is then 3 if the advised one is more than 5 % slower than the fastest.
`,
		Example: "  ferry advise --in 64MiB --out 64MiB\n  ferry advise --in 4MiB --reuse 8 --device soft:h200\n" +
			"  ferry advise --in 1GiB --out 1MiB --source file --json\n  ferry advise --in 4MiB --access stencil=4 --device cuda --verify",
		Args: noWords,
		RunE: func(c *cobra.Command, _ []string) error { return showAdvice(c.Context(), s, o) },
	}
	j := &o.job
	c.Flags().StringVar(&o.in, "in", "0", "the number of `BYTES` that the kernel reads: 4096, 64KiB, 1.5MiB, 2GiB")
	c.Flags().StringVar(&o.out, "out", "0", "the number of `BYTES` that the kernel writes")
	c.Flags().IntVar(&j.Reuse, "reuse", 1, "the kernel reads all of the input in `N` passes, each by other blocks")
	c.Flags().StringVar(&o.access, "access", "stream", "access `A` of a pass: stream, all words in order; stride=N, one word in N; random, as many words anywhere; table, all words by each block; stencil=N, each word with the next ones, N together")
	complete(c, "access", func() []cobra.Completion { return []string{"stream", "stride=32", "random", "table", "stencil=4"} })
	c.Flags().IntVar(&j.Threads, "threads", 0, "the kernel has `N` threads; 0 means what suits the access")
	c.Flags().DurationVar(&j.Kernel, "kernel-time", 0, "the kernel computes for the time `T` at least, such as 500us, beside its reads and writes")
	c.Flags().BoolVar(&j.HostReads, "host-reads", false, "the CPU reads all results, as part of the step")
	c.Flags().Float64Var(&j.Rate, "calls-per-second", 0, "the program wants `N` steps a second; 0 means as many as there can be")
	c.Flags().IntVar(&j.Devices, "devices", 1, "`N` GPUs share the data of a step")
	c.Flags().StringVar(&j.Source, "source", advise.Slice, "source `S` of the data: slice, memory that the program allocates; file; existing, memory that other code has allocated")
	complete(c, "source", func() []cobra.Completion { return advise.Sources() })
	c.Flags().BoolVar(&o.verify, "verify", false, "measure the alternatives on the device, too")
	jsonFlag(c, &o.json, "schema ferry.advise/1; times in nanoseconds")
	deviceFlag(c, &o.device)
	return c
}

// parse reads the flags that are texts, and checks all.
func (o *adviseOptions) parse() (err error) {
	if o.job.In, err = advise.ParseBytes("in", o.in); err != nil {
		return err
	}
	if o.job.Out, err = advise.ParseBytes("out", o.out); err != nil {
		return err
	}
	if o.job.Access, err = advise.ParseAccess(o.access); err != nil {
		return err
	}
	return o.job.Check()
}

// showAdvice implements "ferry advise".
func showAdvice(ctx context.Context, s *session, o *adviseOptions) error {
	if err := o.parse(); err != nil {
		return badUsage("%v", err)
	}
	g, err := s.open(ctx, o.device)
	if err != nil {
		return err
	}
	p := newProgress(s.stderr)
	r, err := advise.For(ctx, g, o.job, &advise.Options{Progress: p.step})
	if err == nil && o.verify {
		err = advise.Verify(ctx, g, r, p.step)
	}
	p.done()
	if err != nil {
		return firstError(ctx.Err(), errors.Join(err, g.Close()))
	}
	if err := firstError(s.writeReport(r, o.json), g.Close()); err != nil || !o.verify || r.Verified.Holds {
		return err
	}
	return found("the advice does not hold: %s", r.Verified.Summary())
}
