//go:build !unix

package child

import (
	"os"
	"os/exec"
	"syscall"
)

// Ending returns the signals that end a program.
func Ending() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM} }

// KeepIgnored does nothing: a process starts with no signal ignored.
func KeepIgnored() {}

// prepare does nothing: programs have no process groups here that can be ended.
func prepare(*exec.Cmd, bool) {}

// group is a program. Ctrl-C reaches it from the console, as it reaches this process.
type group struct{ c *exec.Cmd }

func newGroup(c *exec.Cmd, _ bool) *group { return &group{c} }

// send ends the program, unless the console has told it to end.
func (g *group) send(sig os.Signal) {
	if sig != os.Interrupt {
		g.kill()
	}
}

func (g *group) kill()             { _ = g.c.Process.Kill() }
func (g *group) alive() bool       { return false }
func (g *group) interrupted() bool { return false }
func (g *group) close()            {}
