package toolkit

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/internal/dl"
	"github.com/ferrygpu/ferry/internal/secureenv"
)

// Dirs lists where libraries of the CUDA toolkit are installed, the first choice
// first. wheel is the directory of the library's Python package, such as "cuda_nvrtc".
func Dirs(wheel string) (dirs []string) {
	for _, root := range toolkits() {
		dirs = append(dirs, filepath.Join(root, "lib64"))
		dirs = append(dirs, Glob(filepath.Join(root, "targets", "*", "lib"))...)
	}
	dirs = append(dirs, systemDirs()...)
	for _, site := range sitePackages() {
		for _, cuda := range []string{"cu13", wheel} {
			dirs = append(dirs, Glob(filepath.Join(site, "nvidia", cuda, "lib"))...)
		}
	}
	return dirs
}

// toolkits lists the roots of CUDA toolkits: those of the environment, then those in the
// usual place, the newest first.
func toolkits() (roots []string) {
	for _, variable := range []string{"CUDA_PATH", "CUDA_HOME"} {
		if root := secureenv.Get(variable); filepath.IsAbs(root) {
			roots = append(roots, root)
		}
	}
	return append(roots, NewestFirst(Glob("/usr/local/cuda*"))...)
}

// systemDirs lists where distributions install libraries.
func systemDirs() []string {
	triple := "x86_64-linux-gnu"
	if runtime.GOARCH == "arm64" {
		triple = "aarch64-linux-gnu"
	}
	return []string{"/usr/lib/" + triple, "/usr/lib64", "/opt/cuda/lib64"}
}

// sitePackages lists the directories of Python's packages.
func sitePackages() (dirs []string) {
	var roots []string
	for _, variable := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if root := secureenv.Get(variable); filepath.IsAbs(root) {
			roots = append(roots, filepath.Join(root, "lib"))
		}
	}
	if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) && !secureenv.Privileged() {
		roots = append(roots, filepath.Join(home, ".local", "lib"))
	}
	for _, root := range append(roots, "/usr/local/lib", "/usr/lib") {
		for _, python := range NewestFirst(Glob(filepath.Join(root, "python3*"))) {
			dirs = append(dirs, filepath.Join(python, "site-packages"), filepath.Join(python, "dist-packages"))
		}
	}
	return dirs
}

// Glob returns the files that match a pattern, or none if the pattern is malformed.
func Glob(pattern string) []string {
	all, _ := filepath.Glob(pattern)
	return all
}

// numbers finds the numbers of a version.
var numbers = regexp.MustCompile(`\d+`)

// NewestFirst sorts paths by the version in the last part of their name, the newest
// first. A name without a version goes first: /usr/local/cuda leads to the toolkit that
// the machine's owner chose.
func NewestFirst(paths []string) []string {
	slices.SortStableFunc(paths, func(a, b string) int {
		va, vb := versionOf(filepath.Base(a)), versionOf(filepath.Base(b))
		if len(va) == 0 || len(vb) == 0 {
			return cmp.Compare(len(va), len(vb))
		}
		return slices.Compare(vb, va)
	})
	return paths
}

func versionOf(name string) (version []int) {
	for _, digits := range numbers.FindAllString(name, -1) {
		n, _ := strconv.Atoi(digits)
		version = append(version, n)
	}
	return version
}

// Tried says where a library was searched. Directories without it share a line.
func Tried(what string, err error) (lines []string) {
	e, ok := errors.AsType[*dl.NotFoundError](err)
	if !ok {
		return []string{what + ": " + err.Error()}
	}
	var empty []string
	for _, a := range e.Tried {
		if a.Reason == dl.NotThere {
			empty = append(empty, a.Path)
		} else {
			lines = append(lines, what+": "+a.String())
		}
	}
	if len(empty) > 0 {
		lines = append([]string{fmt.Sprintf("%s: no %s in %s", what, strings.Join(e.Names, ", "), strings.Join(empty, ", "))}, lines...)
	}
	return lines
}
