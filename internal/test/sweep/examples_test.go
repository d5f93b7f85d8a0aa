package sweep

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/internal/unordered"
)

// An example is a program that a failing driver must not break.
type example struct {
	name, dir string
	command   []string
}

// TestExamples runs each example of the documentation and each program of examples in a
// process of its own, with calls that fail at random. It ends in time, with or without an
// error, but not by a fault of the program or of Ferry.
func TestExamples(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command here")
	}
	all := examples(t)
	seeds := uint64(max(1, 8/part()))
	if *full {
		seeds = 64
	}
	runs, failed := 0, 0
	for _, x := range all {
		for i := range seeds {
			runs++
			text, err := x.run(fmt.Sprintf("seed:%d", *seed%1e9+i))
			if err != nil {
				failed++
			}
			if why := broken(text, err); why != "" {
				t.Errorf("%s, %s=seed:%d: %s\n%s", x.name, fault.Variable, *seed%1e9+i, why, text)
			}
		}
	}
	t.Logf("%d examples, %d runs, %d of them ended with an error; -seed %d", len(all), runs, failed, *seed)
}

// examples builds the examples.
func examples(t *testing.T) (all []example) {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	made := t.TempDir()
	build := func(dir string, args ...string) (file string) {
		if unordered.Enabled {
			args = append(args, "-race")
		}
		file = filepath.Join(made, filepath.Base(dir))
		c := exec.Command("go", append(args, "-o", file, ".")...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", c, err, out)
		}
		return file
	}
	for _, dir := range []string{root, filepath.Join(root, "pipeline"), filepath.Join(root, "kerneltest")} {
		file := build(dir, "test", "-c")
		list, err := exec.Command(file, "-test.list", "^Example").Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range strings.Fields(string(list)) {
			all = append(all, example{name, dir, []string{file, "-test.run", "^" + name + "$"}})
		}
	}
	programs, err := filepath.Glob(filepath.Join(root, "examples", "*", "*", "main.go"))
	if err != nil || len(programs) == 0 || len(all) < 40 {
		t.Fatalf("found %d examples and %d programs: %v", len(all), len(programs), err)
	}
	for _, p := range programs {
		dir := filepath.Dir(p)
		all = append(all, example{filepath.Base(dir), dir, []string{build(dir, "build")}})
	}
	return all
}

// run runs the example with calls that fail. A process that hangs prints its stacks.
func (x example) run(faults string) (text string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), hung)
	defer cancel()
	c := exec.CommandContext(ctx, x.command[0], x.command[1:]...)
	c.Dir = x.dir
	c.Env = append(os.Environ(), fault.Variable+"="+faults, "FERRY_DEVICE=soft", "FERRY_QUIET=1")
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGQUIT) }
	c.WaitDelay = 5 * time.Second
	out, err := c.CombinedOutput()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return string(out), err
}

// theirs matches a panic of an example that has got an error of a call.
var theirs = regexp.MustCompile(`(?m)^panic: .*CUDA_ERROR_`)

// broken says what is wrong with how an example ended, "" if nothing is. The output may be
// another one, because some examples ignore errors, or do without what the device lacks.
func broken(text string, err error) string {
	switch {
	case err == context.DeadlineExceeded:
		return "hangs"
	case strings.Contains(text, "runtime error"), strings.Contains(text, "fatal error"), strings.Contains(text, "DATA RACE"):
		return "a fault of the program"
	case strings.Contains(text, "panic: ") && !theirs.MatchString(text):
		return "a panic without an error of the driver"
	}
	return ""
}

// TestBroken: the judgement of examples finds what it must find.
func TestBroken(t *testing.T) {
	exit := &exec.ExitError{}
	for text, want := range map[string]bool{
		"PASS": false,
		"2026/01/01 copy: CUDA_ERROR_OUT_OF_MEMORY: not enough": false,
		"panic: close: CUDA_ERROR_OUT_OF_MEMORY: not enough":    false,
		"panic: BUG: no stream":                                 true,
		"panic: runtime error: invalid memory address":          true,
		"fatal error: all goroutines are asleep - deadlock!":    true,
		"--- FAIL: ExampleCopy\ngot:\n0\nwant:\n1":              false,
	} {
		err := error(exit)
		if text == "PASS" {
			err = nil
		}
		if got := broken(text, err); (got != "") != want {
			t.Errorf("%q: got %q", text, got)
		}
	}
	if broken("", context.DeadlineExceeded) == "" {
		t.Error("an example that hangs is not found")
	}
}
