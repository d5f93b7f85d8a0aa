package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

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

// manPage returns the manual page of a command as roff text. Its body is the text of the
// help, line by line, because that is formatted already.
func manPage(c *cobra.Command) string {
	var b strings.Builder
	name := manName(c)
	fmt.Fprintf(&b, ".TH %s 1 \"\" Ferry \"Ferry manual\"\n", roff(strings.ToUpper(name)))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(name), roff(c.Short))
	usage, body, ok := strings.Cut(page(c), "\n\n")
	if !ok || !strings.HasPrefix(usage, "usage: ") {
		usage, body = "", page(c)
	} else {
		manBlock(&b, "SYNOPSIS", strings.TrimPrefix(usage, "usage: "))
	}
	manBody(&b, body)
	if !isTopic(c) {
		manBlock(&b, "EXIT STATUS", exitHelp)
	}
	var others []string
	for _, o := range all(c.Root()) {
		if o != c {
			others = append(others, roff(manName(o))+"(1)")
		}
	}
	fmt.Fprintf(&b, ".SH SEE ALSO\n%s\n", strings.Join(others, ",\n"))
	return b.String()
}

// heading matches a line of help that begins a section, such as "flags:".
var heading = regexp.MustCompile(`^[a-z ]+:$`)

// manBody writes the sections of a page of help.
func manBody(b *strings.Builder, text string) {
	title, section := "DESCRIPTION", ""
	for line := range strings.Lines(text) {
		if heading.MatchString(strings.TrimSuffix(line, "\n")) {
			manBlock(b, title, section)
			title, section = strings.ToUpper(strings.TrimSuffix(line, ":\n")), ""
			continue
		}
		section += line
	}
	manBlock(b, title, section)
}

// manBlock writes a section whose lines stay as they are. It writes no empty section.
func manBlock(b *strings.Builder, title, text string) {
	if strings.Trim(text, "\n") == "" {
		return
	}
	fmt.Fprintf(b, ".SH %s\n.nf\n%s\n.fi\n", title, roff(strings.Trim(text, "\n")))
}

// roff escapes what roff would take for a command or for a hyphen.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, `-`, `\-`, `'`, `\(aq`, "`", "\\(ga", `"`, `\(dq`, `~`, `\(ti`, `^`, `\(ha`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
