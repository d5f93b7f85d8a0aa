package cutest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// caseVariable is the environment variable that names the one case of a child process.
const caseVariable = "FERRY_CUTEST_CASE"

// isolatedSuite makes a suite for one case that may make its driver unusable.
func isolatedSuite(open func(testing.TB) cu.Driver, t times, parent testing.TB) *suite {
	return &suite{open: open, times: t, parent: parent, isolated: true}
}

// reopens reports whether a driver that is opened again has a device of its own, so that no process
// is needed for it. A library in C has one for each process, also where it is emulated.
func reopens(d cu.Driver) bool {
	_, one := cu.As[interface{ oneInProcess() }](d)
	return cu.AsEmulated(d) != nil && !one
}

// runOnFreshDriver runs a case on a driver that is opened for this case.
func (s *suite) runOnFreshDriver(t testing.TB, k check) *trial {
	one := isolatedSuite(s.open, s.times, s.parent)
	one.start(t)
	c := one.runCase(t, k)
	s.hangs += one.hangs
	return c
}

// childOf returns the case that this process was started for, if it is a child.
func childOf() (id string, ok bool) { return os.LookupEnv(caseVariable) }

// runChecks runs one case in a process that was started for it.
func runChecks(t *testing.T, open func(testing.TB) cu.Driver, id string, checks []check) {
	s := isolatedSuite(open, defaultTimes, t)
	s.start(t)
	for _, k := range checks {
		if k.id == id {
			t.Run(k.id, func(t *testing.T) { s.runSubtest(t, k) })
		}
	}
	s.writeJSON(t)
}

// runInProcess starts the test binary again for one case and uses its result.
func (c *trial) runInProcess(k check) {
	dir, err := os.MkdirTemp("", "cutest")
	if err != nil {
		c.fail("folder for a result: %v", err)
		return
	}
	defer os.RemoveAll(dir)
	c.inProcess(k, filepath.Join(dir, "result.json"), nil)
}

// inProcess runs a case in a process of its own, with more variables in its environment, and files
// that it inherits. The result of the case there is that of this one.
func (c *trial) inProcess(k check, path string, variables []string, files ...*os.File) {
	out, ended := c.child(k, path, variables, files)
	data, err := os.ReadFile(path)
	if err != nil {
		c.fail("the process for this case ended without a result: %v\n%.4000s", ended, out)
		return
	}
	var doc document
	if err := json.Unmarshal(data, &doc); err != nil || len(doc.Cases) != 1 {
		c.fail("the process for this case gave %d results (%v)", len(doc.Cases), err)
		return
	}
	c.useResult(doc.Cases[0], out)
}

// child runs the test of this suite in a process for the one case.
func (c *trial) child(k check, path string, variables []string, files []*os.File) (out []byte, err error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), defaultTimes.limit+2*defaultTimes.grace)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, "-test.v", "-test.run="+pattern(c.suite.parent.Name()))
	cmd.ExtraFiles = files
	cmd.Env = append(append(os.Environ(), caseVariable+"="+k.id, jsonVariable+"="+path), variables...)
	if k.needs&needLaunchBlocking != 0 {
		cmd.Env = append(cmd.Env, "CUDA_LAUNCH_BLOCKING=1")
	}
	out, err = cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	return out, err
}

// pattern returns the value of -test.run that selects exactly the test of that name.
func pattern(name string) string {
	return "^" + strings.ReplaceAll(regexp.QuoteMeta(name), "/", "$/^") + "$"
}

// useResult makes the result of another process the result of the case.
func (c *trial) useResult(r result, out []byte) {
	for name, value := range r.Observed {
		c.observe(name, value)
	}
	switch r.Result {
	case "pass":
	case "skip":
		c.skipped = r.Reason
	default:
		c.fail("in a process of its own: %s\n%.4000s", r.Reason, out)
	}
}
