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

	"github.com/ferrygpu/ferry/cmd/ferry/internal/child"
	"github.com/ferrygpu/ferry/internal/outfile"
	"github.com/ferrygpu/ferry/trace"
)

// Program is a program to run and record.
type Program struct {
	Args           []string // the program and its arguments
	Stdout, Stderr io.Writer
	Keep           string // file for the recording; "" for one that is deleted
	Limit          int64  // of the recording in bytes; 0 for the default
}

// Run runs the program with FERRY_TRACE and returns its recording. If the program fails
// or ctx ends, the error says so and the recording has what is there.
//
// A recording that is kept grows in a folder beside its file, FILE.part-N, until the program has
// ended. Then it replaces the file. If there is no recording, or the disk was full and there was
// a file, the file stays.
func (p *Program) Run(ctx context.Context) (*trace.Recording, error) {
	if len(p.Args) == 0 {
		return nil, errors.New("record a program: none was given")
	}
	defer child.Hold()()
	dir, err := p.folder()
	if err != nil {
		return nil, fmt.Errorf("record %s: %w", p.Args[0], err)
	}
	path := filepath.Join(dir, recordingName)
	failed := p.run(ctx, path)
	if start, ok := errors.AsType[*exec.Error](failed); ok {
		return nil, errors.Join(start, os.RemoveAll(dir))
	}
	rec, err := trace.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%s has opened no device with ferry, so there is no recording", p.Args[0])
	}
	return rec, errors.Join(failed, err, p.keep(dir, rec))
}

// recordingName is the name of a recording in the folder where it grows.
const recordingName = "recording.json"

// folder makes the folder where the recording grows. Its name is absolute, because the program
// may run in another folder.
func (p *Program) folder() (dir string, err error) {
	if p.Keep != "" {
		dir, err = outfile.Folder(p.Keep)
	}
	if err == nil && dir == "" {
		if dir, err = os.MkdirTemp("", "ferry-trace-"); err == nil {
			dir, err = filepath.Abs(dir)
		}
	}
	if err == nil && strings.Contains(dir, "%p") {
		os.Remove(dir)
		err = fmt.Errorf("the file is in %q, but %%p is for %s, not for a program that is reported", dir, trace.Variable)
	}
	return dir, err
}

// keep puts the recordings of a folder in the place of the file, and removes the folder. Those
// of other processes have the process id behind their names.
func (p *Program) keep(dir string, rec *trace.Recording) error {
	others, _ := filepath.Glob(filepath.Join(dir, recordingName+".*"))
	if p.Keep == "" {
		if len(others) > 0 {
			fmt.Fprintf(p.Stderr, "ferry: %d more processes were recorded at the same time, and are not in this report: set %s=FILE-%%p instead\n", len(others), trace.Variable)
		}
		return os.RemoveAll(dir)
	}
	path := filepath.Join(dir, recordingName)
	if _, err := os.Stat(p.Keep); err == nil && writeFailed(rec) {
		return fmt.Errorf("%s stays as it was, because the new recording could not be written whole: %s; what there is of it is in %s", p.Keep, rec.Why, path)
	}
	var err error
	if _, none := os.Stat(path); none == nil {
		err = outfile.Move(path, p.Keep)
	}
	for _, other := range others {
		err = errors.Join(err, outfile.Move(other, p.Keep+strings.TrimPrefix(other, path)))
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// writeFailed reports whether rows of a recording are lost because the file could not be
// written, as on a full disk, and not because of its limit.
func writeFailed(rec *trace.Recording) bool {
	return rec != nil && rec.Why != "" && !strings.HasPrefix(rec.Why, "the limit of ")
}

// run runs the program until it ends.
func (p *Program) run(ctx context.Context, path string) error {
	c := child.Program{Args: p.Args, Stdout: p.Stdout, Stderr: p.Stderr, Env: []string{trace.Variable + "=" + path}}
	if p.Limit > 0 {
		c.Env = append(c.Env, fmt.Sprintf("%s=%d", trace.LimitVariable, p.Limit))
	}
	state, err := c.Run(ctx)
	if err != nil || state.Success() {
		return err
	}
	return fmt.Errorf("%s ended with %v", p.Args[0], state)
}
