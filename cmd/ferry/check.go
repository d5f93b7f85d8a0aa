package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/checkrun"
)

// checkOptions are the flags of "ferry check".
type checkOptions struct {
	json   bool
	allow  string
	seeds  int
	device string
}

// newCheck returns the command "ferry check".
func newCheck(s *session) *cobra.Command {
	o := &checkOptions{}
	c := &cobra.Command{
		Use: "check [--device D] [--allow FILE] [--seeds N] [--json]\n" +
			"                   -- PROGRAM ARG...",
		Short: "find wrong uses of memory in flight",
		Long: `Runs a program that uses Ferry with all checks on (FERRY_CHECK=1), and reports
what they have found: memory that is used while an operation uses it, uses after
a free, wrong frees, copies past the end of memory, streams without an order,
and on the software GPU races of kernels. The first line says what was watched
and what was not. The program needs no change. With --device soft it may also be
in C, C++ or another language: ferry help lib.

The exit status is 3 if something was found, else that of the program. If that
is 0 and a check gave up something, because it would have needed too much memory
or time, it is 4: there may be faults that were not found. So it is if a process
could not write what it found. The report says what was given up ("gave_up" with
--json). On the software GPU a program takes up to 5 times as long; the races of
kernels cost more. Notes tell of costs, and do not count.

--seeds N runs the program N times, under FERRY_SCHEDULE=random:1 to random:N.
The seed chooses the order of streams, blocks and warps on the software GPU, so
that a race shows which a lock or a flag hides in the usual order. Each finding
has the first seed that shows it, and the command that shows it again. 16 seeds
find most.
`,
		Example:     "  ferry check -- go run ./examples/kernels/saxpy\n  ferry check --allow known.txt -- go test ./...\n  ferry check --seeds 16 -- go test -run TestKernel ./...\n  ferry check --device soft -- ./c-program",
		Args:        cobra.ArbitraryArgs,
		Annotations: map[string]string{keepsNothing: "yes"},
		RunE: func(c *cobra.Command, words []string) error {
			dash := c.ArgsLenAtDash()
			switch {
			case dash < 0 && len(words) > 0, dash > 0:
				return dashesMissing(c, words)
			case len(words) == 0:
				return badUsage("no program after --")
			case o.seeds < 0 || o.seeds > checkrun.MostSeeds:
				return badUsage("--seeds %d: must be 1 to %d", o.seeds, checkrun.MostSeeds)
			case o.seeds == 0 && c.Flags().Changed("seeds"):
				return badUsage("--seeds 0: must be 1 to %d", checkrun.MostSeeds)
			}
			return s.check(c.Context(), o, words)
		},
	}
	c.Flags().StringVar(&o.allow, "allow", "", "leave out findings, and what was given up, that have a line of `FILE` in their text")
	c.Flags().IntVar(&o.seeds, "seeds", 0, "run the program under `N` seeds of the schedule random (once, under FERRY_SCHEDULE)")
	jsonFlag(c, &o.json, "schema "+checkrun.Schema)
	programDeviceFlag(c, &o.device)
	return c
}

// check runs and reports a program.
func (s *session) check(ctx context.Context, o *checkOptions, program []string) error {
	env, err := s.deviceEnvironment(ctx, o.device, program[0])
	if err != nil {
		return err
	}
	p := &checkrun.Program{Args: program, Stdout: forProgram(s.stdout), Stderr: s.stderr, Env: env}
	if o.json {
		p.Stdout = s.stderr
	}
	if o.allow != "" {
		if p.Allow, err = checkrun.ReadAllow(o.allow); err != nil {
			return err
		}
	}
	r, err := o.run(ctx, p)
	if r == nil {
		return err
	}
	if err := errors.Join(err, s.writeReport(r, o.json)); err != nil {
		return err
	}
	switch n := len(r.Findings); {
	case n > 0:
		return found("%s", checkrun.Count(n, "finding"))
	case r.Status != 0:
		return &childError{program[0], r.Ended, r.Status}
	}
	return gaveUp(r.GaveUp)
}

// run runs the program once, or once for each seed.
func (o *checkOptions) run(ctx context.Context, p *checkrun.Program) (*checkrun.Report, error) {
	if o.seeds == 0 {
		return p.Run(ctx)
	}
	return p.RunSeeds(ctx, o.seeds, func(seed uint64) string { return o.again(seed, p.Args) })
}

// again returns the command of a shell that runs the program under a seed.
func (o *checkOptions) again(seed uint64, program []string) string {
	words := []string{checkrun.ScheduleVariable + "=" + checkrun.Schedule(seed), "ferry", "check"}
	if o.device != "" {
		words = append(words, "--device", shellWord(o.device))
	}
	if o.allow != "" {
		words = append(words, "--allow", shellWord(o.allow))
	}
	words = append(words, "--")
	for _, w := range program {
		words = append(words, shellWord(w))
	}
	return strings.Join(words, " ")
}

// plainWord is a word that means itself to a shell.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// shellWord returns a word as a shell reads it.
func shellWord(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// childError reports that a program ended with a status, which is that of ferry, too.
type childError struct {
	program, ended string
	status         int
}

func (e *childError) Error() string {
	return fmt.Sprintf("%s: %s", e.program, e.ended)
}
