package forktest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"
)

// forkLimit is how long a forked child may take.
const forkLimit = 10 * time.Second

// Run runs f in a child that a raw fork makes, and returns its text. An error says that the
// child hung, and was killed, or that it crashed. Only the calling thread exists in the child, so
// the garbage collector is off, and f must not wait for other goroutines. The caller should be a
// process for this purpose.
func Run(f func() string) (string, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer r.Close()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out := int(w.Fd())
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return "", errors.Join(fmt.Errorf("fork: %w", errno), w.Close())
	}
	if pid == 0 {
		_, _ = syscall.Write(out, []byte(f()))
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	status, err := reap(int(pid))
	var text bytes.Buffer
	if err == nil {
		_, err = io.Copy(&text, r)
	}
	if err == nil && status != 0 {
		err = fmt.Errorf("the child ended with status %#x", int(status))
	}
	return text.String(), err
}

// reap waits until a process ends. It kills one that takes too long.
func reap(pid int) (status syscall.WaitStatus, err error) {
	for end := time.Now().Add(forkLimit); ; time.Sleep(time.Millisecond) {
		got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
		switch {
		case got == pid || err != nil && !errors.Is(err, syscall.EINTR):
			return status, err
		case time.Now().After(end):
			_ = syscall.Kill(pid, syscall.SIGKILL)
			_, _ = syscall.Wait4(pid, &status, 0, nil)
			return status, fmt.Errorf("the child hangs: killed after %v", forkLimit)
		}
	}
}
