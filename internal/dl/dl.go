package dl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ErrPlatform says that C libraries cannot be called on this platform.
var ErrPlatform = errors.New("cannot call C libraries on this platform, only on linux/amd64 and linux/arm64")

// Library is an open library, which is never closed. Its methods are safe for concurrent
// use.
type Library struct {
	path   string
	handle uintptr
}

// Path returns the path of the library. A library that the system's loader found by its
// name has only that name.
func (l *Library) Path() string { return l.path }

// Open opens the library with an absolute path.
func Open(path string) (*Library, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("open library %q: the path is not absolute", path)
	}
	return open(path)
}

// Attempt is a place where a library was not found, or not opened.
type Attempt struct {
	Path   string // of the library, or of a directory that has none of the names
	Reason string
}

// NotThere is the reason of a directory that has none of the names.
const NotThere = "not there"

func (a Attempt) String() string { return a.Path + ": " + a.Reason }

// NotFoundError says that no place has a library that opens.
type NotFoundError struct {
	Names []string
	Tried []Attempt
}

func (e *NotFoundError) Error() string {
	tried := make([]string, len(e.Tried))
	for i, a := range e.Tried {
		tried[i] = a.String()
	}
	return fmt.Sprintf("no library %s: tried %s", strings.Join(e.Names, ", "), strings.Join(tried, "; "))
}

// pathAtStart is the LD_LIBRARY_PATH that the system's loader uses: it reads the variable
// once, when the process starts.
var pathAtStart = os.Getenv("LD_LIBRARY_PATH")

// Find opens the first library that has one of the names. It searches the directories of
// LD_LIBRARY_PATH, then dirs, then asks the system's loader. In a directory an earlier
// name goes first. Paths that are not absolute are left out. The error is a
// [*NotFoundError], or [ErrPlatform].
func Find(names, dirs []string) (*Library, error) {
	if !Supported {
		return nil, ErrPlatform
	}
	own, safe := SearchPath()
	failed := &NotFoundError{Names: names}
	for _, dir := range unique(slices.Concat(own, dirs)) {
		if l := failed.openIn(dir); l != nil {
			return l, nil
		}
	}
	if l := failed.openByName(safe); l != nil {
		return l, nil
	}
	return nil, failed
}

// openIn opens a library in a directory, or returns nil and records the reason.
func (e *NotFoundError) openIn(dir string) *Library {
	if !filepath.IsAbs(dir) || filepath.Base(dir) == "stubs" { // the toolkit's libraries without code, for linkers
		return nil
	}
	exists := false
	for _, name := range e.Names {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err != nil || info.IsDir() {
			continue
		}
		l, err := open(path)
		if err == nil {
			return l
		}
		exists = true
		e.failed(path, err)
	}
	if !exists {
		e.Tried = append(e.Tried, Attempt{dir, NotThere})
	}
	return nil
}

// NotAsked is the attempt that is left out where [SearchPath] is not safe.
var NotAsked = Attempt{"the system's loader", "not asked, because LD_LIBRARY_PATH has an element that is not an absolute path"}

// openByName asks the system's loader, which knows the directories of its configuration.
// It also searches LD_LIBRARY_PATH, so it is asked only if that is safe.
func (e *NotFoundError) openByName(safe bool) *Library {
	if !safe {
		e.Tried = append(e.Tried, NotAsked)
		return nil
	}
	for _, name := range e.Names {
		if strings.ContainsRune(name, filepath.Separator) {
			continue
		}
		if l, err := open(name); err == nil {
			return l
		}
	}
	e.Tried = append(e.Tried, Attempt{NotAsked.Path, "does not know it"})
	return nil
}

// failed records why a file was not opened. Loaders begin the message with the path.
func (e *NotFoundError) failed(path string, err error) {
	e.Tried = append(e.Tried, Attempt{path, strings.TrimPrefix(err.Error(), path+": ")})
}

// SearchPath returns the directories of LD_LIBRARY_PATH that have absolute paths, and
// reports whether all have one, now and when the process started. Only then the system's
// loader can be asked for a library by its name: it would also search the working directory.
func SearchPath() (dirs []string, safe bool) {
	dirs, safe = searchPath(os.Getenv("LD_LIBRARY_PATH"))
	_, safeAtStart := searchPath(pathAtStart)
	return dirs, safe && safeAtStart
}

// searchPath splits a list of directories such as LD_LIBRARY_PATH. It returns those with
// absolute paths, and reports whether all have one. An empty element means the working
// directory, but an empty list has no elements.
func searchPath(list string) (dirs []string, absolute bool) {
	absolute = true
	if list == "" {
		return nil, true
	}
	// The loader of glibc takes a semicolon like a colon.
	for dir := range strings.SplitSeq(strings.ReplaceAll(list, ";", ":"), ":") {
		if filepath.IsAbs(dir) {
			dirs = append(dirs, dir)
		} else {
			absolute = false
		}
	}
	return dirs, absolute
}

// unique removes later copies of a directory.
func unique(dirs []string) (all []string) {
	for _, dir := range dirs {
		if dir = filepath.Clean(dir); !slices.Contains(all, dir) {
			all = append(all, dir)
		}
	}
	return all
}
