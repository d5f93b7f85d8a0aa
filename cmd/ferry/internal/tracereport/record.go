package tracereport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/ferrygpu/ferry/trace"
)

// patience is how long a program may take to end after an interrupt.
const patience = 5 * time.Second

// Program is a program to run and record.
type Program struct {
	Args           []string // the program and its arguments
	Stdout, Stderr io.Writer
	Keep           string // file for the recording; "" for one that is deleted
	Limit          int64  // of the recording in bytes; 0 for the default
}

// Run runs the program with FERRY_TRACE and returns its recording. If the program fails
// or ctx ends, the error says so and the recording has what is there. The program ends
// itself after an interrupt from the terminal, which it gets too.
func (p *Program) Run(ctx context.Context) (*trace.Recording, error) {
	if len(p.Args) == 0 {
		return nil, errors.New("record a program: none was given")
	}
	path := p.Keep
	if strings.Contains(path, "%p") {
		return nil, fmt.Errorf("record %s: the file is %q, but %%p is for %s, not for a program that is reported", p.Args[0], path, trace.Variable)
	}
	if path == "" {
		dir, err := os.MkdirTemp("", "ferry-trace-")
		if err != nil {
			return nil, fmt.Errorf("record %s: %w", p.Args[0], err)
		}
		defer os.RemoveAll(dir)
		path = filepath.Join(dir, "recording.json")
	} else if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("record %s: %w", p.Args[0], err) // else an old recording could be taken for this one
	}
	failed := p.run(ctx, path)
	if start, ok := errors.AsType[*exec.Error](failed); ok {
		return nil, start
	}
	if others, _ := filepath.Glob(path + ".*"); len(others) > 0 && p.Keep == "" {
		fmt.Fprintf(p.Stderr, "ferry: %d more processes were recorded at the same time, and are not in this report: set %s=FILE-%%p instead\n", len(others), trace.Variable)
	}
	rec, err := Read(path)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%s has opened no device with ferry, so there is no recording", p.Args[0])
	}
	return rec, errors.Join(failed, err)
}

// run runs the program until it ends.
func (p *Program) run(ctx context.Context, path string) error {
	full, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, p.Args[0], p.Args[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, p.Stdout, p.Stderr
	c.Env = append(os.Environ(), trace.Variable+"="+full)
	if p.Limit > 0 {
		c.Env = append(c.Env, fmt.Sprintf("%s=%d", trace.LimitVariable, p.Limit))
	}
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = patience
	if err := c.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, ok := errors.AsType[*exec.Error](err); ok {
			return err
		}
		if c.Process == nil {
			return &exec.Error{Name: p.Args[0], Err: err}
		}
		return fmt.Errorf("%s ended with %w", p.Args[0], err)
	}
	return ctx.Err()
}
