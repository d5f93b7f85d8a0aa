package ferry_test

import (
	"context"
	"os"
	"os/exec"
	"testing"
)

// helperVariable is set in a process that a test starts from its own binary. Its value is the
// name of the test.
const helperVariable = "FERRY_TEST_HELPER"

// inHelper reports whether this process was started by helper.
func inHelper(t *testing.T) bool { return os.Getenv(helperVariable) == t.Name() }

// helper returns a command that runs a test again, in a process where inHelper is true.
func helper(t *testing.T, environment ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*timeout)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, must(os.Executable())(t), "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(append(os.Environ(), helperVariable+"="+t.Name(), "FERRY_QUIET=1"), environment...)
	return cmd
}

// runHelper runs a test in another process, which must pass.
func runHelper(t *testing.T) {
	t.Helper()
	if out, err := helper(t).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
