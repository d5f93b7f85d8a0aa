package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry/internal/checkrun"
)

// checkOptions are the flags of "ferry check".
type checkOptions struct {
	json  bool
	allow string
}

// newCheck returns the command "ferry check".
func newCheck(s *session) *cobra.Command {
	o := &checkOptions{}
	c := &cobra.Command{
		Use:   "check [--allow FILE] [--json] -- PROGRAM ARG...",
		Short: "find wrong uses of memory in flight",
		Long: `Runs a program that uses Ferry with all checks on (FERRY_CHECK=1), and reports
what they have found: memory that is used while an operation uses it, uses after
a free, wrong frees, copies past the end of memory, streams without an order,
and on the software GPU races of kernels. The first line says what was watched
and what was not. The program needs no change.

The exit status is 3 if something was found, else that of the program. If that
is 0 and a check gave up something, because it would have needed too much memory
or time, it is 4: there may be faults that were not found. The report says what
was given up ("gave_up" with --json). On the software GPU a program takes up to
5 times as long; the races of kernels cost more. Notes tell of costs, and do not
count.
`,
		Example: "  ferry check -- go run ./examples/kernels/saxpy\n  ferry check --allow known.txt -- go test ./...",
		Args:    cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, words []string) error {
			dash := c.ArgsLenAtDash()
			switch {
			case dash < 0 && len(words) > 0, dash > 0:
				return badUsage("want -- before the program")
			case len(words) == 0:
				return badUsage("no program after --")
			}
			return s.check(c.Context(), o, words)
		},
	}
	c.Flags().StringVar(&o.allow, "allow", "", "leave out findings, and what was given up, that have a line of `FILE` in their text")
	jsonFlag(c, &o.json, "schema "+checkrun.Schema)
	return c
}

// check runs and reports a program.
func (s *session) check(ctx context.Context, o *checkOptions, program []string) error {
	p := &checkrun.Program{Args: program, Stdout: s.stdout, Stderr: s.stderr}
	if o.json {
		p.Stdout = s.stderr
	}
	if o.allow != "" {
		var err error
		if p.Allow, err = checkrun.ReadAllow(o.allow); err != nil {
			return err
		}
	}
	r, err := p.Run(ctx)
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

// childError reports that a program ended with a status, which is that of ferry, too.
type childError struct {
	program, ended string
	status         int
}

func (e *childError) Error() string {
	return fmt.Sprintf("%s: %s", e.program, e.ended)
}
