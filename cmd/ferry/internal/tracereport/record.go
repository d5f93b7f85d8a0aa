package tracereport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/child"
	"github.com/ferrygpu/ferry/internal/outfile"
	"github.com/ferrygpu/ferry/trace"
)

// Program is a program to run and record.
type Program struct {
	Args           []string // the program and its arguments
	Stdout, Stderr io.Writer
	Env            []string // more variables of the environment
	Keep           string   // file for the recording; "" for one that is deleted
	Limit          int64    // of the recording in bytes; 0 for the default
}

// Run runs the program with FERRY_TRACE and returns its recording. If the program fails
// or ctx ends, the error says so and the recording has what is there.
//
// A recording that is kept grows in a folder beside its file, FILE.part-N, until the program has
// ended. Then it replaces the file. A file that is there stays if the new one is no recording, or
// the disk was full. The error then names the folder.
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
	after, release := child.Afterwards(ctx, func() { p.abandon(dir) })
	defer release()
	rec, err := trace.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("there is no recording: %s has opened no device with ferry, or could not begin its recording: see standard error", p.Args[0])
	}
	err = errors.Join(failed, err, p.keep(dir, rec))
	return rec, errors.Join(err, after.Err())
}

// abandon ends the work on the recordings of a folder early. It deletes them unless they are
// kept.
func (p *Program) abandon(dir string) {
	if p.Keep == "" {
		os.RemoveAll(dir)
	} else if _, err := os.Stat(dir); err == nil {
		fmt.Fprintf(os.Stderr, "ferry: the recording is in %s\n", dir)
	}
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
	main, others, err := recordings(dir)
	if p.Keep == "" {
		if len(others) > 0 {
			fmt.Fprintf(p.Stderr, "ferry: %d more processes were recorded at the same time, and are not in this report: set %s=FILE-%%p instead\n", len(others), trace.Variable)
		}
		return errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		return fmt.Errorf("keep the recordings in %s: %w", dir, err)
	}
	path := filepath.Join(dir, recordingName)
	if main {
		if _, none := os.Stat(p.Keep); none == nil && unfit(rec) != "" {
			return fmt.Errorf("%s stays as it was, because %s; what there is of it is in %s", p.Keep, unfit(rec), path)
		}
		err = outfile.Move(path, p.Keep)
	}
	for _, suffix := range others {
		err = errors.Join(err, outfile.Move(path+suffix, p.Keep+suffix))
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// recordings looks for the recording of a folder, and for those of other processes. It returns
// what these have behind the name, such as ".123".
func recordings(dir string) (main bool, others []string, err error) {
	list, err := os.ReadDir(dir)
	for _, e := range list {
		suffix, ok := strings.CutPrefix(e.Name(), recordingName)
		switch {
		case ok && suffix == "":
			main = true
		case ok && suffix[0] == '.':
			others = append(others, suffix)
		}
	}
	return main, others, err
}

// unfit says why a recording must not replace a file; "" if it may. nil is a file that is no
// recording. Rows that are lost because of the limit do not count.
func unfit(rec *trace.Recording) string {
	switch {
	case rec == nil:
		return "the new file is no recording"
	case rec.Why != "" && !strings.HasPrefix(rec.Why, "the limit of "):
		return "the new recording could not be written whole: " + rec.Why
	}
	return ""
}

// run runs the program until it ends.
func (p *Program) run(ctx context.Context, path string) error {
	c := child.Program{Args: p.Args, Stdout: p.Stdout, Stderr: p.Stderr}
	c.Env = append(slices.Clone(p.Env), trace.Variable+"="+path)
	if p.Limit > 0 {
		c.Env = append(c.Env, fmt.Sprintf("%s=%d", trace.LimitVariable, p.Limit))
	}
	state, err := c.Run(ctx)
	if err != nil || state.Success() {
		return err
	}
	return fmt.Errorf("%s ended with %v", p.Args[0], state)
}
