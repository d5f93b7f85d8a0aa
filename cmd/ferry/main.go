// Command ferry says what a device can do, measures what each kind of host
// memory costs on it, and runs any kernel of a PTX file:
//
//	ferry info
//	ferry compare
//	ferry run FILE.ptx --kernel NAME --grid X --block X ARG...
//
// "ferry help COMMAND" describes each. Standard output is data, text or with
// --json one JSON document; progress and warnings go to standard error. The
// exit status is 0 when all went well, 1 after an error, 2 when the command
// line was wrong.
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
