package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/helptext"
)

// helpWidth is the number of columns of all help.
const helpWidth = 80

// deviceHelp explains the names of devices. The page of each command with a device ends
// with it.
const deviceHelp = `devices:
  (none)       that of FERRY_DEVICE, else an NVIDIA GPU, else the software GPU
  cuda         the first NVIDIA GPU; cuda:1 is the second
  cuda:GPU-ID  the one whose UUID begins so; cuda:0000:1b:00.0, the one there
  soft         the software GPU, which runs anywhere and predicts an H200
  soft:NAME    the software GPU as another machine: FILE.json, or one of h200,
               h100-pcie, a100, rtx-4090, gh200, orin, jetson-tx2, fermi-c2050,
               tesla-c1060
`

// exitHelp is the table of exit statuses.
const exitHelp = `The exit status of every command:

  0    success
  1    an error: the device, a file or the output failed
  2    usage: the command line is wrong, and nothing was done
  3    found: the command did its work and found something, such as a row that
       is slower than the noise
  4    gave up: checks found nothing, but did not follow everything
  130  interrupted by Ctrl-C, SIGTERM or SIGHUP; bench and compare then write
       the results so far, and mark them as partial

A file of results is written beside its place, and then replaces what was there:
a full disk or an interrupt leaves the old file. What is no regular file is
refused, but for /dev/stdout, /dev/stderr, /dev/fd/N and /dev/null.

trace and check hand an interrupt on to the program and to all that it has
started. After 5 seconds, or another interrupt, what still runs is killed.

A standard output that is full is an error. If it is /dev/null, opened for
reading and writing, a command says so before it begins, and does its work: Go
puts that in the place of a closed one. It says nothing if a flag names a file
for the result, and bind and check say nothing.
`

// topics returns the pages of help that belong to no command.
func topics() []*cobra.Command {
	return []*cobra.Command{
		{Use: "devices", Short: "the names of devices", Long: deviceHelp},
		{Use: "environment", Short: "the variables of the environment", Long: environmentHelp()},
		{Use: "exit", Short: "the exit statuses", Long: exitHelp},
	}
}

// isTopic reports whether c is only a page of help.
func isTopic(c *cobra.Command) bool { return !c.Runnable() && !c.HasSubCommands() }

// newHelp returns the command "ferry help".
func newHelp(s *session) *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "describe a command: ferry help compare",
		Long:    "Describes a command or a topic. Without one it lists the commands.\n",
		Example: "  ferry help compare\n  ferry help profile list\n  ferry help exit",
		RunE: func(c *cobra.Command, words []string) error {
			of, err := find(c.Root(), words)
			if err != nil {
				return err
			}
			return s.showHelp(of)
		},
		ValidArgsFunction: func(c *cobra.Command, words []string, _ string) (out []cobra.Completion, _ cobra.ShellCompDirective) {
			of, err := find(c.Root(), words)
			if err == nil {
				for _, sub := range of.Commands() {
					out = append(out, cobra.CompletionWithDesc(sub.Name(), sub.Short))
				}
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// showHelp writes the help of a command.
func (s *session) showHelp(c *cobra.Command) error {
	return s.write([]byte(arrangeHelp(page(c), s.columns)))
}

// arrangeHelp returns a text of help in a number of columns, 0 for as many as it has. Fewer than
// it has get it filled anew.
func arrangeHelp(text string, columns int) string {
	if columns <= 0 || columns >= helpWidth {
		return text
	}
	return helptext.Page(helptext.Parse(text)).Text(columns)
}

// page returns the help of a command, at most helpWidth columns wide.
func page(c *cobra.Command) string {
	switch {
	case !c.HasParent():
		return overview(c)
	case isTopic(c):
		return c.Long
	}
	var b strings.Builder
	fmt.Fprintf(&b, "usage: %s\n\n%s", c.UseLine(), c.Long)
	if c.HasSubCommands() {
		b.WriteString("\ncommands:\n")
		list(&b, c.Commands())
	}
	if c.HasExample() {
		fmt.Fprintf(&b, "\nexamples:\n%s\n", c.Example)
	}
	fmt.Fprintf(&b, "\nflags:\n%s", flagHelp(c))
	if c.Flags().Lookup("device") != nil {
		b.WriteString("\n" + deviceHelp)
	}
	return b.String()
}

// overview returns the output of "ferry help".
func overview(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("Ferry moves data between Go and a GPU, and measures the cost.\n\nusage: ferry COMMAND [flags]\n")
	for _, g := range root.Groups() {
		fmt.Fprintf(&b, "\n%s\n", g.Title)
		list(&b, inGroup(root, g.ID))
	}
	b.WriteString("\ntopics, by ferry help TOPIC:\n")
	for _, c := range root.Commands() {
		if isTopic(c) {
			list(&b, []*cobra.Command{c})
		}
	}
	b.WriteString("\n" + deviceHelp)
	return b.String()
}

// inGroup returns the commands of a group.
func inGroup(root *cobra.Command, group string) (out []*cobra.Command) {
	for _, c := range root.Commands() {
		if c.GroupID == group {
			out = append(out, c)
		}
	}
	return out
}

// list writes a line for each command.
func list(b *strings.Builder, all []*cobra.Command) {
	for _, c := range all {
		fmt.Fprintf(b, "  %-11s %s\n", c.Name(), c.Short)
	}
}
