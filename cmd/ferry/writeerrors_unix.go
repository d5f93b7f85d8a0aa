//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// returnWriteErrors lets a write past the largest size of files (ulimit -f) return an error. Its
// signal would end the process, and leave the file that is being written.
func returnWriteErrors() { signal.Notify(make(chan os.Signal, 1), syscall.SIGXFSZ) }
