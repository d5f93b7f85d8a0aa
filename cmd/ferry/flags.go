package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/hint"
)

// newFlags returns a set of flags that prints nothing. The caller prints the errors.
func newFlags(name string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	return f
}

// parse reads flags before, between and after other words. It returns those words in
// their order. "--" ends the flags.
func parse(f *flag.FlagSet, args []string) (words []string, err error) {
	var last []string
	if i := slices.Index(args, "--"); i >= 0 {
		args, last = args[:i], args[i+1:]
	}
	for len(args) > 0 {
		if err := f.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return nil, err
			}
			return nil, badUsage("%s", flagMessage(err))
		}
		if args = f.Args(); len(args) > 0 {
			words, args = append(words, args[0]), args[1:]
		}
	}
	return append(words, last...), nil
}

// flagMessage returns an error message of package flag with two dashes before flags,
// as in the help.
func flagMessage(err error) string {
	text := err.Error()
	for _, before := range []string{"not defined: ", "for flag ", "an argument: "} {
		text = strings.Replace(text, before+"-", before+"--", 1)
	}
	return text
}

// noWords returns an error if there are words besides the flags.
func noWords(words []string) error {
	if len(words) > 0 {
		return badUsage("%q is not expected here", words[0])
	}
	return nil
}

// deviceFlag adds the --device flag that all commands have.
func deviceFlag(f *flag.FlagSet) *string {
	return f.String("device", "", "")
}

// jsonFlag adds the --json flag that all commands have.
func jsonFlag(f *flag.FlagSet) *bool { return f.Bool("json", false, "") }

// open opens a device by its name. If the software GPU replaces a missing GPU, it adds
// a warning.
func (s *session) open(name string) (*ferry.GPU, error) {
	hint.Silence(hint.Fallback) // the warning below has the same content
	g, err := ferry.Open(name)
	if err == nil && g.Fallback() != nil && !hint.Quiet() {
		s.warnings = append(s.warnings, fmt.Sprintf("no NVIDIA GPU could be opened, so %s is used (--device cuda reports what was tried)", g))
	}
	return g, err
}

// write writes the warnings to stderr, then the data to stdout.
func (s *session) write(data []byte) error {
	for _, w := range s.warnings {
		fmt.Fprintf(s.stderr, "ferry: %s\n", w)
	}
	_, err := s.stdout.Write(data)
	return err
}
