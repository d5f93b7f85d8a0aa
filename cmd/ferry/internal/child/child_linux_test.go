package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/internal/test/gputest"
)

// await fails the test if a condition does not come.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 3000 {
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("after 30 seconds: %s", what)
}

// runs reports whether a process has not ended.
func runs(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	state := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])[0]
	return string(state) != "Z" && string(state) != "X"
}

// told starts a script, waits until it has printed n process ids, and tells it to end. It
// returns these processes, and how the script ended.
func told(t *testing.T, script string, n int, sig syscall.Signal) (pids []int, state *os.ProcessState, err error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	out := &gputest.Output{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		state, err = (&Program{Args: []string{"sh", "-c", script}, Stdout: out, Stderr: io.Discard}).Run(ctx)
	}()
	await(t, "the script does not run", func() bool { return strings.Count(out.String(), "\n") >= n })
	for word := range strings.FieldsSeq(out.String()) {
		var pid int
		if _, err := fmt.Sscan(word, &pid); err != nil {
			t.Fatalf("the script prints %q", word)
		}
		pids = append(pids, pid)
	}
	cancel(&Stop{sig})
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		t.Fatal("Run does not return")
	}
	return pids, state, err
}

// TestNoProcessLeft: when Run returns after a signal, no process of the program runs, whatever
// the program does with the signal.
func TestNoProcessLeft(t *testing.T) {
	defer func(d time.Duration) { patience = d }(patience)
	patience = 300 * time.Millisecond
	for name, script := range map[string]string{
		"alone":              `echo $$; exec sleep 600`,
		"a child":            `sleep 600 & echo $$ $!; wait`,
		"no interrupt":       `trap "" INT; sleep 600 & echo $$ $!; wait`,
		"no signal":          `trap "" INT TERM HUP QUIT; sleep 600 & echo $$ $!; wait; wait`,
		"the child has none": `(trap "" INT TERM HUP QUIT; exec sleep 600) & echo $$ $!; wait`,
		"stopped":            `sleep 600 & echo $$ $!; kill -STOP $! $$; wait`,
	} {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
			pids, state, err := told(t, script, 1, sig)
			if !errors.Is(err, context.Canceled) || state == nil {
				t.Errorf("%s, %v: Run returns %v, %v", name, sig, state, err)
			}
			for _, pid := range pids {
				if runs(pid) {
					t.Errorf("%s, %v: process %d still runs", name, sig, pid)
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
		}
	}
}

// TestHandedOn: the program and what it has started get the signal, and the time to end by
// themselves.
func TestHandedOn(t *testing.T) {
	const started = `trap : TERM; sh -c 'trap "exit 5" TERM; echo $$; while :; do sleep 0.05; done'; exit $((70 + $?))`
	if _, state, _ := told(t, started, 1, syscall.SIGTERM); state == nil || state.ExitCode() != 75 {
		t.Errorf("a program that waits for its own one ends with %v, want the status 75", state)
	}
	for sig, name := range map[syscall.Signal]string{syscall.SIGTERM: "TERM", syscall.SIGHUP: "HUP", syscall.SIGINT: "INT"} {
		script := `trap 'sleep 0.2; exit 77' ` + name + `; echo $$; while :; do sleep 0.05; done`
		_, state, err := told(t, script, 1, sig)
		if !errors.Is(err, context.Canceled) || state == nil || state.ExitCode() != 77 {
			t.Errorf("%v: Run returns %v, %v, want the status 77", sig, state, err)
		}
	}
}

// TestSecondSignal: a second signal kills a program that ignores the first, long before its
// patience ends.
func TestSecondSignal(t *testing.T) {
	defer func(d time.Duration) { patience = d }(patience)
	patience = time.Hour
	own := make(chan os.Signal, 1) // so that no signal ends this process
	signal.Notify(own, os.Interrupt)
	defer signal.Stop(own)
	out := &gputest.Output{}
	ended := make(chan error, 1)
	go func() {
		_, err := (&Program{Args: []string{"sh", "-c", `trap "" INT; echo $$; sleep 600; true`}, Stdout: out, Stderr: io.Discard}).Run(t.Context())
		ended <- err
	}()
	await(t, "the script does not run", func() bool { return strings.Contains(out.String(), "\n") })
	await(t, "the program is not killed", func() bool {
		_ = syscall.Kill(os.Getpid(), syscall.SIGINT)
		return len(ended) > 0
	})
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Run returns %v", err)
	}
}

// TestEndsByItself: a program that ends by itself is not interrupted, and what it leaves in the
// background goes on.
func TestEndsByItself(t *testing.T) {
	out := &gputest.Output{}
	state, err := (&Program{Args: []string{"sh", "-c", `sleep 600 >/dev/null 2>&1 & echo $!; exit 7`}, Stdout: out, Stderr: io.Discard}).Run(t.Context())
	if err != nil || state.ExitCode() != 7 {
		t.Errorf("Run returns %v, %v", state, err)
	}
	var pid int
	if _, err := fmt.Sscan(out.String(), &pid); err != nil || !runs(pid) {
		t.Errorf("the process %d in the background does not run (%v)", pid, err)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

// TestPipeStaysOpen: a program that ends and leaves a process which keeps its output open is no
// error.
func TestPipeStaysOpen(t *testing.T) {
	defer func(d time.Duration) { patience = d }(patience)
	patience = 100 * time.Millisecond
	out := &gputest.Output{}
	state, err := (&Program{Args: []string{"sh", "-c", `sleep 600 & echo $!`}, Stdout: out, Stderr: io.Discard}).Run(t.Context())
	if err != nil || state.ExitCode() != 0 {
		t.Errorf("Run returns %v, %v", state, err)
	}
	var pid int
	if _, err := fmt.Sscan(out.String(), &pid); err != nil || !runs(pid) {
		t.Errorf("the process %d in the background does not run (%v)", pid, err)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

// TestAfterwards: a signal ends the context for the work on the results.
func TestAfterwards(t *testing.T) {
	own := make(chan os.Signal, 1) // so that no signal ends this process or is ignored
	signal.Notify(own, syscall.SIGINT, syscall.SIGQUIT)
	defer signal.Stop(own)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT} {
		after, release := Afterwards(t.Context(), func() { t.Error("one signal abandons the work") })
		if after.Err() != nil {
			t.Error("the context has ended before")
		}
		_ = syscall.Kill(os.Getpid(), sig)
		await(t, "the context does not end", func() bool { return after.Err() != nil })
		if stop, ok := errors.AsType[*Stop](context.Cause(after)); !ok || stop.Signal != sig {
			t.Errorf("the cause is %v", context.Cause(after))
		}
		release()
	}
}

// TestNotBegun: a program that does not begin has no state.
func TestNotBegun(t *testing.T) {
	for _, name := range []string{"/no/such/program", "no-such-program", t.TempDir()} {
		state, err := (&Program{Args: []string{name}}).Run(t.Context())
		if _, ok := errors.AsType[*exec.Error](err); !ok || state != nil {
			t.Errorf("%s: %v, %v", name, state, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if state, err := (&Program{Args: []string{"sleep", "600"}}).Run(ctx); !errors.Is(err, context.Canceled) || state != nil {
		t.Errorf("after the end of the context: %v, %v", state, err)
	}
}
