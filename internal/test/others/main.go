// Command others runs the tests of other people's Go modules and Python packages, unchanged, on a
// libcuda.so.1, and prints a table of what they say.
//
//	ferry lib -o lib
//	go run ./internal/test/others -lib lib -include /usr/local/cuda/include gorgonia.org/cu@v0.9.6
//	go run ./internal/test/others -lib lib -python python3 -path SITE-PACKAGES "numba.cuda.tests.cudapy numba.cuda.tests.cudadrv"
//
// A module is downloaded by the go command at the version given, copied to a temporary folder, and
// tested there: nothing of it stays. A test that fails is listed with the functions that the library
// refused in it, or with what the test says. Refusals, and tests of Numba that need machine code, are
// counted apart.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	var r runner
	flag.StringVar(&r.lib, "lib", "", "the folder of libcuda.so.1 and libcuda.so (required)")
	flag.StringVar(&r.include, "include", "", "the folder of cuda.h, for modules that use cgo")
	flag.StringVar(&r.tags, "tags", "", "build tags")
	flag.StringVar(&r.pattern, "run", "", "which tests, as go test -run or pytest -k")
	flag.StringVar(&r.python.command, "python", "", "a Python with pytest: the arguments name packages of tests, as pytest --pyargs, separated by spaces")
	flag.DurationVar(&r.python.limit, "limit", 4*time.Minute, "how long a test of Python may run")
	flag.StringVar(&r.python.log, "log", "", "a file that gets what each test of Python says; tests that it has already do not run again")
	path := flag.String("path", "", "folders of Python packages, separated by colons")
	libs := flag.String("libs", "", "folders of libraries that the packages load, separated by colons")
	packages := flag.String("packages", "./...", "which packages of the module, separated by commas")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: others -lib FOLDER [flags] MODULE@VERSION... | PACKAGES...\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if r.lib == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	r.packages = strings.Split(*packages, ",")
	r.python.path, r.python.libs, r.python.only = filepath.SplitList(*path), filepath.SplitList(*libs), r.pattern
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := r.all(ctx, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "others:", err)
		os.Exit(1)
	}
}

// runner has how the tests of modules are run.
type runner struct {
	lib, include, tags, pattern string
	packages                    []string
	python                      python // if its command is not ""
}

// all tests each module and prints the table.
func (r *runner) all(ctx context.Context, modules []string) error {
	lib, err := filepath.Abs(r.lib)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(lib, "libcuda.so.1")); err != nil {
		return fmt.Errorf("%w: ferry lib -o %s makes it", err, r.lib)
	}
	r.lib = lib
	fmt.Print(tableHead)
	for _, m := range modules {
		res, err := r.run(ctx, m)
		if err != nil {
			return err
		}
		fmt.Print(res.row(m))
	}
	return nil
}

// run tests one module of Go, or packages of Python.
func (r *runner) run(ctx context.Context, name string) (*results, error) {
	if r.python.command != "" {
		return r.python.suite(ctx, r.lib, name)
	}
	return r.module(ctx, name)
}

// module tests one module.
func (r *runner) module(ctx context.Context, name string) (*results, error) {
	from, err := download(ctx, name)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ferry-others-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		return nil, err
	}
	return r.test(ctx, dir)
}

// download returns the folder of a module in the module cache.
func download(ctx context.Context, name string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "mod", "download", "-json", name).Output()
	var m struct{ Dir, Error string }
	if bad := json.Unmarshal(out, &m); bad != nil {
		return "", fmt.Errorf("download %s: %w", name, err)
	}
	if m.Error != "" {
		return "", fmt.Errorf("download %s: %s", name, m.Error)
	}
	return m.Dir, nil
}

// test runs the tests of the module in dir.
func (r *runner) test(ctx context.Context, dir string) (*results, error) {
	args := append([]string{"test", "-json", "-count=1", "-tags", r.tags, "-run", r.pattern}, r.packages...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+r.lib, "CGO_LDFLAGS=-L"+r.lib, "GOFLAGS=-mod=mod", "GOWORK=off")
	if r.include != "" {
		cmd.Env = append(cmd.Env, "CGO_CFLAGS=-I"+r.include)
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	res, bad := read(out)
	if err := cmd.Wait(); err != nil && res.none() {
		return nil, fmt.Errorf("no test ran: %w: %s", err, res.built)
	}
	return res, bad
}
