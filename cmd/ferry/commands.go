package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry/internal/nearest"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/profile"
)

// The groups of commands in the overview.
const (
	groupMeasure = "measure"
	groupKernels = "kernels"
	groupOther   = "other"
)

// newRoot returns the command "ferry" with all its commands. To add one, write a file with
// its options and a function like newInfo, and add that here.
func newRoot(s *session) *cobra.Command {
	cobra.EnableCommandSorting = false // the most used first
	root := &cobra.Command{
		Use:   "ferry",
		Short: "moves data between Go and a GPU, and measures the cost",
		Args:  cobra.ArbitraryArgs, // unknownCommand has refused them
		RunE:  func(c *cobra.Command, _ []string) error { return showRoot(c, s) },
	}
	root.AddGroup(
		&cobra.Group{ID: groupMeasure, Title: "measure and compare:"},
		&cobra.Group{ID: groupKernels, Title: "kernels:"},
		&cobra.Group{ID: groupOther, Title: "other:"},
	)
	add(root, groupMeasure, newInfo(s), newCompare(s), newBench(s), newDiff(s), newTrace(s), newCheck(s), newLoad(s), newAdvise(s), newExplain(s), newDoctor(s), newProfile(s))
	add(root, groupKernels, newRun(s), newCompile(s), newBind(s), newCC(s), newLib(s), newRanks(s))
	help := newHelp(s)
	root.SetHelpCommand(help)
	add(root, groupOther, newVersion(s), newCompletion(s), newMan(s), help)
	root.AddCommand(topics()...)
	root.Flags().Bool("version", false, "print the version")
	configure(root, s)
	return root
}

// add adds commands of a group.
func add(root *cobra.Command, group string, all ...*cobra.Command) {
	for _, c := range all {
		c.GroupID = group
		root.AddCommand(c)
	}
}

// configure sets what all commands have in common: this program prints errors, usage and
// help itself.
func configure(root *cobra.Command, s *session) {
	root.SetOut(printable.Writer(s.stdout)) // completions
	root.SetErr(printable.Writer(s.stderr))
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { s.failed = s.showHelp(c) })
	root.SetFlagErrorFunc(flagError)
	root.PersistentPreRunE = func(c *cobra.Command, words []string) error {
		s.noteOutput(c)
		s.noteVariables(c, words)
		return firstError(s.checkPage(c), checkFiles(c))
	}
	for _, c := range all(root) {
		c.DisableFlagsInUseLine = true
		c.Flags().SortFlags = false
		c.InitDefaultHelpFlag()
		c.Flags().Lookup("help").Usage = "show this help"
	}
}

// all returns a command and all commands below it.
func all(c *cobra.Command) []*cobra.Command {
	out := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		out = append(out, all(sub)...)
	}
	return out
}

// newGroup returns a command that only has commands below it, such as "ferry profile".
func newGroup(use, short, long string, below ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use:   use,
		Short: short,
		Long:  long,
		Args:  cobra.ArbitraryArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(below...)
	return c
}

// takesWords is the annotation of a command that has words of its own beside the commands
// below it.
const takesWords = "words"

// unknownCommand returns an error if args are no flags of c, which has commands below it.
func unknownCommand(c *cobra.Command, args []string) error {
	if !c.HasSubCommands() || c.Annotations[takesWords] != "" || len(args) == 0 || args[0] == "" || args[0][0] == '-' || isCompletion(args[0]) {
		return nil
	}
	switch device, file := deviceOf(args[0]), fileCommand(args[0]); {
	case c.Name() == "profile" && slices.Contains(profile.Names(), args[0]):
		return badUsage("there is no command %q%s", args[0], ask("ferry profile show "+args[0]))
	case device != "":
		return badUsage("there is no command %q%s", args[0], ask("ferry info --device "+shellWord(device)))
	case file != "":
		return badUsage("there is no command %q%s", args[0], ask(file))
	}
	return badUsage("there is no command %q; %s", args[0], nearest.Ask(args[0], names(c)))
}

// isCompletion reports whether a word is the command by which shells ask for completions.
func isCompletion(word string) bool {
	return word == cobra.ShellCompRequestCmd || word == cobra.ShellCompNoDescRequestCmd
}

// names returns the names of the commands below c that do something, in the order of help.
func names(c *cobra.Command) (out []string) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			out = append(out, sub.Name())
		}
	}
	return out
}

// find returns the command with a path, such as "profile", "show". It returns an error
// for a path that is none.
func find(root *cobra.Command, path []string) (*cobra.Command, error) {
	c := root
	for _, word := range path {
		i := slices.IndexFunc(c.Commands(), func(sub *cobra.Command) bool { return sub.Name() == word })
		if i < 0 {
			return nil, badUsage("there is no command %q; %s", word, nearest.Ask(word, names(c)))
		}
		c = c.Commands()[i]
	}
	return c, nil
}
