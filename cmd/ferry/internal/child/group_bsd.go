//go:build unix && !linux

package child

import (
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// prepare gives the program a process group of its own. If this process has the terminal, and
// reads and writes it, the group gets it, but for a program of the background.
func prepare(c *exec.Cmd, background bool) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if !background && foreground(syscall.Stdin) && foreground(syscall.Stdout) {
		c.SysProcAttr.Foreground, c.SysProcAttr.Ctty = true, syscall.Stdin
	}
}

// foreground reports whether a descriptor is the terminal that this process has.
func foreground(descriptor int) bool {
	group, err := unix.IoctlGetInt(descriptor, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// groupRuns reports true: whether a process of a group is a zombie is not known.
func groupRuns(int) bool { return true }

// terminal is the terminal that a program has.
type terminal struct{}

// newTerminal returns the terminal of a program, or nil if it has none.
func newTerminal(c *exec.Cmd) *terminal {
	if !c.SysProcAttr.Foreground {
		return nil
	}
	return &terminal{}
}

// wasLent reports whether the program has the terminal, so that Ctrl-C reaches it alone.
func (t *terminal) wasLent() bool { return t != nil }

// close takes the terminal back. The system would stop a process of the background that does
// so, unless it ignores SIGTTOU.
func (t *terminal) close() {
	if t == nil {
		return
	}
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(syscall.Stdin, unix.TIOCSPGRP, unix.Getpgrp())
}
