package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
)

// The exit statuses.
const (
	exitOK       = 0
	exitError    = 1
	exitUsage    = 2
	exitDegraded = 3
)

// command is a command such as "ferry info".
type command struct {
	name    string
	summary string
	help    string // without the usage line
	usage   string
	run     func(context.Context, *session) error
}

// session is one run of a command: its arguments and its outputs.
type session struct {
	args           []string
	stdout, stderr io.Writer
	warnings       []string // written before the result
}

// usageError reports a wrong command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func badUsage(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

func commands() []command {
	return []command{infoCommand, compareCommand, benchCommand, runCommand, compileCommand, bindCommand, doctorCommand}
}

// run runs the whole program and returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		return printed(stderr, fprint(stdout, overview()))
	}
	name, rest := args[0], args[1:]
	switch name {
	case "help", "-h", "-help", "--help":
		return help(rest, stdout, stderr)
	case "version", "-version", "--version":
		return printed(stderr, fprint(stdout, version()+"\n"))
	}
	for _, c := range commands() {
		if c.name == name {
			return finish(&c, c.run(ctx, &session{args: rest, stdout: stdout, stderr: stderr}), stdout, stderr)
		}
	}
	fmt.Fprintf(stderr, "ferry: there is no command %q%s\nRun ferry help for the list of commands.\n", name, suggestion(name))
	return exitUsage
}

// finish prints how a command ended and returns the exit status.
func finish(c *command, err error, stdout, stderr io.Writer) int {
	usage, wrong := errors.AsType[*usageError](err)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errDegraded):
		return exitDegraded
	case errors.Is(err, flag.ErrHelp):
		return printed(stderr, fprint(stdout, c.page()))
	case wrong:
		fmt.Fprintf(stderr, "ferry %s: %s\nusage: ferry %s\nRun ferry help %s for details.\n", c.name, usage.text, c.usage, c.name)
		return exitUsage
	case errors.Is(err, context.Canceled):
		fmt.Fprintf(stderr, "ferry %s: interrupted\n", c.name)
		return exitError
	}
	fmt.Fprintf(stderr, "ferry %s: %v\n", c.name, err)
	return exitError
}

func help(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		return printed(stderr, fprint(stdout, overview()))
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return printed(stderr, fprint(stdout, c.page()))
		}
	}
	fmt.Fprintf(stderr, "ferry help: there is no command %q%s\nRun ferry help for the list of commands.\n", args[0], suggestion(args[0]))
	return exitUsage
}

// overview returns the output of "ferry help".
func overview() string {
	var b strings.Builder
	b.WriteString("Ferry moves data between Go and a GPU, and measures the cost.\n\nusage: ferry COMMAND [flags]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "  %-8s %s\n", c.name, c.summary)
	}
	fmt.Fprintf(&b, "  %-8s %s\n", "version", "print the version")
	fmt.Fprintf(&b, "  %-8s %s\n", "help", "describe a command: ferry help compare")
	b.WriteString("\n" + deviceHelp)
	return b.String()
}

// page returns the help of a command.
func (c *command) page() string {
	return fmt.Sprintf("usage: ferry %s\n\n%s", c.usage, c.help)
}

// suggestion proposes a command with a name that begins alike.
func suggestion(name string) string {
	for _, c := range commands() {
		if name != "" && (strings.HasPrefix(c.name, name) || strings.HasPrefix(name, c.name)) {
			return fmt.Sprintf("; did you mean %q?", c.name)
		}
	}
	return ""
}

// version returns the module's version, which contains the commit, and the toolchain.
func version() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "ferry (unknown version)"
	}
	return fmt.Sprintf("ferry %s %s %s/%s", build.Main.Version, build.GoVersion, runtime.GOOS, runtime.GOARCH)
}

func fprint(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

// printed returns the exit status of a command that only printed. It reports err, the
// error of printing.
func printed(stderr io.Writer, err error) int {
	if err != nil {
		fmt.Fprintf(stderr, "ferry: %v\n", err)
		return exitError
	}
	return exitOK
}
