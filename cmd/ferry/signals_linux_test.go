package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/internal/test/gputest"
	"golang.org/x/sys/unix"
)

// mainVariable makes the test binary the command: its arguments, one a line.
const mainVariable = "FERRY_TEST_MAIN"

// TestMainProgram is the program of the tests below.
func TestMainProgram(t *testing.T) {
	words := os.Getenv(mainVariable)
	if words == "" {
		t.Skip("a program for other tests")
	}
	os.Unsetenv(mainVariable)
	os.Args = append([]string{"ferry"}, strings.Split(words, "\n")...)
	main()
}

// process is the command as a process of its own.
type process struct {
	*exec.Cmd
	t     *testing.T
	tmp   string // its folder for temporary files
	ended chan struct{}
	out   gputest.Output
}

// newProcess prepares the command with arguments.
func newProcess(t *testing.T, args ...string) *process {
	own := make(chan os.Signal, 1) // a signal that this process ignores is ignored in the command, too
	signal.Notify(own, os.Interrupt, syscall.SIGQUIT)
	t.Cleanup(func() { signal.Stop(own) })
	p := &process{Cmd: exec.Command(os.Args[0], "-test.run=^TestMainProgram$"), t: t, tmp: t.TempDir(), ended: make(chan struct{})}
	p.Env = append(os.Environ(), mainVariable+"="+strings.Join(args, "\n"), "TMPDIR="+p.tmp)
	p.Stdout, p.Stderr = &p.out, &p.out
	p.WaitDelay = time.Second
	return p
}

// start starts the command. It is killed at the end of the test.
func (p *process) start() {
	p.t.Helper()
	if err := p.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.Wait()
	}()
	p.t.Cleanup(func() { _ = p.Process.Kill(); <-p.ended })
}

// await fails the test if a condition does not come.
func (p *process) await(what string, is func() bool) {
	p.t.Helper()
	for range 3000 {
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.t.Fatalf("after 30 seconds not %s; the output is\n%s", what, p.out.String())
}

// says waits until the output has a text.
func (p *process) says(text string) {
	p.t.Helper()
	p.await("printed "+text, func() bool { return strings.Contains(p.out.String(), text) })
}

// pids waits until the program has printed "pids" and numbers, and returns these.
func (p *process) pids() (all []int) {
	p.t.Helper()
	p.says("pids ")
	p.await("a whole line", func() bool { return strings.Contains(p.out.String()[strings.Index(p.out.String(), "pids "):], "\n") })
	_, line, _ := strings.Cut(p.out.String(), "pids ")
	line, _, _ = strings.Cut(line, "\n")
	for word := range strings.FieldsSeq(line) {
		var pid int
		if _, err := fmt.Sscan(word, &pid); err != nil {
			p.t.Fatalf("the program prints %q", line)
		}
		all = append(all, pid)
		p.t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	}
	return all
}

// ends waits until the command has ended, and returns its status.
func (p *process) ends() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(30 * time.Second):
		p.t.Fatalf("the command does not end; the output is\n%s", p.out.String())
	}
	return p.ProcessState.ExitCode()
}

// state returns the state of a process, such as "S" and "T"; "" if there is none.
func state(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	return string(bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])[0])
}

func runs(pid int) bool { s := state(pid); return s != "" && s != "Z" && s != "X" }

// nothingLeft fails the test if a process runs or a temporary file is there.
func (p *process) nothingLeft(pids []int) {
	p.t.Helper()
	for _, pid := range pids {
		if runs(pid) {
			p.t.Errorf("process %d still runs", pid)
		}
	}
	if left, err := filepath.Glob(filepath.Join(p.tmp, "ferry-*")); len(left) > 0 {
		p.t.Errorf("temporary files stay: %q, %v", left, err)
	}
}

// TestSignals: a signal ends the program with all that it has started, and leaves no temporary
// folder. The status is that of an interrupt.
func TestSignals(t *testing.T) {
	const script = `trap "" INT; sh -c 'echo pids $PPID $$; exec sleep 600'; true`
	for _, command := range []string{"trace", "check", "ranks -n 1"} {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
			p := newProcess(t, append(strings.Fields(command), "--", "sh", "-c", script)...)
			p.start()
			pids := p.pids()
			_ = p.Process.Signal(sig)
			if status := p.ends(); status != exitInterrupted || !strings.Contains(p.out.String(), "interrupted") {
				t.Errorf("%s, %v: status %d\n%s", command, sig, status, p.out.String())
			}
			p.nothingLeft(pids)
		}
	}
}

