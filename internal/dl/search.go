package dl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Search says where a library can be, and which one is accepted.
type Search struct {
	Names []string // names of the file; in a directory an earlier name goes first
	First []string // directories that go before those of LD_LIBRARY_PATH
	Dirs  []string // directories that go behind them
	// LoaderFirst asks the system's loader before Dirs, not after them.
	LoaderFirst bool
	// Accept returns why an open library cannot be used. The search then goes on. Nil accepts
	// every library that opens.
	Accept func(*Library) error
}

// Attempt is a place where a library was not found, not opened or not accepted.
type Attempt struct {
	Path   string // of the library, or of a directory that has none of the names
	Reason string
	Exists bool  // a file of a name is there
	Err    error // from Accept, or nil
}

// NotThere is the reason of a directory that has none of the names.
const NotThere = "not there"

func (a Attempt) String() string { return a.Path + ": " + a.Reason }

// NotFoundError says that no place has a library that can be used.
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

// Unwrap returns the errors of libraries that were not accepted.
func (e *NotFoundError) Unwrap() (all []error) {
	for _, a := range e.Tried {
		if a.Err != nil {
			all = append(all, a.Err)
		}
	}
	return all
}

// NotAsked is the attempt that is left out where [SearchPath] is not safe.
var NotAsked = Attempt{Path: "the system's loader", Reason: "not asked, because LD_LIBRARY_PATH has an element that is not an absolute path"}

// notKnown is the attempt of a loader that finds none of the names.
var notKnown = Attempt{Path: NotAsked.Path, Reason: "does not know it"}

// Find opens the first library that has one of the names and is accepted. A library that
// does not open or is not accepted is recorded with the reason, and the search goes on.
// Directories go in the order First, LD_LIBRARY_PATH, Dirs. Those that are not absolute are
// left out. The error is a [*NotFoundError], or [ErrPlatform].
func (s *Search) Find() (*Library, error) {
	if !Supported {
		return nil, ErrPlatform
	}
	own, safe := SearchPath()
	x := &search{Search: s, failed: &NotFoundError{Names: s.Names}, safe: safe}
	steps := []func() *Library{x.in(slices.Concat(s.First, own)), x.in(s.Dirs), x.byName}
	if s.LoaderFirst {
		steps[1], steps[2] = steps[2], steps[1]
	}
	for _, step := range steps {
		if l := step(); l != nil {
			return l, nil
		}
	}
	return nil, x.failed
}

// search is a search in progress.
type search struct {
	*Search
	failed  *NotFoundError
	safe    bool          // the loader can be asked
	dirs    []string      // directories that were searched
	files   []os.FileInfo // files that were tried
	handles []uintptr     // libraries that were opened and not accepted
}

// in returns the step that searches directories.
func (x *search) in(dirs []string) func() *Library {
	return func() *Library {
		for _, dir := range dirs {
			if l := x.inDir(dir); l != nil {
				return l
			}
		}
		return nil
	}
}

// inDir opens a library in a directory, or returns nil and records the reasons.
func (x *search) inDir(dir string) *Library {
	if dir = filepath.Clean(dir); !filepath.IsAbs(dir) || slices.Contains(x.dirs, dir) {
		return nil
	}
	x.dirs = append(x.dirs, dir)
	exists := false
	for _, name := range x.Names {
		path := filepath.Join(dir, name)
		switch _, err := os.Lstat(path); {
		case err == nil:
			exists = true
			if l := x.file(path); l != nil {
				return l
			}
		case !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
			exists = true
			x.failed.Tried = append(x.failed.Tried, Attempt{Path: path, Reason: err.Error()})
		}
	}
	if !exists {
		x.failed.Tried = append(x.failed.Tried, Attempt{Path: dir, Reason: NotThere})
	}
	return nil
}

// file opens a file, or returns nil and records the reason. It tries each file once,
// whatever links lead to it.
func (x *search) file(path string) *Library {
	if info, err := os.Stat(path); err == nil {
		if slices.ContainsFunc(x.files, func(f os.FileInfo) bool { return os.SameFile(f, info) }) {
			return nil
		}
		x.files = append(x.files, info)
	}
	if isStub(path) {
		x.fails(path, errStub, nil)
		return nil
	}
	l, err := open(path)
	if err != nil {
		x.fails(path, errors.New(explain(path, err)), nil)
		return nil
	}
	return x.accepted(l)
}

var errStub = errors.New("a library without code, for linkers: the directory is named stubs")

// isStub reports whether a file is one that the toolkit has for linkers.
func isStub(path string) bool { return filepath.Base(filepath.Dir(path)) == "stubs" }

// byName asks the system's loader, which knows the directories of its configuration. It
// also searches LD_LIBRARY_PATH, so it is asked only if that is safe.
func (x *search) byName() *Library {
	if !x.safe {
		x.failed.Tried = append(x.failed.Tried, NotAsked)
		return nil
	}
	known := false
	for _, name := range x.Names {
		if strings.ContainsRune(name, filepath.Separator) || x.hidden(name) {
			continue
		}
		l, err := open(name)
		switch {
		case err != nil && err.Error() == name+": "+noSuchFile:
			continue
		case err != nil && x.failed.has(err.Error()): // it was tried by its path
		case err != nil:
			x.fails(name, errors.New(explain(name, err)), nil)
		default:
			if l = x.accepted(l); l != nil {
				return l
			}
		}
		known = true
	}
	if !known {
		x.failed.Tried = append(x.failed.Tried, notKnown)
	}
	return nil
}

// hidden reports whether a stub of this name was refused. The loader would run it, because it
// searches LD_LIBRARY_PATH before its own directories.
func (x *search) hidden(name string) bool {
	return slices.ContainsFunc(x.failed.Tried, func(a Attempt) bool { return isStub(a.Path) && filepath.Base(a.Path) == name })
}

// has reports whether the loader's message is about a file that was tried before.
func (e *NotFoundError) has(message string) bool {
	return slices.ContainsFunc(e.Tried, func(a Attempt) bool { return strings.HasPrefix(message, a.Path+": ") })
}

// accepted returns the library if it can be used.
func (x *search) accepted(l *Library) *Library {
	if x.Accept == nil {
		return l
	}
	if slices.Contains(x.handles, l.handle) {
		return nil
	}
	err := x.Accept(l)
	if err == nil {
		return l
	}
	x.handles = append(x.handles, l.handle)
	x.fails(l.path, err, err)
	return nil
}

// fails records why a file is not used. cause is what Accept returned.
func (x *search) fails(path string, reason, cause error) {
	text := strings.TrimPrefix(reason.Error(), path+": ")
	x.failed.Tried = append(x.failed.Tried, Attempt{Path: path, Reason: text, Exists: true, Err: cause})
}

// noSuchFile is how the message of the loader ends for a file that is missing, and for a
// file of another processor.
const noSuchFile = "cannot open shared object file: No such file or directory"

// explain returns why the loader does not open a file that exists. Loaders begin the
// message with the path of the file that fails, which may be one that the file needs.
func explain(path string, err error) string {
	text, own := strings.CutPrefix(err.Error(), path+": ")
	if !strings.HasSuffix(text, noSuchFile) {
		return text
	}
	if !own {
		return "a library that it needs is missing: " + text
	}
	if target, err := os.Readlink(path); err == nil && !exists(path) {
		return "a link to " + target + ", which is not there"
	}
	if other := otherMachine(path); other != "" {
		return other
	}
	return text
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
