// Package clib opens a library of CUDA, such as libcublas, and finds its functions, for the programs
// beside it. It calls C by purego, so that no C compiler is needed.
package clib

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Library says what a library is called. All of it is for Linux.
type Library struct {
	Names    []string // of the file, the first choice first, such as libcublas.so.13
	Variable string   // an environment variable: the absolute path of the file, and nothing else is tried
	Needs    []string // libraries that are opened before it if they lie beside it, such as libcublasLt
	Package  string   // of pip, for errors
}

// Open opens the library and sets functions, each a pointer to a variable of a function type, to
// the functions of the library with these names. The types must be those of C: nothing can check
// them. It returns the path of the library, which stays open.
func (l *Library) Open(functions map[string]any) (path string, err error) {
	if path := os.Getenv(l.Variable); path != "" {
		if !filepath.IsAbs(path) { // the system's loader would look for it, also in the working directory
			return "", fmt.Errorf("%s=%s: want an absolute path", l.Variable, path)
		}
		handle, err := l.openAt(path)
		if err != nil {
			return "", fmt.Errorf("%s, which %s names: %w", path, l.Variable, err)
		}
		return path, bind(path, handle, functions)
	}
	var tried []string
	for _, path := range l.paths() {
		handle, err := l.openAt(path)
		if err == nil {
			return path, bind(path, handle, functions)
		}
		tried = append(tried, "\n\t"+err.Error())
	}
	return "", fmt.Errorf("no %s that can be opened: install the CUDA toolkit or pip's %s, or name the file by %s; folders: %s%s",
		strings.Join(l.Names, " or "), l.Package, l.Variable, strings.Join(dirs(), ", "), strings.Join(tried, ""))
}

// paths returns the files that exist, the first choice first.
func (l *Library) paths() (paths []string) {
	for _, name := range l.Names {
		for _, dir := range dirs() {
			if path := filepath.Join(dir, name); exists(path) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// openAt opens the file, after those beside it that it needs and that the system may not find.
func (l *Library) openAt(path string) (uintptr, error) {
	dir, name := filepath.Split(path)
	_, version, _ := strings.Cut(name, ".")
	for _, need := range l.Needs {
		if beside := dir + need + "." + version; exists(beside) {
			if _, err := open(beside); err != nil {
				return 0, err
			}
		}
	}
	return open(path)
}

// bind finds the functions.
func bind(path string, handle uintptr, functions map[string]any) error {
	var missing []error
	for name, f := range functions {
		if err := register(f, handle, name); err != nil {
			missing = append(missing, fmt.Errorf("%s: %w", path, err))
		}
	}
	slices.SortFunc(missing, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(missing...)
}
