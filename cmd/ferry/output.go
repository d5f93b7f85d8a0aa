package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// writesNothing is the annotation of commands that do not write to standard output.
const writesNothing = "writes nothing to standard output"

// closedOutput is a standard output that was closed before the program began.
type closedOutput struct{}

var errOutputClosed = errors.New("write standard output: it is closed; redirect it to a file, or to a pipe that is read")

// Write returns an error.
func (closedOutput) Write([]byte) (int, error) { return 0, errOutputClosed }

// checkOutput returns an error before a command begins whose output would be lost.
func (s *session) checkOutput(c *cobra.Command) error {
	if _, closed := s.stdout.(closedOutput); closed && c.Annotations[writesNothing] == "" {
		return errOutputClosed
	}
	return nil
}
