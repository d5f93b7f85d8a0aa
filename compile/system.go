package compile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/ferrygpu/ferry/internal/secureenv"
	"github.com/ferrygpu/ferry/internal/toolkit"
)

// systemMacro tells Ferry's headers that those of the system follow.
const systemMacro = "FERRY_SYSTEM_HEADERS"

// system has the C and C++ headers of this machine.
type system struct {
	flags []string // of clang, to find them
	dirs  []string // where they are
}

// systemHeader are headers that tell whether C++ and C are installed.
var systemHeaders = []string{"cmath", "stdlib.h"}

// lookup finds the system's headers of one clang. It asks once.
type lookup struct {
	mu    sync.Mutex
	asked bool
	found *system
	err   error
}

// system returns the system's headers.
func (c *clang) system(ctx context.Context) (*system, error) {
	l := &c.headers
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.asked {
		found, err := findSystem(ctx, c.path)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		l.asked, l.found, l.err = true, found, err
	}
	return l.found, l.err
}

// findSystem looks where clang looks. Clang takes the newest GCC, which may be without C++
// headers; then the other versions of GCC are tried.
func findSystem(ctx context.Context, path string) (*system, error) {
	ctx, stop := context.WithTimeout(ctx, probeLimit)
	defer stop()
	tries := [][]string{nil}
	if !secureenv.Privileged() {
		for _, dir := range toolkit.NewestFirst(toolkit.Glob("/usr/lib/gcc/*-linux-gnu/*")) {
			tries = append(tries, []string{"--gcc-install-dir=" + dir})
		}
	}
	var first error
	for _, flags := range tries {
		dirs, err := searched(ctx, path, flags)
		if err == nil {
			if err = lacking(dirs); err == nil {
				return &system{flags: append(slices.Clone(flags), "-D"+systemMacro+"=1"), dirs: dirs}, nil
			}
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// searchList matches the directories that clang -v prints.
var searchList = regexp.MustCompile(`(?s)#include <\.\.\.> search starts here:\n(.*?)End of search list`)

// searched returns the directories in which clang looks for the system's headers.
func searched(ctx context.Context, path string, flags []string) (dirs []string, err error) {
	text, err := output(ctx, path, append(slices.Clone(flags), "-E", "-v", "-x", "c++", os.DevNull)...)
	if err != nil {
		return nil, err
	}
	m := searchList.FindStringSubmatch(text)
	if m == nil {
		return nil, fmt.Errorf("%s names no directories of headers", path)
	}
	for line := range strings.Lines(m[1]) {
		dir, _ := strings.CutSuffix(strings.TrimSpace(line), " (framework directory)")
		if filepath.IsAbs(dir) {
			dirs = append(dirs, filepath.Clean(dir))
		}
	}
	return dirs, nil
}

// lacking returns an error if a header is in none of the directories.
func lacking(dirs []string) error {
	for _, name := range systemHeaders {
		if !slices.ContainsFunc(dirs, func(dir string) bool { return isFile(filepath.Join(dir, name)) }) {
			return fmt.Errorf("the header %s of the C and C++ libraries is not in %s; install it: apt install g++, dnf install gcc-c++, pacman -S gcc",
				name, strings.Join(dirs, ", "))
		}
	}
	return nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// has reports whether a file is one of the system's headers.
func (s *system) has(path string) bool {
	return slices.ContainsFunc(s.dirs, func(dir string) bool {
		return strings.HasPrefix(path, dir+string(filepath.Separator))
	})
}
