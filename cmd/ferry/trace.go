package main

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/overlap"
	"github.com/ferrygpu/ferry/cmd/ferry/internal/tracereport"
	"github.com/ferrygpu/ferry/internal/outfile"
	"github.com/ferrygpu/ferry/trace"
)

// traceOptions are the flags of "ferry trace".
type traceOptions struct {
	json     bool
	perfetto string
	record   string
	limit    int64
	device   string
}

// newTrace returns the command "ferry trace".
func newTrace(s *session) *cobra.Command {
	o := &traceOptions{}
	c := &cobra.Command{
		Use: "trace [--json] [--html OUT] [--perfetto OUT] [--record FILE]\n" +
			"                   [--limit BYTES] [--device D] FILE | -- PROGRAM ARG...",
		Short: "record what a program does with a device, and report it",
		Long: `Runs a program that uses Ferry and reports its driver calls and the operations
of the device, or reports a recording. The program needs no change. The same
recording is made by any program with FERRY_TRACE=FILE in its environment. With
--device soft the program may also be in C, C++ or another language: ferry help
lib.

With --json or --perfetto - the program's standard output goes to standard
error. A program that fails or is interrupted is reported as far as it came.
With --record the recording grows in the folder FILE.part-N, and replaces FILE
when the program has ended. If ferry itself is killed, it is still there.
On the software GPU the times are predictions, on hardware those of events.
`,
		Example: "  ferry trace -- go run ./examples/kernels/saxpy\n  ferry trace recording.json\n" +
			"  ferry trace --perfetto out.json recording.json\n  ferry trace overlap --order depth --streams 3",
		Args:              cobra.ArbitraryArgs,
		Annotations:       map[string]string{takesWords: "FILE"},
		ValidArgsFunction: completeFiles("json"),
		RunE: func(c *cobra.Command, words []string) error {
			if dash := c.ArgsLenAtDash(); dash >= 0 {
				return traceProgram(c.Context(), s, o, words[:dash], words[dash:])
			}
			if len(words) > 1 {
				return dashesMissing(c, words)
			}
			return traceFile(s, o, words)
		},
	}
	htmlFlag(c, s)
	jsonFlag(c, &o.json, "schema ferry.trace-summary/1; times in nanoseconds")
	c.Flags().StringVar(&o.perfetto, "perfetto", "", "instead of the report, write the format of https://ui.perfetto.dev and Chrome to the file `OUT`, - for standard output")
	c.Flags().StringVar(&o.record, "record", "", "keep the recording of the program in `FILE`")
	c.Flags().Int64Var(&o.limit, "limit", 0, "largest recording of the program in `BYTES`; 0 means 1 GiB")
	programDeviceFlag(c, &o.device)
	c.AddCommand(newOverlap(s))
	return c
}

// traceFile reports a recording.
func traceFile(s *session, o *traceOptions, words []string) error {
	switch {
	case o.json && o.perfetto != "":
		return badUsage("--json and --perfetto: want one of them")
	case len(words) != 1:
		return badUsage("want a recording, as in ferry trace recording.json, or a program, as in ferry trace -- go run .")
	case o.record != "" || o.limit != 0 || o.device != "":
		return badUsage("--record, --limit and --device are for -- and a program")
	}
	rec, err := readRecording(words[0])
	if rec == nil {
		return err
	}
	return cmp.Or(s.reportTrace(rec, o), err)
}

// traceProgram runs and reports a program.
func traceProgram(ctx context.Context, s *session, o *traceOptions, words, program []string) error {
	switch {
	case o.json && o.perfetto != "":
		return badUsage("--json and --perfetto: want one of them")
	case len(words) > 0:
		return noWords(nil, words)
	case len(program) == 0:
		return badUsage("no program after --")
	}
	out := forProgram(s.stdout)
	if o.json || o.perfetto == "-" {
		out = s.stderr
	}
	env, err := s.deviceEnvironment(ctx, o.device, program[0])
	if err != nil {
		return err
	}
	p := &tracereport.Program{Args: program, Stdout: out, Stderr: s.stderr, Env: env, Keep: o.record, Limit: o.limit}
	rec, failed := p.Run(ctx)
	if rec == nil {
		return failed
	}
	return errors.Join(s.reportTrace(rec, o), failed)
}

