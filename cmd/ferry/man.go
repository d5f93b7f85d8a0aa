package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/helptext"
	"github.com/ferrygpu/ferry/internal/outfile"
)

// newMan returns the command "ferry man".
func newMan(s *session) *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "man [--dir DIR] [COMMAND]",
		Short: "print a manual page, or write all to a folder",
		Long: `Prints the manual page of a command, or of ferry itself, for man. With --dir it
writes all pages to a folder: ferry.1, ferry-info.1 and so on.
`,
		Example: "  ferry man compare | man -l -\n  ferry man --dir ~/.local/share/man/man1",
		RunE: func(c *cobra.Command, words []string) error {
			of, err := find(c.Root(), words)
			switch {
			case err != nil:
				return err
			case dir == "":
				return s.write([]byte(manPage(of)))
			case len(words) > 0:
				return badUsage("--dir writes all pages, so %q is not expected here", words[0])
			}
			return writePages(c.Root(), dir)
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "write all pages to the folder `DIR`")
	return c
}

// writePages writes the manual pages of all commands to a folder.
func writePages(root *cobra.Command, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var pages []outfile.Contents
	for _, c := range all(root) {
		pages = append(pages, outfile.Contents{Path: filepath.Join(dir, manName(c)+".1"), Data: []byte(manPage(c))})
	}
	return outfile.WriteAll(pages...)
}

// manName returns the name of a command's page: "ferry-profile-list".
func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage returns the manual page of a command as roff text. Its body is the text of the help,
// which is filled anew.
func manPage(c *cobra.Command) string {
	var b strings.Builder
	name := manName(c)
	fmt.Fprintf(&b, ".TH %s 1 %s \"ferry %s\" \"Ferry manual\"\n", helptext.Escape(strings.ToUpper(name)), helptext.Escape(textDate()), helptext.Escape(moduleVersion()))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", helptext.Escape(name), helptext.Escape(c.Short))
	b.WriteString(helptext.Roff(helptext.Parse(page(c))))
	if !isTopic(c) {
		b.WriteString(".SH EXIT STATUS\n" + strings.TrimPrefix(helptext.Roff(helptext.Parse(exitHelp)), ".SH DESCRIPTION\n"))
	}
	var others []string
	for _, o := range all(c.Root()) {
		if o != c {
			others = append(others, helptext.Escape(manName(o))+"(1)")
		}
	}
	fmt.Fprintf(&b, ".SH SEE ALSO\n%s\n", strings.Join(others, ",\n"))
	return b.String()
}
