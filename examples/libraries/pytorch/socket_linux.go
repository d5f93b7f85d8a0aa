package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// socketPair returns the two ends of a Unix socket that keeps messages apart.
func socketPair() (ours *net.UnixConn, theirs *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), "socket")
	f := os.NewFile(uintptr(fds[0]), "socket")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, nil, err
	}
	return c.(*net.UnixConn), theirs, nil
}

// rightsOf returns what a message needs to carry descriptors.
func rightsOf(files []*os.File) []byte {
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	return syscall.UnixRights(fds...)
}

// received returns the descriptor that came with a message, or nil.
func received(rights []byte) (*os.File, error) {
	messages, err := syscall.ParseSocketControlMessage(rights)
	if err != nil || len(messages) == 0 {
		return nil, err
	}
	fds, err := syscall.ParseUnixRights(&messages[0])
	if err == nil && len(fds) == 1 && len(messages) == 1 {
		return os.NewFile(uintptr(fds[0]), "memory of the other process"), nil
	}
	for _, fd := range fds {
		err = errors.Join(err, syscall.Close(fd))
	}
	return nil, errors.Join(err, fmt.Errorf("%d descriptors came, want 1", len(fds)))
}