// TestSecondSignal: a second signal kills a program that ignores the first, and what it has
// started. The temporary folder is removed.
func TestSecondSignal(t *testing.T) {
	p := newProcess(t, "check", "--seeds", "9", "--", "sh", "-c", `trap "echo told" INT; (trap "" INT; exec sleep 600) & echo pids $$ $!; while :; do wait; done`)
	p.start()
	pids := p.pids()
	_ = p.Process.Signal(os.Interrupt)
	p.says("told")
	p.await("ended by more interrupts", func() bool {
		_ = p.Process.Signal(os.Interrupt) // those that come too soon count as the first
		return !runs(pids[0]) && !runs(pids[1])
	})
	<-p.ended
	p.nothingLeft(pids)
}

// TestSecondSignalAfterwards: when the program has ended and its results are read, a second
// signal ends the command, and leaves no temporary folder. Here the results are a pipe.
func TestSecondSignalAfterwards(t *testing.T) {
	kept := filepath.Join(t.TempDir(), "kept.json")
	for _, args := range [][]string{{"trace"}, {"check"}, {"trace", "--record", kept}} {
		p := newProcess(t, append(args, "--", "sh", "-c", `f=$FERRY_TRACE$FERRY_CHECK_REPORT; rm -f "$f"; mkfifo "$f"; echo "path $f ."`)...)
		p.start()
		p.says(" .\n")
		_, path, _ := strings.Cut(p.out.String(), "path ")
		path, _, _ = strings.Cut(path, " .\n")
		w, err := os.OpenFile(path, os.O_WRONLY, 0) // waits until the command reads
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		p.await("ended by interrupts", func() bool {
			_ = p.Process.Signal(os.Interrupt)
			select {
			case <-p.ended:
				return true
			default:
				return false
			}
		})
		if status := p.ends(); status != exitInterrupted {
			t.Errorf("%v: status %d\n%s", args, status, p.out.String())
		}
		p.nothingLeft(nil)
		if _, err := os.Stat(path); (err == nil) != (len(args) > 1) || err == nil && !strings.Contains(p.out.String(), "the recording is in "+filepath.Dir(path)) {
			t.Errorf("%v: %v\n%s", args, err, p.out.String())
		}
	}
}

// TestInterruptedAndMore: an interrupt does not hide another error.
func TestInterruptedAndMore(t *testing.T) {
	kept := filepath.Join(t.TempDir(), "kept.json")
	write(t, kept, "old")
	p := newProcess(t, "trace", "--record", kept, "--", "sh", "-c", `echo bad >"$FERRY_TRACE"; echo pids $$; exec sleep 600`)
	p.start()
	p.pids()
	_ = p.Process.Signal(syscall.SIGTERM)
	status := p.ends()
	if status != exitInterrupted || !strings.Contains(p.out.String(), "ferry trace: interrupted\n") || !strings.Contains(p.out.String(), kept+" stays as it was") || strings.Contains(p.out.String(), "context canceled") {
		t.Errorf("status %d\n%s", status, p.out.String())
	}
}

// TestOutputNotWanted: with /dev/null as standard output the program gets that itself. What it
// leaves in the background is no error.
func TestOutputNotWanted(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, command := range []string{"trace", "check"} {
		p := newProcess(t, command, "--", "sh", "-c", `echo "to $(readlink /proc/$$/fd/1)" >&2; sleep 600 2>/dev/null & echo pids $! >&2`)
		p.Stdout = null
		p.start()
		pids := p.pids()
		p.ends()
		if text := p.out.String(); !strings.Contains(text, "to /dev/null\n") || strings.Contains(text, "WaitDelay") || !runs(pids[0]) {
			t.Errorf("%s:\n%s", command, text)
		}
	}
}

// TestGoRun: go run ignores an interrupt, and dies of SIGTERM without its program. Nothing stays.
func TestGoRun(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module sleeps\n\ngo 1.26\n")
	write(t, filepath.Join(dir, "main.go"), `package main

func main() {
	println("pids", getpid(), getppid())
	sleep()
}
`)
	write(t, filepath.Join(dir, "os.go"), "package main\n\nimport (\n\t\"os\"\n\t\"time\"\n)\n\nfunc getpid() int { return os.Getpid() }\nfunc getppid() int { return os.Getppid() }\nfunc sleep() { time.Sleep(time.Hour) }\n")
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := newProcess(t, "trace", "--", "go", "run", ".")
		p.Dir = dir
		p.Env = append(p.Env, "GOFLAGS=", "GOWORK=off", "GOPROXY=off", "CGO_ENABLED=0")
		p.start()
		pids := p.pids()
		_ = p.Process.Signal(sig)
		if status := p.ends(); status != exitInterrupted {
			t.Errorf("%v: status %d\n%s", sig, status, p.out.String())
		}
		p.nothingLeft(pids)
	}
}

// TestKilled: when the command is killed, the kernel kills the program.
func TestKilled(t *testing.T) {
	p := newProcess(t, "trace", "--", "sh", "-c", "echo pids $$; exec sleep 600")
	p.start()
	pids := p.pids()
	_ = p.Process.Kill()
	p.await("killed with the command", func() bool { return !runs(pids[0]) })
}

