//go:build unix

package child

import (
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
)

// Ending returns the signals that end a program. One that this process was started to ignore, as
// by nohup, is not among them.
func Ending() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP}
	return slices.DeleteFunc(all, signal.Ignored)
}

// KeepIgnored ignores SIGQUIT if this process was started to ignore SIGINT. A shell ignores both
// for a job in the background of a script. Go keeps only SIGINT and SIGHUP ignored.
func KeepIgnored() {
	if signal.Ignored(os.Interrupt) {
		signal.Ignore(syscall.SIGQUIT)
	}
}

// exitInterrupted is the status of a shell whose program Ctrl-C has ended.
const exitInterrupted = 128 + int(syscall.SIGINT)

// group is the process group of a program.
type group struct {
	id       int // also the process id of the program
	c        *exec.Cmd
	terminal *terminal // nil for none
}

func newGroup(c *exec.Cmd, background bool) *group {
	g := &group{id: c.Process.Pid, c: c}
	if !background {
		g.terminal = newTerminal(c)
	}
	return g
}

// send sends a signal to all processes of the group. A process that is stopped continues, or it
// would not end.
func (g *group) send(sig os.Signal) {
	if s, ok := sig.(syscall.Signal); ok {
		_ = syscall.Kill(-g.id, s)
		_ = syscall.Kill(-g.id, syscall.SIGCONT)
	}
}

// kill ends all processes of the group at once.
func (g *group) kill() { _ = syscall.Kill(-g.id, syscall.SIGKILL) }

// alive reports whether the group has processes.
func (g *group) alive() bool { return syscall.Kill(-g.id, 0) == nil && groupRuns(g.id) }

// interrupted reports whether the program had the terminal, so that Ctrl-C or a hang-up reached
// it alone, and that has ended it.
func (g *group) interrupted() bool {
	w, ok := g.c.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !g.terminal.wasLent() {
		return false
	}
	sig := w.Signal()
	return sig == syscall.SIGINT || sig == syscall.SIGQUIT || sig == syscall.SIGHUP || w.ExitStatus() == exitInterrupted
}

// close takes the terminal back.
func (g *group) close() { g.terminal.close() }
