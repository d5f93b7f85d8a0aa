package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// session is one run of the command.
type session struct {
	o      *options
	out    io.Writer
	dir    string // of the test binaries
	cache  string // of interesting inputs
	failed []string

	mu    sync.Mutex // guards what follows, failed and out
	execs int
}

// fuzzAll builds the packages of the targets and runs the targets.
func fuzzAll(ctx context.Context, all []target, o *options, out io.Writer) error {
	dir, err := os.MkdirTemp("", "fuzz")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cache, err := exec.CommandContext(ctx, "go", "env", "GOCACHE").Output()
	if err != nil {
		return fmt.Errorf("go env GOCACHE: %w", err)
	}
	s := &session{o: o, out: out, dir: dir, cache: filepath.Join(strings.TrimSpace(string(cache)), "fuzz")}
	begin := time.Now()
	if err := s.build(ctx, all); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d targets built in %v\n", len(all), time.Since(begin).Round(time.Second))
	s.runAll(ctx, all)
	fmt.Fprintf(out, "%d executions of %d targets in %v\n", s.execs, len(all), time.Since(begin).Round(time.Second))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if len(s.failed) > 0 {
		return fmt.Errorf("%d targets failed: %s", len(s.failed), strings.Join(s.failed, ", "))
	}
	return nil
}

// binary returns the path of the test binary of a target's package.
func (s *session) binary(t target) string {
	return filepath.Join(s.dir, strings.ReplaceAll(filepath.ToSlash(t.dir), "/", "_")+".test")
}

// build builds the test binaries. The counters that guide the fuzzer need a build of all
// packages, which takes minutes the first time.
func (s *session) build(ctx context.Context, all []target) error {
	built := map[string]bool{}
	for _, t := range all {
		if built[t.dir] {
			continue
		}
		built[t.dir] = true
		args := []string{"test", "-c", "-o", s.binary(t), "./" + filepath.ToSlash(t.dir)}
		if !s.o.plain {
			args = slices.Insert(args, 2, "-fuzz=.")
		}
		cmd := exec.CommandContext(ctx, "go", args...)
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build the tests of %s: %w\n%s", t.dir, err, text)
		}
	}
	return nil
}

// runAll runs targets, some at once.
func (s *session) runAll(ctx context.Context, all []target) {
	next := make(chan target)
	var group sync.WaitGroup
	for range s.o.workers {
		group.Go(func() {
			for t := range next {
				s.fuzz(ctx, t)
			}
		})
	}
	for _, t := range all {
		select {
		case next <- t:
		case <-ctx.Done():
		}
	}
	close(next)
	group.Wait()
}

// grace is how much longer than its time a target may run: it tries its corpus before, and
// makes a failing input smaller after.
const grace = 5 * time.Minute

// fuzz runs one target and prints a line, or all its output if it fails.
func (s *session) fuzz(ctx context.Context, t target) {
	ctx, cancel := context.WithTimeout(ctx, s.o.time+grace)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.binary(t), "-test.run=^$", "-test.fuzz=^"+t.name+"$", "-test.fuzztime="+s.o.time.String(),
		"-test.parallel=1", "-test.fuzzminimizetime=2s", "-test.fuzzcachedir="+filepath.Join(s.cache, filepath.FromSlash(modulePath+t.dir)))
	cmd.Dir = t.dir
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "FERRY_QUIET=1")
	text, err := cmd.CombinedOutput()
	execs, interesting := figures(text)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.execs += execs
	if err == nil || onlyTimeIsOver(text) {
		fmt.Fprintf(s.out, "%-36s %9d executions, %5d inputs kept\n", t, execs, interesting)
		return
	}
	s.failed = append(s.failed, t.String())
	fmt.Fprintf(s.out, "%s FAILED: %v\n%s\n", t, err, bytes.TrimSpace(text))
}

var timeIsOver = regexp.MustCompile(`(?m)^--- FAIL: Fuzz\w+ \([0-9.]+s\)\n    context deadline exceeded\nFAIL\s*\z`)

// onlyTimeIsOver reports whether the fuzzer of package testing has failed only because its time
// was over (Go issue 75804, mended in Go 1.27). A failing input has another message.
func onlyTimeIsOver(text []byte) bool { return timeIsOver.Match(text) }

// modulePath begins the cache's directories.
const modulePath = "github.com/ferrygpu/ferry/"

var progress = regexp.MustCompile(`execs: (\d+)(?:.*total: (\d+))?`)

// figures returns the last executions and kept inputs that the fuzzer has printed.
func figures(text []byte) (execs, interesting int) {
	all := progress.FindAllSubmatch(text, -1)
	if len(all) == 0 {
		return 0, 0
	}
	last := all[len(all)-1]
	execs, _ = strconv.Atoi(string(last[1]))
	interesting, _ = strconv.Atoi(string(last[2]))
	return execs, interesting
}
