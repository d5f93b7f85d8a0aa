package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/explain"
	"github.com/ferrygpu/ferry/cmd/ferry/internal/tracereport"
	"github.com/ferrygpu/ferry/internal/nearest"
)

// newExplain returns the command "ferry explain".
func newExplain(s *session) *cobra.Command {
	var device string
	var asJSON bool
	c := &cobra.Command{
		Use: "explain [--device D] [--json]\n" +
			"                   zero-copy|copy|pageable|managed|uva|bar|FILE|FILE:ADDRESS\n" +
			"                   | -- PROGRAM ARG...",
		Short: "show what an access travels through, and why copies were slow",
		Long: `For a topic: makes a small run on the device and shows each step of the way of
an access: the place, the address there, the cost, and the source of both.
"observed" was measured or read here, "predicted" comes from the software GPU
and a profile, "manual" from manuals.

For a recording of FERRY_TRACE: why its transfers were slow, by line of the
program, the most time lost first, with the evidence and what to do. A good
recording gets "Nothing found". With an address: the buffers that had it, what
copied them, and why that was slow.

For a program behind --: records and explains it. Its standard output goes to
standard error. With --device soft it may also be in C, C++ or another language:
ferry help lib.
`,
		Example: "  ferry explain zero-copy\n  ferry explain managed --device soft:h200\n" +
			"  ferry explain recording.json\n  ferry explain recording.json:0x7f5c3c001240\n" +
			"  ferry explain --device soft -- ./program",
		Args: cobra.ArbitraryArgs,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return explain.Topics(), cobra.ShellCompDirectiveDefault
		},
		RunE: func(c *cobra.Command, words []string) error {
			if dash := c.ArgsLenAtDash(); dash >= 0 {
				return explainProgram(c.Context(), s, device, asJSON, words[:dash], words[dash:])
			}
			if len(words) > 1 && !slices.Contains(explain.Topics(), words[0]) {
				return dashesMissing(c, words)
			}
			return explainWord(c.Context(), s, device, asJSON, words)
		},
	}
	jsonFlag(c, &asJSON, "schema ferry.explain/1; times in nanoseconds")
	deviceFlag(c, &device)
	return c
}

// explainWord implements "ferry explain".
func explainWord(ctx context.Context, s *session, device string, asJSON bool, words []string) error {
	switch {
	case len(words) != 1:
		return badUsage("want a topic (%s), a recording, as in ferry explain recording.json, or a program, as in ferry explain -- go run .", strings.Join(explain.Topics(), ", "))
	case slices.Contains(explain.Topics(), words[0]):
		return explainTopic(ctx, s, device, asJSON, words[0])
	case device != "":
		return badUsage("--device is for a topic, and %q is none; %s", words[0], nearest.Ask(words[0], explain.Topics()))
	}
	path, address, hasAddress, err := explain.SplitAddress(words[0])
	if err != nil {
		return badUsage("%v", err)
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) && !strings.ContainsAny(path, `./\`) {
		return badUsage("%q is neither a topic nor a file; %s", words[0], nearest.Ask(words[0], explain.Topics()))
	}
	rec, err := readRecording(path)
	if rec == nil {
		return err
	}
	shown(asJSON, rec)
	r := explain.Recording(path, rec)
	if hasAddress {
		buffer, missing := explain.Buffer(path, rec, address)
		if missing != nil {
			return firstError(err, missing)
		}
		r = buffer
	}
	return firstError(s.writeReport(r, asJSON), err)
}

// explainProgram runs, records and explains a program.
func explainProgram(ctx context.Context, s *session, device string, asJSON bool, words, program []string) error {
	switch {
	case len(words) > 0:
		return noWords(nil, words)
	case len(program) == 0:
		return badUsage("no program after --")
	}
	env, err := s.deviceEnvironment(ctx, device, program[0])
	if err != nil {
		return err
	}
	p := &tracereport.Program{Args: program, Stdout: s.stderr, Stderr: s.stderr, Env: env}
	rec, failed := p.Run(ctx)
	if rec == nil {
		return failed
	}
	shown(asJSON, rec)
	return errors.Join(s.writeReport(explain.Recording(program[0], rec), asJSON), failed)
}

// explainTopic explains a topic on a device.
func explainTopic(ctx context.Context, s *session, device string, asJSON bool, topic string) error {
	g, err := s.open(ctx, device)
	if err != nil {
		return err
	}
	r, err := explain.Topic(ctx, g, topic)
	if err != nil {
		return errors.Join(err, g.Close())
	}
	return firstError(s.writeReport(r, asJSON), g.Close())
}
