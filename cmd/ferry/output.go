package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry/internal/hint"
)

// writesNothing is the annotation of commands that do not write to standard output.
const writesNothing = "writes nothing to standard output"

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

// noteOutput says before a command begins that its output will be lost.
func (s *session) noteOutput(c *cobra.Command) {
	if _, lost := s.stdout.(discarded); lost && c.Annotations[writesNothing] == "" && !hint.Quiet() {
		s.say("ferry: standard output is /dev/null, or was closed: the output is lost (%s=1 suppresses this line)\n", hint.QuietVariable)
	}
}
