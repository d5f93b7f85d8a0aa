package checkrun

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ferrygpu/ferry/internal/checks"
	"github.com/ferrygpu/ferry/internal/inputfile"
)

// patience is how long a program may take to end after an interrupt.
const patience = 5 * time.Second

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
// status. The error is of a program that could not run or was interrupted. An interrupted
// program has a report, too.
func (p *Program) Run(ctx context.Context) (*Report, error) {
	dir, err := os.MkdirTemp("", "ferry-check-")
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", p.Args[0], err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "findings.json")
	r := &Report{Schema: Schema, Findings: []checks.Row{}, Notes: []checks.Row{}, GaveUp: []checks.GaveUp{}}
	err = p.run(ctx, path, r)
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	return r, errors.Join(err, r.read(path, p.Allow))
}

// nothing is what was watched of a program whose processes have opened no device.
const nothing = "watched: nothing: no process of the program has opened a device by package ferry"

// run runs the program until it ends, and notes how it did.
func (p *Program) run(ctx context.Context, path string, r *Report) error {
	c := exec.CommandContext(ctx, p.Args[0], p.Args[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, p.Stdout, p.Stderr
	c.Env = append(append(os.Environ(), p.Env...), checks.Variable+"=1", checks.ReportVariable+"="+path)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = patience
	err := c.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended && ctx.Err() == nil {
		return err
	}
	if c.ProcessState == nil {
		return ctx.Err() // it did not begin
	}
	r.Ended, r.Status = c.ProcessState.String(), c.ProcessState.ExitCode()
	if w, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		r.Status = 128 + int(w.Signal()) // as a shell says it
	}
	return ctx.Err()
}

// mostReport is the size of the largest file of findings that is read.
const mostReport = 64 << 20

// read reads the findings of all processes. The same text counts once.
func (r *Report) read(path string, allow []string) error {
	r.Watched = nothing
	given := givenUp{}
	defer func() { r.GaveUp = r.without(given.list(), allow) }()
	if lost, err := os.Stat(path + checks.LostSuffix); err == nil {
		given.add(checks.Row{GaveUp: &checks.GaveUp{Check: "report", What: "a process could not write to the file of findings: standard error has what it found", Count: max(1, int(lost.Size()))}})
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the findings: %w", err)
	}
	defer f.Close()
	about, err := f.Stat()
	cut := err == nil && about.Size() > mostReport
	if cut {
		given.add(checks.Row{GaveUp: &checks.GaveUp{Check: "report", What: fmt.Sprintf("the file of findings is larger than %d MiB: only its beginning was read", mostReport>>20), Count: 1}})
	}
	var watched []string
	seen := map[string]bool{}
	lines := bufio.NewScanner(io.LimitReader(f, mostReport))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var row checks.Row
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			if cut { // the last row that was read is not whole
				break
			}
			return fmt.Errorf("read the findings: %w", err)
		}
		switch {
		case row.GaveUp != nil:
			given.add(row)
			continue
		case row.Watched != "":
			if !slices.Contains(watched, row.Watched) {
				watched = append(watched, row.Watched)
			}
			continue
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
	if watched != nil {
		r.Watched = strings.Join(watched, "\n")
	}
	return lines.Err()
}

// without leaves out what is allowed, and counts it.
func (r *Report) without(list []checks.GaveUp, allow []string) []checks.GaveUp {
	return slices.DeleteFunc(list, func(g checks.GaveUp) bool {
		out := allowed(g.String(), allow)
		if out {
			r.Allowed++
		}
		return out
	})
}

// givenUp is what the checks of all processes gave up: the last count of each driver.
type givenUp map[givenKey]checks.GaveUp

type givenKey struct {
	process     int
	source      uint64
	check, what string
}

func (g givenUp) add(row checks.Row) {
	k := givenKey{row.Process, row.Source, row.GaveUp.Check, row.GaveUp.What}
	if row.GaveUp.Count > g[k].Count {
		g[k] = *row.GaveUp
	}
}

// list returns the sums of all drivers, in order.
func (g givenUp) list() []checks.GaveUp { return sumGaveUp(maps.Values(g)) }

// sumGaveUp returns the sums of equal rows, in order.
func sumGaveUp(rows iter.Seq[checks.GaveUp]) []checks.GaveUp {
	sums := map[[2]string]int{}
	for x := range rows {
		sums[[2]string{x.Check, x.What}] += x.Count
	}
	list := []checks.GaveUp{}
	for k, n := range sums {
		list = append(list, checks.GaveUp{Check: k[0], What: k[1], Count: n})
	}
	slices.SortFunc(list, func(x, y checks.GaveUp) int {
		return cmp.Or(cmp.Compare(x.Check, y.Check), cmp.Compare(x.What, y.What))
	})
	return list
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

// Text returns the report as text. The first line says what was watched.
func (r *Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.Watched)
	for i := range r.Findings {
		fmt.Fprintf(&b, "\n%s\n", r.Findings[i].Text)
		if again := r.Findings[i].Again; again != "" {
			fmt.Fprintf(&b, "  again: %s\n", again)
		}
	}
	for i := range r.Notes {
		fmt.Fprintf(&b, "\nnote: %s\n", r.Notes[i].Text)
	}
	for _, g := range r.GaveUp {
		fmt.Fprintf(&b, "\ngave up: %v\n", g)
	}
	r.writeSeeds(&b)
	fmt.Fprintf(&b, "\n%s, %s", Count(len(r.Findings), "finding"), Count(len(r.Notes), "note"))
	if r.Allowed > 0 {
		fmt.Fprintf(&b, ", %d allowed", r.Allowed)
	}
	if len(r.GaveUp) > 0 {
		b.WriteString("; the checks gave up something: there may be more")
	}
	return b.String() + "\n"
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
