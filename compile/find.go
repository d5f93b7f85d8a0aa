package compile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/secureenv"
)

// The environment variables that name the files of compilers.
const (
	NVRTCVariable = "FERRY_NVRTC" // the absolute path of libnvrtc
	ClangVariable = "FERRY_CLANG" // the absolute path of clang, or its name on PATH
)

// compiler is a compiler that was found.
type compiler interface {
	name() string  // with the version
	archs() []arch // all that it compiles for
	compile(context.Context, *unit) (*Result, error)
}

// find returns the compiler for a unit.
func find(ctx context.Context, u *unit) (compiler, error) {
	switch name := u.o.Compiler; name {
	case "":
		return findAny(ctx, u.arch)
	case "nvrtc":
		return findNVRTC()
	case "clang":
		return findClang(ctx, u.arch, secureenv.Get(ClangVariable))
	default:
		if clangName.MatchString(name) {
			return findClang(ctx, u.arch, name)
		}
		return findPath(ctx, name)
	}
}

// clangName matches the names of clang with a version, which are looked up on PATH.
var clangName = regexp.MustCompile(`^clang-\d+$`)

// findAny returns NVRTC, else clang. Its error names what was tried for both.
func findAny(ctx context.Context, a arch) (compiler, error) {
	c, err := findNVRTC()
	if err == nil {
		return c, nil
	}
	first, ok := errors.AsType[*NotFoundError](err)
	if !ok {
		return nil, err
	}
	if c, err = findClang(ctx, a, secureenv.Get(ClangVariable)); err == nil {
		return c, nil
	}
	if second, ok := errors.AsType[*NotFoundError](err); ok {
		return nil, &NotFoundError{Tried: slices.Concat(first.Tried, second.Tried)}
	}
	return nil, err
}

// findPath opens the compiler with an absolute path: a library if its name says so.
func findPath(ctx context.Context, path string) (compiler, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("compiler %s: want nvrtc, clang or an absolute path", printable.Value(path))
	}
	if info, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("compiler: %w", printable.Error(err))
	} else if info.IsDir() {
		return nil, fmt.Errorf("compiler %s: is a directory", printable.Path(path))
	}
	if strings.Contains(filepath.Base(path), "nvrtc") {
		return openNVRTC(path)
	}
	return probe(ctx, path)
}
