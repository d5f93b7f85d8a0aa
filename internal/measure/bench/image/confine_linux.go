package main

import (
	"os"
	"os/exec"
	"syscall"
)

// confine makes a folder the root of a program's file system, if this process may do that.
func confine(cmd *exec.Cmd, root string) bool {
	if os.Geteuid() != 0 {
		return false
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	cmd.Dir = "/"
	return true
}
