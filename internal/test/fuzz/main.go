// Command fuzz runs every fuzz target of the module for a time each. It finds the targets
// in the test files, builds each package once, and runs several targets at once:
//
//	go run ./internal/test/fuzz -time 60s
//
// An input that makes a target fail is written to testdata/fuzz of its package, where it
// stays a regression test. Other interesting inputs are kept in the cache of the go
// command, as "go test -fuzz" does, so the next run goes on from there.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"time"
)

// options are the flags.
type options struct {
	time    time.Duration
	only    *regexp.Regexp
	workers int
	list    bool
	plain   bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

func parseFlags(args []string) (o options, err error) {
	flags := flag.NewFlagSet("fuzz", flag.ContinueOnError)
	flags.DurationVar(&o.time, "time", time.Minute, "for each target")
	only := flags.String("run", "", "only targets whose PACKAGE.NAME matches this regular expression")
	flags.IntVar(&o.workers, "p", runtime.GOMAXPROCS(0), "targets at once, each with one processor")
	flags.BoolVar(&o.plain, "plain", false, "build as go test does, without the counters that guide the fuzzer: quick where nothing is built")
	flags.BoolVar(&o.list, "list", false, "print the targets")
	if err = flags.Parse(args); err != nil {
		return o, err
	}
	if o.time <= 0 || o.workers < 1 || flags.NArg() > 0 {
		return o, errors.New("want a time above 0 and at least one target at once, and no arguments")
	}
	o.only, err = regexp.Compile(*only)
	return o, err
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parseFlags(args)
	if err != nil {
		return err
	}
	all, err := targets(".")
	if err != nil {
		return err
	}
	var chosen []target
	for _, t := range all {
		if o.only.MatchString(t.String()) {
			chosen = append(chosen, t)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("none of %d targets matches %q", len(all), o.only)
	}
	if o.list {
		for _, t := range chosen {
			fmt.Fprintln(out, t)
		}
		return nil
	}
	return fuzzAll(ctx, chosen, &o, out)
}
