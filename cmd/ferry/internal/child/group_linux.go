package child

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// prepare gives the program a process group of its own. The kernel kills the program when this
// process ends.
func prepare(c *exec.Cmd, _ bool) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// groupRuns reports whether a process of a group has not ended. A zombie has: in a container it
// may be that nobody waits for it.
func groupRuns(id int) bool {
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(all) == 0 {
		return true // not known
	}
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// "pid (name) state parent group ...", where the name may have anything in it
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) > 2 && string(fields[2]) == strconv.Itoa(id) && !bytes.ContainsAny(fields[0], "ZX") {
			return true
		}
	}
	return false
}
