package main

import (
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry/internal/hint"
)

// keepsNothing is the annotation of commands that are run for a file or for their exit status. What
// they write to standard output is only a report about that.
const keepsNothing = "run for a file or the exit status"

// fileFlags are the flags that name a file or a folder for the result, besides outputFlags.
var fileFlags = []string{"output", "dir"}

// discarded is a standard output that is /dev/null, opened for reading and writing. Programs such
// as Python's subprocess give that to a child whose output they do not want. Go's runtime opens it
// in the place of a standard output that is closed. Nothing tells the two apart.
type discarded struct{ io.Writer }

// forProgram returns the output of a program that gets an output of this process. It gets a file
// itself. For another writer there is a pipe, which what the program leaves in the background
// keeps open.
func forProgram(w io.Writer) io.Writer {
	if d, ok := w.(discarded); ok {
		return d.Writer
	}
	return w
}

// makesFile reports whether a command makes a file that its user asked for.
func makesFile(c *cobra.Command) bool {
	return len(outputs(c)) > 0 || slices.ContainsFunc(fileFlags, func(name string) bool {
		f := c.Flags().Lookup(name)
		return f != nil && f.Changed && f.Value.String() != "-"
	})
}

// noteOutput says before a command begins that its output will be lost, if that is all that the
// command makes.
func (s *session) noteOutput(c *cobra.Command) {
	if _, lost := s.stdout.(discarded); lost && c.Annotations[keepsNothing] == "" && !makesFile(c) && !hint.Quiet() {
		s.say("ferry: standard output is /dev/null, or was closed: the output is lost (%s=1 suppresses this line)\n", hint.QuietVariable)
	}
}
