package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/document"
	"github.com/ferrygpu/ferry/internal/checks"
	"github.com/ferrygpu/ferry/internal/layout"
	"github.com/ferrygpu/ferry/internal/printable"
)

// The exit statuses. The table of "ferry help exit" explains them.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitFound       = 3
	exitGaveUp      = 4
	exitInterrupted = 130
)

// session is one run of the program: its outputs, and what it will say.
type session struct {
	stdout, stderr io.Writer
	columns        int      // of standard output, if it is a terminal; else 0
	errorColumns   int      // of standard error
	warnings       []string // written before the result
	partial        string   // why the result is not whole, such as "interrupted"; else ""
	html           string   // the file of the page, or ""
	failed         error    // of a page of help, which cobra shows without an error
}

// usageError reports a wrong command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func badUsage(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// foundError reports that a command did its work and found something that its user must
// see, such as a regression. Its exit status is 3.
type foundError struct{ text string }

func (e *foundError) Error() string { return e.text }

func found(format string, args ...any) error { return &foundError{fmt.Sprintf(format, args...)} }

// gaveUpError reports that a command found nothing, but could not look everywhere. Its exit
// status is 4.
type gaveUpError struct{ text string }

func (e *gaveUpError) Error() string { return e.text }

// gaveUp returns the error of checks that gave up something.
func gaveUp(list []checks.GaveUp) error {
	if len(list) == 0 {
		return nil
	}
	return &gaveUpError{"the checks found nothing, but gave up something: " + list[0].String()}
}

// run runs the whole program and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s := &session{stdout: stdout, stderr: stderr, columns: columns(stdout), errorColumns: columns(stderr)}
	return s.run(ctx, args)
}

// run runs the program in a session.
func (s *session) run(ctx context.Context, args []string) int {
	root := newRoot(s)
	c, rest, err := root.Find(args)
	if err == nil {
		err = unknownCommand(c, rest)
	}
	if err == nil {
		root.SetArgs(commandLine(c, rest))
		c, err = root.ExecuteContextC(ctx)
	}
	return s.finish(c, firstError(err, s.failed))
}

// commandLine returns the words that lead to c, and its arguments in the form that pflag
// reads.
func commandLine(c *cobra.Command, args []string) []string {
	path := strings.Fields(c.CommandPath())[1:]
	if len(path) == 0 && len(args) > 0 && isCompletion(args[0]) {
		return args
	}
	return append(path, twoDashes(c, args)...)
}

// finish prints how a command ended and returns the exit status.
func (s *session) finish(c *cobra.Command, err error) int {
	usage, wrong := errors.AsType[*usageError](err)
	_, something := errors.AsType[*foundError](err)
	_, incomplete := errors.AsType[*gaveUpError](err)
	switch {
	case err == nil:
		return exitOK
	case wrong:
		s.say("%s: %s\n%s", c.CommandPath(), usage.text, usageHint(c, s.errorColumns))
		return exitUsage
	case something:
		s.say("%s: %v\n", c.CommandPath(), err)
		return exitFound
	case incomplete:
		s.say("%s: %v\n", c.CommandPath(), err)
		return exitGaveUp
	case errors.Is(err, context.Canceled):
		s.say("%s: interrupted%s\n", c.CommandPath(), s.kept())
		for _, other := range besides(err, context.Canceled) {
			s.say("%s: %v\n", c.CommandPath(), other)
		}
		return exitInterrupted
	}
	s.say("%s: %v%s\n", c.CommandPath(), err, s.kept())
	if child, ok := errors.AsType[*childError](err); ok {
		return child.status
	}
	return exitError
}

// besides returns the errors that were joined with one of a kind.
func besides(err, kind error) (others []error) {
	if !errors.Is(err, kind) {
		return []error{err}
	}
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			others = append(others, besides(one, kind)...)
		}
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); errors.Is(inner, kind) {
			return besides(inner, kind)
		}
	}
	return others
}

// usageHint says how the command is used, and where more is, in a number of columns.
func usageHint(c *cobra.Command, columns int) string {
	if c.HasSubCommands() && c.Annotations[takesWords] == "" {
		return fmt.Sprintf("Run %s for the list of commands.\n", helpOf(c))
	}
	return arrangeHelp(fmt.Sprintf("usage: %s\n", c.UseLine()), columns) + fmt.Sprintf("Run %s for details.\n", helpOf(c))
}

// helpOf returns the command that shows the help of a command: "ferry help info".
func helpOf(c *cobra.Command) string {
	return c.Root().Name() + " help" + c.CommandPath()[len(c.Root().Name()):]
}

// kept says that the results until an error were written.
func (s *session) kept() string {
	if s.partial == "" {
		return ""
	}
	return "; the results so far were written, and are marked as partial"
}

// say writes a message to stderr. Strings of others, such as those in an error, cannot have what
// a terminal obeys. Lines that are too long for the terminal are folded.
func (s *session) say(format string, args ...any) {
	fmt.Fprint(s.stderr, layout.Fold(printable.Text(fmt.Sprintf(format, args...)), s.errorColumns))
}

// write writes the warnings to stderr, then the data as they are to stdout.
func (s *session) write(data []byte) error {
	for _, w := range s.warnings {
		s.say("ferry: %s\n", w)
	}
	_, err := s.stdout.Write(data)
	return err
}

// shown quotes the strings of values that were read from a file, before a text shows them within
// lines. Values that are written as data, such as JSON, keep them: the encoder has escapes.
func shown(asData bool, values ...any) {
	for _, v := range values {
		if !asData {
			printable.Strings(v)
		}
	}
}

// report is a result that can be written as text or as JSON.
type report interface {
	Page() *layout.Page
	JSON() ([]byte, error)
}

// writeReport writes a result, and its page if one is wanted.
func (s *session) writeReport(r report, asJSON bool) error {
	return firstError(s.writeResult(r, asJSON), s.writePage(r))
}

// writeResult writes a result as text, in the columns of the terminal, or as an indented
// JSON document.
func (s *session) writeResult(r report, asJSON bool) error {
	if t, ok := r.(table); ok {
		return s.write([]byte(printable.Text(string(t.values(s.partial)))))
	}
	if c, ok := r.(comparison); ok && c.colour && !asJSON { // which has quoted its strings
		return s.write([]byte(s.arrange(r)))
	}
	if !asJSON {
		return s.write([]byte(printable.Text(s.arrange(r))))
	}
	text, err := r.JSON()
	if err == nil {
		text, err = document.Indent(markPartial(text, s.partial))
	}
	if err != nil {
		return err
	}
	return s.write(printable.JSON(text))
}

// arrange returns a result as text in the columns of the terminal.
func (s *session) arrange(r report) string {
	p := r.Page()
	if s.partial != "" {
		p.Linef("\nPartial: %s.", printable.Text(s.partial))
	}
	return p.Text(s.columns)
}

// markPartial adds the field "partial" with a reason to a document that is an object with
// members. It returns the document as it is if the reason is empty.
func markPartial(text []byte, reason string) []byte {
	if reason == "" {
		return text
	}
	end := len(text) - 1
	for end > 0 && text[end] != '}' {
		end--
	}
	quoted, _ := json.Marshal(reason) // a string has no error
	return fmt.Appendf(text[:end:end], ",\"partial\":%s}\n", quoted)
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
