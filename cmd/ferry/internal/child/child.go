package child

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// patience is how long a program may take to end after a signal. Then all its processes are
// killed.
var patience = 5 * time.Second

// Bounce is how soon after a signal another one counts as the same: timeout(1) sends its signal
// to the process and then to the group of the process.
const Bounce = 250 * time.Millisecond

// Program is a program to run.
type Program struct {
	Args           []string // the program and its arguments
	Env            []string // more variables of the environment
	Unset          []string // variables of this process that the program does not get
	Stdout, Stderr io.Writer
	Background     bool // it has neither the standard input nor the terminal of this process
}

// Stop is the cause of a context that a signal has ended.
type Stop struct{ Signal os.Signal }

// Error names the signal.
func (s *Stop) Error() string { return "stopped by the signal " + s.Signal.String() }

// Unwrap makes a Stop a [context.Canceled].
func (s *Stop) Unwrap() error { return context.Canceled }

// Run runs the program until it ends, and returns how it ended; nil if it did not begin. The
// error of one that did not begin is an [exec.Error]. If a signal or ctx ended the program, the
// error wraps that of a context. What the program leaves in the background is no error.
func (p *Program) Run(ctx context.Context) (*os.ProcessState, error) {
	c := exec.Command(p.Args[0], p.Args[1:]...)
	c.Stdout, c.Stderr = p.Stdout, p.Stderr
	if !p.Background {
		c.Stdin = os.Stdin
	}
	c.Env = append(p.environment(), p.Env...)
	c.WaitDelay = patience // for a pipe that another process keeps open
	prepare(c, p.Background)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, Ending()...)
	defer signal.Stop(signals)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ended, err := begin(c)
	if err != nil {
		return nil, notBegun(p.Args[0], err)
	}
	r := &run{group: newGroup(c, p.Background), ended: ended, signals: signals}
	defer r.group.close()
	err = r.wait(ctx)
	return c.ProcessState, err
}

// environment returns what the program gets of the variables of this process.
func (p *Program) environment() []string {
	return slices.DeleteFunc(os.Environ(), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(p.Unset, name)
	})
}

// Status returns the exit status of a program as a shell says it: 128 and the signal that ended it.
func Status(state *os.ProcessState) int {
	if w, ok := state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return state.ExitCode()
}

// Hold keeps signals from ending this process until the function that it returns is called. Who
// makes temporary files for a program holds signals until they are removed. See [Afterwards].
func Hold() (release func()) {
	dropped := make(chan os.Signal, 1)
	signal.Notify(dropped, Ending()...)
	return func() { signal.Stop(dropped) }
}

// statusInterrupted is the status of this process when a second signal ends it.
const statusInterrupted = 130

// Afterwards returns a context for the work on the results of a program that has ended. A signal
// ends the context, too. One more calls abandon and ends this process, so that nobody waits for
// a large result. Who calls it calls release when the work is done.
func Afterwards(ctx context.Context, abandon func()) (after context.Context, release func()) {
	signals, quit := make(chan os.Signal, 8), make(chan struct{})
	signal.Notify(signals, Ending()...)
	after, cancel := context.WithCancelCause(ctx)
	var told time.Time
	if ctx.Err() != nil {
		told = time.Now()
	}
	go func() {
		for {
			select {
			case <-quit:
				return
			case sig := <-signals:
				if told.IsZero() {
					told = time.Now()
					cancel(&Stop{sig})
				} else if time.Since(told) > Bounce {
					abandon()
					os.Exit(statusInterrupted)
				}
			}
		}
	}()
	return after, func() {
		signal.Stop(signals)
		close(quit)
		cancel(nil)
	}
}

// notBegun returns the error of a program that did not begin.
func notBegun(name string, err error) error {
	if _, ok := errors.AsType[*exec.Error](err); ok {
		return err
	}
	return &exec.Error{Name: name, Err: err}
}

// begin starts the program. The channel gets how it ended. The thread that starts it lives as
// long as the program: on Linux the kernel kills the program when this thread ends.
func begin(c *exec.Cmd) (<-chan error, error) {
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.Start()
		started <- err
		if err == nil {
			ended <- c.Wait()
		}
	}()
	return ended, <-started
}

// run is a program that runs.
type run struct {
	group   *group
	ended   <-chan error
	signals <-chan os.Signal
	handed  time.Time        // when the program was told to end
	grace   <-chan time.Time // ends its patience
	killed  bool             // what was left of it
}

// wait returns when the program has ended. If it was told to end, no process of its group is
// left.
func (r *run) wait(ctx context.Context) error {
	done := ctx.Done()
	for {
		select {
		case err := <-r.ended:
			return r.finish(ctx, err)
		case <-done:
			done = nil
			r.hand(signalOf(ctx))
		case sig := <-r.signals:
			r.signal(sig)
		case <-r.grace:
			r.kill()
		}
	}
}

// signalOf returns the signal that has ended a context, or an interrupt.
func signalOf(ctx context.Context) os.Signal {
	if stop, ok := errors.AsType[*Stop](context.Cause(ctx)); ok {
		return stop.Signal
	}
	return os.Interrupt
}

// signal hands a signal on. A second one kills at once.
func (r *run) signal(sig os.Signal) {
	switch {
	case r.handed.IsZero():
		r.hand(sig)
	case time.Since(r.handed) > Bounce:
		r.kill()
	}
}

// hand tells the program to end, once.
func (r *run) hand(sig os.Signal) {
	if r.handed.IsZero() {
		r.handed, r.grace = time.Now(), time.After(patience)
		r.group.send(sig)
	}
}

// pollEvery is how often it is looked whether a group has ended.
const pollEvery = 20 * time.Millisecond

// finish returns the error of a program that has ended. One that was told to end may have
// processes that did not: they get the rest of its patience.
func (r *run) finish(ctx context.Context, err error) error {
	if r.handed.IsZero() && !r.group.interrupted() {
		if _, exit := errors.AsType[*exec.ExitError](err); exit || errors.Is(err, exec.ErrWaitDelay) {
			return nil
		}
		return err
	}
	if r.grace == nil {
		r.handed, r.grace = time.Now(), time.After(patience)
	}
	for !r.killed && r.group.alive() {
		select {
		case sig := <-r.signals:
			r.signal(sig)
		case <-r.grace:
			r.kill()
		case <-time.After(pollEvery):
		}
	}
	r.rest()
	return stopped(ctx)
}

// kill ends what is left of the program at once.
func (r *run) kill() {
	r.killed = true
	r.group.kill()
}

// rest waits until the processes that were killed have ended. It does not wait for ever: a
// process that waits for a disk ends later, and where zombies are not known they count.
func (r *run) rest() {
	if !r.killed {
		return
	}
	r.group.kill() // what began since
	for n := 0; n < 50 && r.group.alive(); n++ {
		time.Sleep(pollEvery)
	}
}

// stopped returns the error of a program that a signal or a context ended.
func stopped(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return context.Canceled
}
