package main

import (
	"bytes"

	"github.com/spf13/cobra"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/document"
	htmlpage "github.com/ferrygpu/ferry/cmd/ferry/internal/page"
	"github.com/ferrygpu/ferry/cmd/ferry/internal/tracereport"
	"github.com/ferrygpu/ferry/internal/outfile"
	"github.com/ferrygpu/ferry/trace"
)

// htmlFlag adds the flag --html. Before the command begins, [session.checkPage] and
// [checkFiles] check it; [session.writeReport] writes the file.
func htmlFlag(c *cobra.Command, s *session) {
	c.Flags().StringVar(&s.html, "html", "", "write a page with charts and tables to `FILE`, too: one HTML file that needs no network")
}

// noPageWith are flags whose reports have no page.
var noPageWith = []string{"against", "list", "perfetto"}

// checkPage returns an error before a command begins that has no page.
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
	return nil
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
	shown(false, rec) // by the page
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
	return outfile.Write(s.html, b.Bytes())
}
