package child

import (
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the terminal that controls this process. The program runs in the background, so
// Ctrl-C reaches this process, which hands it on. The kernel stops a program of the background
// that reads from the terminal or changes it. Then it gets the terminal.
type terminal struct {
	f          *os.File
	own, group int // process groups

	mu   sync.Mutex
	lent bool // the program has had the terminal

	suspend chan os.Signal // SIGTSTP, by Ctrl-Z
	quit    chan struct{}
	workers sync.WaitGroup
}

// newTerminal returns the terminal for a program, or nil if this process has none.
func newTerminal(c *exec.Cmd) *terminal {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	t := &terminal{f: f, own: unix.Getpgrp(), group: c.Process.Pid, suspend: make(chan os.Signal, 1), quit: make(chan struct{})}
	signal.Notify(t.suspend, syscall.SIGTSTP)
	t.workers.Go(t.watch)
	t.workers.Go(t.follow)
	return t
}

// close takes the terminal back. The program has ended.
func (t *terminal) close() {
	if t == nil {
		return
	}
	signal.Stop(t.suspend)
	close(t.quit)
	t.workers.Wait()
	if t.foreground() == t.group {
		t.give(t.own)
	}
	t.f.Close()
}

// wasLent reports whether the program has had the terminal, so that Ctrl-C reached it alone.
func (t *terminal) wasLent() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lent
}

// watch waits for stops of the program, until it ends.
func (t *terminal) watch() {
	for {
		sig, stopped := nextStop(t.group)
		if !stopped {
			return
		}
		t.stopped(sig)
	}
}

// stopped handles a stop of the program.
func (t *terminal) stopped(sig syscall.Signal) {
	wants := sig == syscall.SIGTTIN || sig == syscall.SIGTTOU
	switch t.foreground() {
	case t.own:
		if wants {
			t.lend()
		}
	case t.group:
		t.give(t.own) // Ctrl-Z while the program has the terminal
		pause()
		if t.foreground() == t.own {
			t.lend()
		} else {
			t.resume()
		}
	default:
		if wants { // all of the job is in the background
			pause()
			if t.foreground() == t.own {
				t.lend()
			}
		}
	}
}

// lend gives the terminal to the program, and lets it go on.
func (t *terminal) lend() {
	t.mu.Lock()
	t.lent = true
	t.mu.Unlock()
	t.give(t.group)
	t.resume()
}

// resume lets a program that was stopped go on.
func (t *terminal) resume() { _ = syscall.Kill(-t.group, syscall.SIGCONT) }

// follow stops the program and this process when Ctrl-Z stops the job.
func (t *terminal) follow() {
	for {
		select {
		case <-t.quit:
			return
		case <-t.suspend:
			_ = syscall.Kill(-t.group, syscall.SIGTSTP)
			pause()
			t.resume()
		}
	}
}

// pause stops this process, until the shell continues it. Where no shell could, the kernel
// does not stop it. The signal is SIGTTIN, because Go keeps its handler of SIGTSTP.
func pause() {
	runtime.LockOSThread() // the signal is taken before this thread goes on
	defer runtime.UnlockOSThread()
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGTTIN)
}

// foreground returns the process group that has the terminal, or -1.
func (t *terminal) foreground() int {
	group, err := unix.IoctlGetInt(int(t.f.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return group
}

// give gives the terminal to a process group. The kernel would stop a process of the background
// that does so, unless the thread blocks SIGTTOU.
func (t *terminal) give(group int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var block, before unix.Sigset_t
	block.Val[0] = 1 << (unix.SIGTTOU - 1)
	if unix.PthreadSigmask(unix.SIG_BLOCK, &block, &before) == nil {
		defer unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
	}
	_ = unix.IoctlSetPointerInt(int(t.f.Fd()), unix.TIOCSPGRP, group)
}
