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

// forkLimit is how long a forked child may take, and startLimit how long until f begins.
var (
	forkLimit  = 10 * time.Second
	startLimit = 2 * time.Second
)

var (
	errNotBegun = errors.New("the child has not begun") // Go's scheduler has stopped it before f
	errHangs    = errors.New("the child hangs")
)

// attempts is how many children must hang before Run says so.
const attempts = 3

// Run runs f in a child that a raw fork makes, and returns its text. An error says that the
// child hung, and was killed, or that it crashed. Only the calling thread exists in the child, so
// the garbage collector is off, and f must not wait for other goroutines. The caller should be a
// process for this purpose.
//
// If Go's scheduler has asked the calling goroutine to yield just before the fork, the child
// yields to threads that it lacks. That stops it before f, so Run makes another child. If another
// thread had a lock of Go's runtime at the fork, such as that of the heap, nobody opens it in the
// child. Such a child hangs by chance, more often on a busy machine, so several must hang.
func Run(f func() string) (text string, err error) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for tries, hung := 0, 0; tries < 10 && hung < attempts; tries++ {
		runtime.Gosched() // begins a new time slice
		text, err = run(f)
		switch {
		case errors.Is(err, errHangs):
			hung++
		case !errors.Is(err, errNotBegun):
			return text, err
		}
	}
	return text, err
}

// begun is what a child writes before f. Nothing asks it to yield after that.
var begun = [1]byte{'b'}

func run(f func() string) (string, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer r.Close()
	out := int(w.Fd())
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return "", errors.Join(fmt.Errorf("fork: %w", errno), w.Close())
	}
	if pid == 0 {
		_, _ = syscall.Write(out, begun[:]) // yields first, if it was asked to
		_, _ = syscall.Write(out, []byte(f()))
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
	if err := errors.Join(w.Close(), r.SetReadDeadline(time.Now().Add(startLimit))); err != nil {
		return "", err
	}
	if _, err := io.ReadFull(r, make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) {
		_ = syscall.Kill(int(pid), syscall.SIGKILL)
		_, _ = syscall.Wait4(int(pid), nil, 0, nil)
		return "", errNotBegun
	}
	status, err := reap(int(pid))
	if err != nil {
		return "", err
	}
	if err := r.SetReadDeadline(time.Now().Add(forkLimit)); err != nil {
		return "", err
	}
	var text bytes.Buffer
	_, err = io.Copy(&text, r)
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
			return status, fmt.Errorf("%w: killed after %v", errHangs, forkLimit)
		}
	}
}
