// Package checkrun runs a program with all checks of Ferry on, and reports what they have
// found: "ferry check".
package checkrun

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/ferrygpu/ferry/check"
	"github.com/ferrygpu/ferry/internal/checks"
)

// patience is how long a program may take to end after an interrupt.
const patience = 5 * time.Second

// Program is a program to run and check.
type Program struct {
	Args           []string // the program and its arguments
	Stdout, Stderr io.Writer
	Allow          []string // findings whose text has one of these are left out
}

// Report is what the checks have found.
type Report struct {
	Schema   string       `json:"schema"`
	Watched  string       `json:"watched"`
	Findings []checks.Row `json:"findings"`
	Notes    []checks.Row `json:"notes"`
	Allowed  int          `json:"allowed"` // findings that were left out
	Status   int          `json:"status"`  // of the program
}

// Schema names the form of the JSON document.
const Schema = "ferry.check/1"

// Run runs the program and returns what was found. If the program fails, the report has its
// status. The error is of a program that could not run or was interrupted.
func (p *Program) Run(ctx context.Context) (*Report, error) {
	dir, err := os.MkdirTemp("", "ferry-check-")
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", p.Args[0], err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "findings.json")
	status, err := p.run(ctx, path)
	if err != nil {
		return nil, err
	}
	r := &Report{Schema: Schema, Watched: check.Watched, Findings: []checks.Row{}, Notes: []checks.Row{}, Status: status}
	return r, r.read(path, p.Allow)
}

// run runs the program until it ends, and returns its status.
func (p *Program) run(ctx context.Context, path string) (int, error) {
	c := exec.CommandContext(ctx, p.Args[0], p.Args[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, p.Stdout, p.Stderr
	c.Env = append(os.Environ(), checks.Variable+"=1", checks.ReportVariable+"="+path)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = patience
	err := c.Run()
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return cmp.Or(max(ended.ExitCode(), 0), 1), nil
	}
	return 0, err
}

// mostReport is the size of the largest file of findings that is read.
const mostReport = 64 << 20

// read reads the findings of all processes. The same text counts once.
func (r *Report) read(path string, allow []string) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the findings: %w", err)
	}
	defer f.Close()
	seen := map[string]bool{}
	lines := bufio.NewScanner(io.LimitReader(f, mostReport))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var row checks.Row
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			return fmt.Errorf("read the findings: %w", err)
		}
		switch {
		case seen[row.Text]:
		case allowed(row.Text, allow):
			r.Allowed++
		case row.Note:
			r.Notes = append(r.Notes, row)
		default:
			r.Findings = append(r.Findings, row)
		}
		seen[row.Text] = true
	}
	return lines.Err()
}

func allowed(text string, allow []string) bool {
	for _, a := range allow {
		if strings.Contains(text, a) {
			return true
		}
	}
	return false
}

// ReadAllow reads a file of findings to leave out: a line is a text that they have. Empty
// lines and those that begin with # say nothing.
func ReadAllow(path string) (list []string, err error) {
	text, err := os.ReadFile(path)
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

// Text returns the report as text. The first line says what was watched.
func (r *Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.Watched)
	for i := range r.Findings {
		fmt.Fprintf(&b, "\n%s\n", r.Findings[i].Text)
	}
	for i := range r.Notes {
		fmt.Fprintf(&b, "\nnote: %s\n", r.Notes[i].Text)
	}
	fmt.Fprintf(&b, "\n%d findings, %d notes", len(r.Findings), len(r.Notes))
	if r.Allowed > 0 {
		fmt.Fprintf(&b, ", %d allowed", r.Allowed)
	}
	return b.String() + "\n"
}

// JSON returns the report as a document.
func (r *Report) JSON() ([]byte, error) { return json.Marshal(r) }
