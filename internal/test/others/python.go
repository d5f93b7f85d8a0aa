package main

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// shim has what Python needs beside the tests: see its files.
//
//go:embed python/*.py
var shim embed.FS

// python runs tests of Python packages by pytest.
type python struct {
	command string   // the interpreter
	path    []string // folders of packages
	libs    []string // folders of libraries, beside that of libcuda.so.1
	limit   time.Duration
	only    string // of the names of tests, as pytest -k
	log     string // a file that gets what each test says, as lines of JSON, or ""
}

// outcome is a line that the plugin writes.
type outcome struct{ Test, State, Text string }

// suite tests packages, such as numba.cuda.tests.cudapy. A process that ends early, because a test
// hangs or loses the device, is followed by another for the tests that are left.
func (p *python) suite(ctx context.Context, lib, packages string) (*results, error) {
	dir, err := os.MkdirTemp("", "ferry-others-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	files, err := fs.Sub(shim, "python")
	if err != nil {
		return nil, err
	}
	if err := os.CopyFS(dir, files); err != nil {
		return nil, err
	}
	log := p.log
	if log == "" {
		log = filepath.Join(dir, "log")
	}
	for before := -1; ; {
		said, failed := p.once(ctx, dir, lib, log, strings.Fields(packages))
		r, n, hung, err := readOutcomes(log)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("no test of %s ran: %w: %s", packages, failed, said)
		case err != nil:
			return nil, err
		case n == before, finished(failed) && !hung:
			return r, ctx.Err()
		}
		before = n
	}
}

// finished reports whether pytest has run all tests: 1 says that tests failed, 5 that none were left.
func finished(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return err == nil || ok && (exit.ExitCode() == 1 || exit.ExitCode() == 5)
}

// once runs the tests that the log has not.
func (p *python) once(ctx context.Context, dir, lib, log string, packages []string) (said []byte, err error) {
	args := []string{"-m", "pytest", "-q", "-p", "ferry_others", "-p", "no:cacheprovider", "--rootdir=/", "--continue-on-collection-errors", "-o", "consider_namespace_packages=true", "-k", p.only, "--pyargs"}
	cmd := exec.CommandContext(ctx, p.command, append(args, packages...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(),
		"PYTHONPATH="+strings.Join(append([]string{dir}, p.path...), ":"),
		"LD_LIBRARY_PATH="+strings.Join(append([]string{lib}, p.libs...), ":"),
		"FERRY_OTHERS="+log, fmt.Sprintf("FERRY_OTHERS_LIMIT=%g", p.limit.Seconds()))
	return cmd.CombinedOutput()
}

// readOutcomes reads what the plugin wrote: the results, how many lines that are, and whether the last
// test did not end. A test that only started did not end.
func readOutcomes(log string) (r *results, n int, hung bool, err error) {
	text, err := os.ReadFile(log)
	if err != nil {
		return nil, 0, false, err
	}
	r = new(results)
	last := map[string]outcome{}
	var order []string
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var o outcome
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return nil, 0, false, fmt.Errorf("%s: %w", log, err)
		}
		if hung = o.State == "started"; hung {
			order = append(order, o.Test)
		}
		last[o.Test] = o
		n++
	}
	for _, test := range order {
		r.addOutcome(last[test])
	}
	return r, n, hung, lines.Err()
}

// addOutcome counts a test of Python.
func (r *results) addOutcome(o outcome) {
	name := path.Base(o.Test) // the file, and after :: what is in it
	switch o.State {
	case "passed":
		r.passed++
	case "skipped", "xfailed":
		r.skipped++
	case "started":
		r.failed = append(r.failed, failure{name, "it did not end"})
	default:
		r.failed = append(r.failed, failure{name, whyPython(o.Text)})
	}
}

var (
	machineCode = regexp.MustCompile(`requires nvJitLink|libcudadevrt|[Ll]ink time optimization|LTO|CUDA_ERROR_NO_BINARY_FOR_GPU|not supported by the driver API`)
	refusedCall = regexp.MustCompile(`(?:Call to |ferry: )(cu\w+)(?: results in|:) CUDA_ERROR_NOT_SUPPORTED`)
	refusedForm = regexp.MustCompile(`: ([a-z][\w.:]+): this form of`) // of an instruction
	lastLine    = regexp.MustCompile(`(?m)^E +(\w.*)$`)
)

// whyPython says why a test of Python failed.
func whyPython(text string) string {
	if strings.Contains(text, "CUDA_ERROR_NOT_SUPPORTED") {
		var names []string
		for _, m := range append(refusedCall.FindAllStringSubmatch(text, -1), refusedForm.FindAllStringSubmatch(text, -1)...) {
			if name := "`" + m[1] + "`"; !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		return refusedBegin + strings.Join(names, ", ")
	}
	lines := lastLine.FindAllStringSubmatch(text, -1)
	if machineCode.MatchString(text) {
		return machineCodeBegin
	}
	if len(lines) > 0 {
		return lines[len(lines)-1][1]
	}
	return "it says nothing"
}