// TestRecordToDescriptor: a recording can be kept in an open descriptor, such as >(COMMAND).
func TestRecordToDescriptor(t *testing.T) {
	p := newProcess(t, traced(t, "end", "--record", "/dev/stderr")...)
	p.start()
	if status := p.ends(); status != exitOK || !strings.Contains(p.out.String(), `{"schema":"ferry.trace/1"`) || !strings.Contains(p.out.String(), "[CUDA memcpy HtoD]") {
		t.Errorf("status %d\n%s", status, p.out.String())
	}
	p.nothingLeft(nil)
}

// TestNoHangUp: under nohup a hang-up ends nothing, and neither Ctrl-C nor Ctrl-\ does in the
// background of a script.
func TestNoHangUp(t *testing.T) {
	for trap, signals := range map[string][]os.Signal{"HUP": {syscall.SIGHUP}, "INT QUIT": {os.Interrupt, syscall.SIGQUIT}} {
		p := newProcess(t, "trace", "--", "sh", "-c", "echo pids $$; exec sleep 600")
		p.Path, p.Args = "/bin/sh", append([]string{"sh", "-c", `trap "" ` + trap + `; exec "$@"`, "sh"}, p.Args...)
		p.start()
		pids := p.pids()
		for _, sig := range signals {
			_ = p.Process.Signal(sig)
		}
		time.Sleep(200 * time.Millisecond)
		if !runs(pids[0]) || !runs(p.Process.Pid) {
			t.Errorf("%v has ended the program", signals)
		}
		_ = p.Process.Signal(syscall.SIGTERM)
		if status := p.ends(); status != exitInterrupted {
			t.Errorf("%s: status %d", trap, status)
		}
		p.nothingLeft(pids)
	}
}

// onTerminal starts the command with a new terminal, and returns the keyboard of that.
func (p *process) onTerminal() io.Writer {
	p.t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		p.t.Skip(err)
	}
	p.t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err = errors.Join(err, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)); err != nil {
		p.t.Skip(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		p.t.Skip(err)
	}
	defer slave.Close()
	p.Stdin, p.Stdout, p.Stderr = slave, slave, slave
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	p.start()
	go func() { _, _ = io.Copy(&p.out, master) }()
	return master
}

// TestTerminal: a program reads from the terminal, also the second time, and Ctrl-C ends it and
// the seeds that come after it, whether it has read or not.
func TestTerminal(t *testing.T) {
	p := newProcess(t, "check", "--", "sh", "-c", `read a; echo "first $a"; read b; echo "second $b"`)
	keys := p.onTerminal()
	for _, word := range []string{"first", "second"} {
		fmt.Fprintf(keys, "%s-line\n", word)
		p.says(word + " " + word + "-line")
	}
	if status := p.ends(); status != exitOK {
		t.Errorf("status %d\n%s", status, p.out.String())
	}
	for _, script := range []string{`echo pids $$; sleep 600`, `read a; echo pids $$; sleep 600`} {
		p := newProcess(t, "check", "--seeds", "9", "--", "sh", "-c", script)
		keys := p.onTerminal()
		if strings.HasPrefix(script, "read") {
			fmt.Fprintln(keys, "x")
		}
		pids := p.pids()
		fmt.Fprint(keys, "\x03")
		if status := p.ends(); status != exitInterrupted || strings.Contains(p.out.String(), "seed 2") {
			t.Errorf("%s: status %d\n%s", script, status, p.out.String())
		}
		p.nothingLeft(pids)
	}
}

// TestSuspended: Ctrl-Z stops the program and the command, and the shell continues both.
func TestSuspended(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	for _, script := range []string{`echo pids $$; exec sleep 600`, `read a; echo pids $$; exec sleep 600`} {
		p := newProcess(t, "trace", "--", "sh", "-c", script)
		p.Path, p.Args = bash, append([]string{"bash", "-c", `set -m; "$@"; echo "stopped $?"; read x; fg; echo "ended $?"`, "sh"}, p.Args...)
		keys := p.onTerminal()
		if strings.HasPrefix(script, "read") {
			fmt.Fprintln(keys, "x")
		}
		pids := p.pids()
		fmt.Fprint(keys, "\x1a")
		p.says("stopped 149")
		p.await("stopped", func() bool { return state(pids[0]) == "T" })
		fmt.Fprintln(keys, "x")
		p.await("continued", func() bool { return state(pids[0]) == "S" })
		time.Sleep(100 * time.Millisecond) // the terminal is given after that
		fmt.Fprint(keys, "\x03")
		p.says("ended 130")
		p.nothingLeft(pids)
	}
}
