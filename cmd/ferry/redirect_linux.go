package main

import (
	"os"
	"syscall"
)

// redirectDescriptor makes the descriptor of standard output write to w. The function that
// it returns undoes that.
func redirectDescriptor(w *os.File) (undo func(), err error) {
	old, err := syscall.Dup(syscall.Stdout)
	if err != nil {
		return nil, err
	}
	syscall.CloseOnExec(old)
	if err := syscall.Dup3(int(w.Fd()), syscall.Stdout, 0); err != nil {
		syscall.Close(old)
		return nil, err
	}
	return func() {
		_ = syscall.Dup3(old, syscall.Stdout, 0)
		syscall.Close(old)
	}, nil
}
