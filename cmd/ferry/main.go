// Command ferry shows what a device can do. It measures the cost of each kind of host
// memory and of single operations on it. It launches any kernel of a PTX file. It compiles
// CUDA C++ to PTX, writes Go code that launches the kernels of a source, and finds what
// makes copies slow on a machine:
//
//	ferry info [--kernel FILE.ptx]
//	ferry compare
//	ferry bench
//	ferry run FILE.ptx --kernel NAME --grid X --block X ARG...
//	ferry compile FILE.cu
//	ferry bind FILE.cu
//	ferry doctor
//
// "ferry help COMMAND" describes each command. Standard output has only results: text,
// or one JSON document with --json. Progress and warnings go to standard error. The
// exit status is 0 after success, 1 after an error, 2 if the command line was wrong, 3 if
// ferry doctor found something that slows copies.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
