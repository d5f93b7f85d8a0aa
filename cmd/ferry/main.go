// Command ferry shows what a device can do. It measures the cost of each kind of host
// memory and of single operations on it, and compares measurements with predictions. It
// launches any kernel of a PTX file. It compiles CUDA C++ to PTX, writes Go code that
// launches the kernels of a source, and finds what makes copies slow on a machine:
//
//	ferry info [--kernel FILE.ptx]
//	ferry compare
//	ferry bench
//	ferry diff A.json B.json
//	ferry profile list
//	ferry trace FILE | -- PROGRAM ARG...
//	ferry run FILE.ptx --kernel NAME --grid X --block X ARG...
//	ferry compile FILE.cu
//	ferry bind FILE.cu
//	ferry doctor
//
// "ferry help COMMAND" describes each command. Standard output has only results: text,
// or one JSON document with --json. Progress and warnings go to standard error. "ferry
// help exit" has the exit statuses.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/child"
)

func main() {
	returnWriteErrors()
	child.KeepIgnored()
	ctx := untilSignal(child.Ending())
	var stdout io.Writer = os.Stdout
	if outputLost() {
		stdout = discarded{os.Stdout}
	}
	os.Exit(run(ctx, os.Args[1:], stdout, os.Stderr))
}

// untilSignal returns a context that one of the signals ends. A second signal then ends the
// process at once, unless a program runs.
func untilSignal(all []os.Signal) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	all = slices.DeleteFunc(all, func(s os.Signal) bool { return s == syscall.SIGQUIT }) // prints the stacks
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, all...)
	go func() {
		cancel(&child.Stop{Signal: <-signals})
		time.Sleep(child.Bounce)
		signal.Stop(signals)
	}()
	return ctx
}
