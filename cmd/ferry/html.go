package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/document"
	htmlpage "github.com/ferrygpu/ferry/cmd/ferry/internal/page"
	"github.com/ferrygpu/ferry/cmd/ferry/internal/tracereport"
	"github.com/ferrygpu/ferry/trace"
)

// htmlFlag adds the flag --html. Before the command begins, [session.checkPage] checks the
// file; [session.writeReport] writes it.
func htmlFlag(c *cobra.Command, s *session) {
	c.Flags().StringVar(&s.html, "html", "", "write a page with charts and tables to `FILE`, too: one HTML file that needs no network")
}

// noPageWith are flags whose reports have no page.
var noPageWith = []string{"against", "list", "perfetto"}

// checkPage returns an error before a command begins whose page could not be written.
func (s *session) checkPage(c *cobra.Command) error {
	f := c.Flags().Lookup("html")
	switch {
	case f == nil || !f.Changed:
		return nil
	case s.html == "" || s.html == "-":
		return badUsage("--html %s: want the name of a file", s.html)
	}
	for _, name := range noPageWith {
		if f := c.Flags().Lookup(name); f != nil && f.Changed {
			return badUsage("--html and --%s: want one of them", name)
		}
	}
	for _, path := range inputs(c) {
		if sameFile(path, s.html) {
			return badUsage("--html %s would replace %s", s.html, path)
		}
	}
	return s.tryPage()
}

// inputs returns the files that a command reads, or keeps beside the page.
func inputs(c *cobra.Command) []string {
	paths := c.Flags().Args()
	for _, name := range []string{"read", "record", "normal", "save-profile", "ptx"} {
		if f := c.Flags().Lookup(name); f != nil {
			paths = append(paths, splitFiles(f.Value.String())...)
		}
	}
	return paths
}

// tryPage opens the file of the page for writing, and leaves it as it was. It does not open a
// pipe, which could wait for its reader.
func (s *session) tryPage() error {
	if info, err := os.Stat(s.html); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return nil
	}
	_, missing := os.Lstat(s.html)
	f, err := os.OpenFile(s.html, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	err = f.Close()
	if missing != nil {
		err = errors.Join(err, os.Remove(s.html))
	}
	return err
}

// writePage writes the page of a report, if --html asks for one.
func (s *session) writePage(r report) error {
	if s.html == "" {
		return nil
	}
	if _, ok := r.(*tracereport.Summary); ok {
		return nil // its page needs the recording
	}
	text, err := r.JSON()
	if err == nil {
		text, err = document.Indent(markPartial(text, s.partial))
	}
	if err != nil {
		return err
	}
	p, err := htmlpage.Of(text)
	return s.renderPage(p, err)
}

// writeRecording writes the page of a recording, if --html asks for one.
func (s *session) writeRecording(rec *trace.Recording) error {
	if s.html == "" {
		return nil
	}
	p, err := htmlpage.OfRecording(rec, tracereport.Summarize(rec))
	return s.renderPage(p, err)
}

func (s *session) renderPage(p *htmlpage.Page, err error) error {
	var b bytes.Buffer
	if err == nil {
		err = p.Render(&b)
	}
	if err != nil {
		return err
	}
	return writeAtomic(s.html, b.Bytes())
}
