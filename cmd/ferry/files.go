package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ferrygpu/ferry/internal/outfile"
	"github.com/ferrygpu/ferry/internal/secureenv"
)

// outputFlags are the flags that name a file which is written. -o is checked by its commands, which
// write a file without it, too.
var outputFlags = []string{"html", "perfetto", "record", "save-profile", "out"}

// inputFlags are the flags that name files which are read, and what they are to a user; "" for none.
var inputFlags = map[string]string{"read": "", "against": "", "normal": "the reference", "ptx": "", "allow": "", "base": "the base"}

// wordNames are what the words of a command are to a user.
var wordNames = map[string]string{"ferry trace": "the recording", "ferry profile fit": "the measurements"}

// named is a file with what it is called in an error.
type named struct{ what, path string }

// checkFiles returns an error before a command begins if it would write a file that it also
// reads, or two results to one file, or a file that cannot be written. It changes nothing.
func checkFiles(c *cobra.Command) error {
	out := outputs(c)
	for i, o := range out {
		for _, other := range out[:i] {
			if outfile.Same(o.path, other.path) {
				return badUsage("%s %s: %s writes this file, too", o.what, o.path, other.what)
			}
		}
		for _, in := range inputs(c) {
			if outfile.Same(o.path, in.path) {
				return badUsage("%s %s would replace %s", o.what, o.path, cmp.Or(in.what, in.path))
			}
		}
	}
	for _, o := range out {
		if err := outfile.Check(o.path); err != nil {
			return fmt.Errorf("%s: %w", o.what, err)
		}
	}
	return nil
}

// outputs returns the files that the flags of a command tell it to write.
func outputs(c *cobra.Command) (all []named) {
	for _, name := range outputFlags {
		f := c.Flags().Lookup(name)
		if f == nil || !f.Changed || f.Value.String() == "" || f.Value.String() == "-" {
			continue
		}
		if what, _ := pflag.UnquoteUsage(f); what != "BYTES" { // of ferry advise
			all = append(all, named{"--" + name, f.Value.String()})
		}
	}
	return all
}

// inputs returns the files that a command reads: its words, what a program behind -- reads, the
// files of its flags, and the profile of its device.
func inputs(c *cobra.Command) (all []named) {
	words := c.Flags().Args()
	if dash := c.ArgsLenAtDash(); dash >= 0 && dash < len(words) {
		all = programFiles(words[dash:])
		words = words[:dash]
	}
	for _, word := range words {
		all = append(all, named{wordNames[c.CommandPath()], word})
	}
	for name, what := range inputFlags {
		if f := c.Flags().Lookup(name); f != nil {
			for _, path := range splitFiles(f.Value.String()) {
				all = append(all, named{what, path})
			}
		}
	}
	if f := c.Flags().Lookup("device"); f != nil {
		name, _, _ := strings.Cut(cmp.Or(f.Value.String(), secureenv.Device()), "*")
		if path, soft := strings.CutPrefix(name, "soft:"); soft && strings.HasSuffix(path, ".json") {
			all = append(all, named{"the profile of the device", path})
		}
	}
	return all
}

// programFiles returns the files that a program is known to read: itself, and arguments that are
// regular files. Other arguments mean what the program likes, such as a goal of make. What follows
// -o is what the program writes.
func programFiles(words []string) (all []named) {
	if path, err := exec.LookPath(words[0]); err == nil {
		all = append(all, named{"the program", path})
	}
	for i, word := range words[1:] {
		if info, err := os.Stat(word); err == nil && info.Mode().IsRegular() && strings.TrimLeft(words[i], "-") != "o" {
			all = append(all, named{word + ", an argument of the program", word})
		}
	}
	return all
}
