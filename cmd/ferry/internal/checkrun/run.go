package checkrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/child"
	"github.com/ferrygpu/ferry/internal/checks"
	"github.com/ferrygpu/ferry/internal/inputfile"
	"github.com/ferrygpu/ferry/internal/layout"
	"github.com/ferrygpu/ferry/internal/outfile"
)

// Program is a program to run and check.
type Program struct {
	Args           []string // the program and its arguments
	Stdout, Stderr io.Writer
	Env            []string // more variables of the environment
	Allow          []string // findings, and what was given up, whose text has one of these are left out
}

// Report is what the checks have found.
type Report struct {
	Schema   string          `json:"schema"`
	Watched  string          `json:"watched"` // a line for each way in which processes were watched
	Findings []checks.Row    `json:"findings"`
	Notes    []checks.Row    `json:"notes"`
	GaveUp   []checks.GaveUp `json:"gave_up"` // what the checks did not follow to the end: with such a row there may be more findings
	Allowed  int             `json:"allowed"` // findings that were left out
	Status   int             `json:"status"`  // of the program; 128 and the signal that ended it
	Ended    string          `json:"ended"`   // how the program ended: "exit status 1", "signal: killed"
	Seeds    []SeedRun       `json:"seeds,omitempty"`
}

// Schema names the form of the JSON document.
const Schema = "ferry.check/1"

// Run runs the program and returns what was found. If the program fails, the report has its
// status. The error is of a program that could not run or was interrupted. One that has begun
// has a report, too.
func (p *Program) Run(ctx context.Context) (*Report, error) {
	defer child.Hold()()
	path, err := newFindings()
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", p.Args[0], err)
	}
	defer os.RemoveAll(filepath.Dir(path))
	r := &Report{Schema: Schema, Findings: []checks.Row{}, Notes: []checks.Row{}, GaveUp: []checks.GaveUp{}}
	began, err := p.run(ctx, path, r)
	if !began {
		return nil, err
	}
	after, release := child.Afterwards(ctx, func() { os.RemoveAll(filepath.Dir(path)) })
	defer release()
	err = errors.Join(err, r.read(path, p.Allow))
	return r, errors.Join(err, after.Err())
}

// newFindings makes an empty file of findings, and the file that says that it is whole. Both
// have a folder of their own. The path is absolute, because processes of the program may run in
// other folders.
func newFindings() (path string, err error) {
	dir, err := os.MkdirTemp("", "ferry-check-")
	if err != nil {
		return "", err
	}
	full, err := filepath.Abs(dir)
	path = filepath.Join(full, "findings.json")
	if err = errors.Join(err, outfile.Write(path, nil), outfile.Write(path+checks.WholeSuffix, nil)); err != nil {
		os.RemoveAll(dir)
		return "", err
	}
	return path, nil
}

// nothing is what was watched of a program whose processes have opened no device.
const nothing = "watched: nothing: no process of the program has opened a device by package ferry"

// run runs the program until it ends, and notes how it did.
func (p *Program) run(ctx context.Context, path string, r *Report) (began bool, err error) {
	c := child.Program{Args: p.Args, Stdout: p.Stdout, Stderr: p.Stderr}
	c.Env = append(slices.Clone(p.Env), checks.Variable+"=1", checks.ReportVariable+"="+path)
	state, err := c.Run(ctx)
	if state == nil {
		return false, err
	}
	r.Ended, r.Status = state.String(), child.Status(state)
	return true, err
}

// ReadAllow reads a file of findings to leave out: a line is a text that they have, in which " ... "
// stands for anything. Empty lines and those that begin with # say nothing.
func ReadAllow(path string) (list []string, err error) {
	text, err := inputfile.Read(path, inputfile.Document)
	if err != nil {
		return nil, fmt.Errorf("read allowed findings: %w", err)
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			list = append(list, line)
		}
	}
	return list, nil
}

// Page returns the report. The first line says what was watched.
func (r *Report) Page() *layout.Page {
	p := new(layout.Page)
	p.Line(r.Watched)
	for i := range r.Findings {
		p.Line("\n" + r.Findings[i].Text)
		if again := r.Findings[i].Again; again != "" {
			p.Exact("  again: " + again + "\n") // a command of a shell
		}
	}
	for i := range r.Notes {
		p.Line("\nnote: " + r.Notes[i].Text)
	}
	for _, g := range r.GaveUp {
		p.Linef("\ngave up: %v", g)
	}
	r.addSeeds(p)
	end := fmt.Sprintf("\n%s, %s", Count(len(r.Findings), "finding"), Count(len(r.Notes), "note"))
	if r.Allowed > 0 {
		end += fmt.Sprintf(", %d allowed", r.Allowed)
	}
	if len(r.GaveUp) > 0 {
		end += "; the checks gave up something: there may be more"
	}
	p.Line(end)
	return p
}

// Count returns a number with what it counts: "1 finding", "2 findings".
func Count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// JSON returns the report as a document.
func (r *Report) JSON() ([]byte, error) { return json.Marshal(r) }
