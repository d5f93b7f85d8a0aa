package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/diff"
)

// newDiff returns the command "ferry diff".
func newDiff(s *session) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "diff A.json B.json [--json]",
		Short: "compare two results of ferry bench, or prediction and measurement",
		Long: `Compares the times in B with those in A. Both are files that ferry bench --json
wrote: two runs, or a prediction and a measurement. A or B can be several files,
A1.json,A2.json: a time is then the median of theirs, and its range covers all.

A row differs if the noise does not explain it: the gap between the two ranges
of samples, from the 5th to the 95th percentile, is wider than the wider range.
A prediction has no range. A machine varies more from run to run than within
one, so some rows of 700 differ without a cause. With several files a side they
are fewer.

The text shows the rows that differ, the JSON document all. The exit status is 3
if a row is slower in B.
`,
		Example: "  ferry diff before.json after.json\n  ferry diff a1.json,a2.json,a3.json b1.json,b2.json\n  ferry diff predicted.json measured.json --json",
		Args: func(_ *cobra.Command, words []string) error {
			if len(words) < 2 {
				return badUsage("two files are needed, got %d", len(words))
			}
			if len(words) > 2 {
				return badUsage("two files are needed, got %d; several of one side are one word, as in ferry diff %s,%s %s", len(words), words[0], words[1], words[2])
			}
			return nil
		},
		ValidArgsFunction: completeFiles("json"),
		RunE: func(_ *cobra.Command, words []string) error {
			return diffFiles(s, words[0], words[1], asJSON)
		},
	}
	jsonFlag(c, &asJSON, "schema "+diff.Schema+"; times in nanoseconds")
	return c
}

// diffFiles implements "ferry diff".
func diffFiles(s *session, a, b string, asJSON bool) error {
	before, err := readGrids(strings.Split(a, ","))
	if err != nil {
		return err
	}
	after, err := readGrids(strings.Split(b, ","))
	if err != nil {
		return err
	}
	shown(asJSON, before, after)
	r := diff.Compare(a, before, b, after)
	if len(r.Rows) == 0 {
		return fmt.Errorf("%s and %s have no case in common", a, b)
	}
	if err := s.writeReport(r, asJSON); err != nil {
		return err
	}
	if r.Slower > 0 {
		return found("%d of %d rows are slower in B than the noise", r.Slower, len(r.Rows))
	}
	return nil
}
