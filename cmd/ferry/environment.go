package main

import (
	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry/internal/layout"
	"github.com/ferrygpu/ferry/internal/variables"
)

// environmentHelp returns the page of the variables that Ferry reads.
func environmentHelp() string {
	p := new(layout.Page)
	p.Line("The variables that the command, programs that use Ferry, and libcuda.so.1 of ferry lib read. " +
		"A program with more rights than its user ignores those that name files. " +
		"Standard error names a variable that begins with FERRY_ and is none of these, once.\n\nvariables:")
	p.Table(listOf(variables.Ferry))
	p.Line("\nof others:")
	p.Table(listOf(variables.Others))
	return p.Text(helpWidth)
}

// listOf returns a list of variables. The longest name of one variable sets the column of texts.
func listOf(all []variables.Variable) *layout.Table {
	t := &layout.Table{Columns: []layout.Column{{}, {Words: true}}, Indent: 2}
	for _, v := range all {
		t.Row(v.Name, v.Text)
	}
	return t
}

// noteVariables names the variables in the environment that Ferry does not know. If the command
// runs a program, that does so itself when it opens a device.
func (s *session) noteVariables(c *cobra.Command) {
	if c.ArgsLenAtDash() >= 0 {
		return
	}
	if text := variables.Take(); text != "" {
		s.say("ferry: %s\n", text)
	}
}
