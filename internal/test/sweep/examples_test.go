package sweep

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/internal/unordered"
)

// An example is a program that a failing driver must not break: the test binary of a
// folder runs one of its examples by name, or the file is a program of its own.
type example struct{ name, dir, file string }

// TestExamples runs each example of the documentation and each program of examples in a
// process of its own, with calls that fail at random. It ends in time, with or without an
// error, but not by a fault of the program or of Ferry. It tries a third of them once, with
// [sample.Full] all of them 64 times.
func TestExamples(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command here")
	}
	random := sample.Rand(t)
	runs, failed := 0, 0
	for _, x := range slices.Concat(sample.OfEach(t, examples(t), func(x example) string { return x.dir }, 3), programs(t)) {
		for range sample.Count(1, 64) {
			runs++
			faults := fmt.Sprintf("seed:%d", random.Uint32())
			text, err := x.run(faults)
			if err != nil {
				failed++
			}
			if why := broken(text, err); why != "" {
				t.Errorf("%s, %s=%s: %s\n%s", x.name, fault.Variable, faults, why, text)
			}
		}
	}
	t.Logf("%d runs, %d of them ended with an error", runs, failed)
	if failed == 0 {
		t.Error("no run ended with an error")
	}
}

// repository is the root folder.
const repository = "../../.."

// examples builds the examples of the documentation.
func examples(t *testing.T) (all []example) {
	t.Helper()
	made := t.TempDir()
	for _, dir := range []string{repository, filepath.Join(repository, "pipeline"), filepath.Join(repository, "kerneltest")} {
		file := build(t, made, dir, "test", "-c")
		list, err := exec.Command(file, "-test.list", "^Example").Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range strings.Fields(string(list)) {
			all = append(all, example{name, dir, file})
		}
	}
	if len(all) < 40 {
		t.Fatalf("found %d examples", len(all))
	}
	return all
}

// programs builds a third of the programs in the folder examples, or all with [sample.Full]. The server is not among
// them, because it would not end.
func programs(t *testing.T) (all []example) {
	t.Helper()
	var found []string
	for _, pattern := range []string{"examples/*/main.go", "examples/*/*/main.go"} {
		files, err := filepath.Glob(filepath.Join(repository, filepath.FromSlash(pattern)))
		if err != nil || len(files) == 0 {
			t.Fatalf("found %d programs for %s: %v", len(files), pattern, err)
		}
		found = append(found, files...)
	}
	found = slices.DeleteFunc(found, func(path string) bool { return filepath.Base(filepath.Dir(path)) == "server" })
	made := t.TempDir()
	for _, p := range sample.Of(t, found, (len(found)+2)/3) {
		dir := filepath.Dir(p)
		all = append(all, example{filepath.Base(dir), dir, build(t, made, dir, "build")})
	}
	return all
}

// build builds the package in dir by the go command, without tables for debuggers.
func build(t *testing.T, made, dir string, args ...string) (file string) {
	t.Helper()
	abs, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(made, filepath.Base(abs))
	if unordered.Enabled {
		args = append(args, "-race")
	}
	c := exec.Command("go", append(args, "-ldflags=-w", "-o", file, ".")...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", c, err, out)
	}
	return file
}

// run runs the example with calls that fail. A process that hangs prints its stacks.
func (x example) run(faults string) (text string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), hung)
	defer cancel()
	c := exec.CommandContext(ctx, x.file)
	if strings.HasPrefix(x.name, "Example") {
		c.Args = append(c.Args, "-test.run", "^"+x.name+"$")
	}
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
