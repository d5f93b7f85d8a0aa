package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ferrygpu/ferry/internal/layout"
)

// flagHelp returns the description of each flag of c, that of --help last.
func flagHelp(c *cobra.Command) string {
	type entry struct{ flag, text string }
	var entries []entry
	width := 0
	add := func(f *pflag.Flag) {
		name, text := describeFlag(f)
		entries, width = append(entries, entry{name, text}), max(width, len(name))
	}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			add(f)
		}
	})
	add(c.Flags().Lookup("help"))
	var b strings.Builder
	indent := strings.Repeat(" ", width+4)
	for _, e := range entries {
		lines := layout.Fold(indent+e.text, helpWidth)
		fmt.Fprintf(&b, "  %-*s  %s\n", width, e.flag, strings.TrimLeft(lines, " "))
	}
	return b.String()
}

// describeFlag returns a flag with the name of its value, and what it means.
func describeFlag(f *pflag.Flag) (flag, text string) {
	value, text := pflag.UnquoteUsage(f)
	flag = "    --" + f.Name
	if f.Shorthand != "" {
		flag = "-" + f.Shorthand + ", --" + f.Name
	}
	if f.Value.Type() == "bool" {
		return flag, text
	}
	if f.NoOptDefVal != "" {
		return flag + "[=" + value + "]", text
	}
	if d := f.DefValue; d != "" && d != "0" && d != "0s" && d != "[]" {
		text += fmt.Sprintf(" (%s)", d)
	}
	return flag + " " + value, text
}
