package softlib

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// tools are the programs that build the library.
type tools struct {
	goTool       string // the path of go
	goVersion    string // "go version go1.26.1 linux/amd64"
	compiler     string // CC for go
	compilerName string // the first line of its --version
}

// compilers are the C compilers that are looked for, the first choice first.
var compilers = []string{"gcc", "clang", "clang-22", "clang-21", "clang-20", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14"}

// compilerVariable is the environment variable with a C compiler, as for make and go.
const compilerVariable = "CC"

// findTools looks for Go and a C compiler. The error has all that is missing.
func findTools(ctx context.Context) (*tools, error) {
	t := &tools{}
	other := make(chan error, 1)
	go func() { other <- t.findCompiler(ctx) }() // each asks a program for its version
	if err := errors.Join(t.findGo(ctx), <-other); err != nil {
		return nil, err
	}
	return t, nil
}

// findGo looks for the go command.
func (t *tools) findGo(ctx context.Context) (err error) {
	if t.goTool, err = exec.LookPath("go"); err != nil {
		return fmt.Errorf("there is no Go (%w): install it from https://go.dev/dl, and put its folder bin into PATH", err)
	}
	if t.goVersion, err = firstLine(ctx, t.goTool, "version"); err != nil {
		return fmt.Errorf("%s does not work: %w", t.goTool, err)
	}
	return nil
}

// findCompiler looks for the compiler that CC names or, without it, for one of compilers.
func (t *tools) findCompiler(ctx context.Context) (err error) {
	names, how := compilers, "install one, such as by \"apt install gcc libc6-dev\" or \"dnf install gcc\", or name one by CC=COMPILER"
	if own := strings.Fields(os.Getenv(compilerVariable)); len(own) > 0 {
		names, how = own[:1], "correct the variable CC, or unset it"
	}
	for _, name := range names {
		path, missing := exec.LookPath(name)
		if missing != nil {
			continue
		}
		if t.compilerName, err = firstLine(ctx, path, "--version"); err != nil {
			return fmt.Errorf("the C compiler %s does not work: %w", path, err)
		}
		if t.compiler = path; len(names) == 1 {
			t.compiler = os.Getenv(compilerVariable) // with its flags
		}
		return nil
	}
	return fmt.Errorf("there is no C compiler: %s not found in PATH: %s", tried(names), how)
}

// tried returns what was looked for: "gcc, clang and clang-22 to clang-14 were".
func tried(names []string) string {
	if len(names) == 1 {
		return names[0] + " was"
	}
	return "gcc, clang and " + names[2] + " to " + names[len(names)-1] + " were"
}

// firstLine returns the first line that a program writes.
func firstLine(ctx context.Context, path string, args ...string) (string, error) {
	text, err := exec.CommandContext(ctx, path, args...).Output()
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return line, err
}
