// Command corpus tries Ferry on public programs in CUDA C++, as they are, and prints tables.
//
//	go run ./internal/test/corpus get     -root DIR     # clones the projects of the list, at their commits
//	go run ./internal/test/corpus compile -root DIR     # each file of files.txt, as ferry compile takes it
//	go run ./internal/test/corpus cc      -root DIR     # builds, runs and checks the programs of programs.txt
//	go run ./internal/test/corpus choose  -root DIR     # how files.txt was chosen; writes it anew
//
// A folder DIR/PROJECT is the checkout of a project. The lists have names alone: nothing of the
// projects is in this repository.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "corpus:", err)
		os.Exit(1)
	}
}

// options are what the subcommands have in common.
type options struct {
	root, list, only, clang string
	why                     bool
	jobs                    int
	ferry, output           string
	limit                   time.Duration
}

// run runs a subcommand.
func run(ctx context.Context, words []string) error {
	var o options
	flags := flag.NewFlagSet("corpus", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", "", "the folder of the checkouts (required)")
	flags.StringVar(&o.list, "list", "", "the list of files or programs (those of this repository)")
	flags.StringVar(&o.only, "only", "", "only this project, or files whose path has this part")
	flags.StringVar(&o.clang, "clang", "clang++", "choose: the clang that lists headers")
	flags.BoolVar(&o.why, "why", false, "compile: the first error of each file, and how many have it")
	flags.IntVar(&o.jobs, "j", 2, "compile: how many at once")
	flags.StringVar(&o.ferry, "ferry", "ferry", "cc: the command ferry")
	flags.StringVar(&o.output, "output", "", "cc: the folder for what programs print")
	flags.DurationVar(&o.limit, "limit", time.Minute, "cc: how long a build or a run may take")
	if len(words) == 0 {
		return fmt.Errorf("get, compile, cc or choose?")
	}
	if err := flags.Parse(words[1:]); err != nil {
		return err
	}
	if o.root == "" {
		return fmt.Errorf("-root names the folder of the checkouts")
	}
	var err error
	if o.root, err = filepath.Abs(o.root); err != nil {
		return err
	}
	if words[0] == "cc" {
		o.list = cmp.Or(o.list, "internal/test/corpus/programs.txt")
		return o.programs(ctx)
	}
	o.list = cmp.Or(o.list, "internal/test/corpus/files.txt")
	head, all, err := readList(o.list)
	if err != nil {
		return err
	}
	switch words[0] {
	case "get":
		return o.each(all, func(p *project) error { return p.get(ctx, filepath.Join(o.root, p.name)) })
	case "choose":
		if err := o.each(all, func(p *project) error { return p.choose(ctx, o.clang, filepath.Join(o.root, p.name)) }); err != nil {
			return err
		}
		return writeList(o.list, head, all)
	case "compile":
		return o.compile(ctx, all)
	}
	return fmt.Errorf("%s is no subcommand: get, compile, cc or choose", words[0])
}

// each calls f for the projects that were asked for.
func (o *options) each(all []*project, f func(*project) error) error {
	for _, p := range all {
		if o.only == "" || o.only == p.name {
			if err := f(p); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	return nil
}

// wants reports whether a file was asked for.
func (o *options) wants(p *project, f file) bool {
	return o.only == "" || o.only == p.name || strings.Contains(p.name+"/"+f.path, o.only)
}