// reportTrace writes the report of a recording.
func (s *session) reportTrace(rec *trace.Recording, o *traceOptions) error {
	if o.perfetto != "" {
		return s.writePerfetto(rec, o.perfetto)
	}
	shown(o.json, rec)
	return firstError(s.writeReport(tracereport.Summarize(rec), o.json), s.writeRecording(rec))
}

// writePerfetto writes the format of Perfetto to a file, or to standard output for "-".
func (s *session) writePerfetto(rec *trace.Recording, path string) error {
	if path == "-" {
		return tracereport.Perfetto(s.stdout, rec)
	}
	f, err := outfile.Create(path)
	if err != nil {
		return err
	}
	defer f.Discard()
	if err := tracereport.Perfetto(f, rec); err != nil {
		return err
	}
	return f.Commit()
}

// newOverlap returns the command "ferry trace overlap".
func newOverlap(s *session) *cobra.Command {
	o := &overlap.Options{}
	var device string
	var asJSON bool
	c := &cobra.Command{
		Use: "overlap --order depth|breadth [--streams N] [--engines N]\n" +
			"                   [--chunks N] [--bytes N] [--kernel-time T]\n" +
			"                   [--device D] [--html FILE] [--json]",
		Short: "show what runs at the same time, by the order of issue",
		Long: `Issues copy in, kernel and copy out of several streams, depth first (all of one
stream, then the next) or breadth first (all copies in, all kernels, all copies
out). Shows what ran when, and says what blocked what. The same work in the
other order is timed too.

On old devices with one queue for all streams and two copy engines, such as
soft:fermi-c2050, depth first is better for kernels that are shorter than
copies, which is the default, and breadth first for kernels that are longer than
all copies. On later devices the order of issue matters less.
`,
		Example: "  ferry trace overlap --order depth --device soft:fermi-c2050\n" +
			"  ferry trace overlap --order breadth --kernel-time 12ms \\\n      --device soft:fermi-c2050\n" +
			"  ferry trace overlap --order depth --streams 4 --kernel-time 2ms --json",
		Args: noWords,
		RunE: func(c *cobra.Command, _ []string) error { return showOverlap(c.Context(), s, o, device, asJSON) },
	}
	c.Flags().StringVar(&o.Order, "order", "", "`ORDER` of issue: depth or breadth")
	complete(c, "order", func() []cobra.Completion { return []string{"depth", "breadth"} })
	c.Flags().IntVar(&o.Streams, "streams", 3, "`N` streams, 1 to 16")
	c.Flags().IntVar(&o.Engines, "engines", 0, "`N` copy engines of the software GPU, 1 to 3; 0 means those of its profile; refused on hardware")
	c.Flags().IntVar(&o.Chunks, "chunks", 1, "`N` rounds of copy in, kernel, copy out in each stream")
	c.Flags().IntVar(&o.Bytes, "bytes", 0, "copies of `N` bytes; 0 means 8388608")
	c.Flags().DurationVar(&o.Kernel, "kernel-time", 0, "kernels that take the time `T`, such as 500us; 0 means half of a copy")
	htmlFlag(c, s)
	jsonFlag(c, &asJSON, "schema ferry.overlap/1; times in nanoseconds")
	deviceFlag(c, &device)
	return c
}

// showOverlap implements "ferry trace overlap".
func showOverlap(ctx context.Context, s *session, o *overlap.Options, device string, asJSON bool) error {
	if o.Order == "" {
		return badUsage("--order is required: depth or breadth")
	}
	if err := o.Check(); err != nil {
		return badUsage("%v", err)
	}
	g, err := s.open(ctx, device)
	if err != nil {
		return err
	}
	r, err := overlap.Run(ctx, g, *o)
	if err != nil {
		return errors.Join(err, g.Close())
	}
	return firstError(s.writeReport(r, asJSON), g.Close())
}
