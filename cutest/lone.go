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

// caseVariable names the one case that a process started by another runs.
const caseVariable = "FERRY_CUTEST_CASE"

// lonely is a suite for one case that may leave its driver useless.
func lonely(open func(testing.TB) cu.Driver, t times, parent testing.TB) *suite {
	return &suite{open: open, times: t, parent: parent, lone: true}
}

// withFreshDriver judges a case on a driver that is opened for it and left behind.
func (s *suite) withFreshDriver(t testing.TB, k check) *T {
	one := lonely(s.open, s.times, s.parent)
	one.start(t)
	c := one.judge(t, k)
	s.hangs += one.hangs
	return c
}

// childOf is the case that this process was started for, if it was for one.
func childOf() (id string, ok bool) { return os.LookupEnv(caseVariable) }

// runChecks is what a process does that was started for one case.
func runChecks(t *testing.T, open func(testing.TB) cu.Driver, id string, checks []check) {
	s := lonely(open, usual, t)
	s.start(t)
	for _, k := range checks {
		if k.id == id {
			t.Run(k.id, func(t *testing.T) { s.one(t, k) })
		}
	}
	s.writeJSON(t)
}

// inProcess starts the test binary again for one case and takes over its result.
func (c *T) inProcess(k check) {
	dir, err := os.MkdirTemp("", "cutest")
	if err != nil {
		c.fail("folder for a result: %v", err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "result.json")
	out, ended := c.child(k, path)
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
	c.takeOver(doc.Cases[0], out)
}

// child runs the test of this suite in a process that knows the one case.
func (c *T) child(k check, path string) (out []byte, err error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), usual.limit+2*usual.grace)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, "-test.v", "-test.run="+pattern(c.suite.parent.Name()))
	cmd.Env = append(os.Environ(), caseVariable+"="+k.id, jsonVariable+"="+path)
	if k.needs&needLaunchBlocking != 0 {
		cmd.Env = append(cmd.Env, "CUDA_LAUNCH_BLOCKING=1")
	}
	out, err = cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	return out, err
}

// pattern is what makes -test.run choose exactly the test of that name.
func pattern(name string) string {
	return "^" + strings.ReplaceAll(regexp.QuoteMeta(name), "/", "$/^") + "$"
}

// takeOver makes the result of another process the case's own.
func (c *T) takeOver(r result, out []byte) {
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
