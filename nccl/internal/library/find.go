package library

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/ferrygpu/ferry/internal/dl"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/secureenv"
	"github.com/ferrygpu/ferry/internal/toolkit"
)

// Variable names the environment variable with the absolute path of libnccl.
const Variable = "FERRY_NCCL"

// Lowest is the lowest version that can be used, as ncclGetVersion encodes it: 2.23.0.
const Lowest = 22300

// names are the file names of NCCL.
var names = []string{"libnccl.so.2", "libnccl.so"}

// NotFoundError says that no NCCL was found that can be used.
type NotFoundError struct {
	Tried []string // places, each with the reason
}

// Error names what was tried, and how to install NCCL.
func (e *NotFoundError) Error() string {
	if e == nil {
		return "no error"
	}
	return "no NCCL of version 2.23 or newer was found; tried\n  " + strings.Join(e.Tried, "\n  ") + `
To install it:
  Debian, Ubuntu   apt install libnccl2   (NVIDIA's repository)
  Fedora, RHEL     dnf install libnccl    (NVIDIA's repository)
  Python's pip     pip install nvidia-nccl-cu13
` + Variable + " names a libnccl in another place. On the software GPU none is needed."
}

var found struct {
	mu      sync.Mutex
	library *Library // once one was found: a library is never closed
}

// Find opens the first NCCL that can be used, and keeps it. The error is a [*NotFoundError], or about
// the library that the environment names.
func Find() (*Library, error) {
	found.mu.Lock()
	defer found.mu.Unlock()
	if found.library != nil {
		return found.library, nil
	}
	l, err := find()
	if err == nil {
		found.library = l
	}
	return l, err
}

func find() (l *Library, err error) {
	accept := func(x *dl.Library) error {
		l, err = use(x)
		return err
	}
	if path := secureenv.Get(Variable); path != "" {
		if !filepath.IsAbs(path) {
			return nil, fmt.Errorf("%s=%s: want an absolute path", Variable, printable.Value(path))
		}
		x, err := dl.Open(path)
		if err == nil {
			err = accept(x)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", Variable, err)
		}
		return l, nil
	}
	s := dl.Search{Names: names, Dirs: toolkit.Dirs("nccl"), Accept: accept}
	if _, err := s.Find(); err != nil {
		if errors.Is(err, dl.ErrPlatform) {
			return nil, err
		}
		return nil, &NotFoundError{toolkit.Tried("NCCL", err)}
	}
	return l, nil
}

// use checks a library that was opened.
func use(x *dl.Library) (*Library, error) {
	l := &Library{path: x.Path(), call: dl.Call}
	for f, name := range functionNames {
		fn, err := x.Symbol(name)
		if err != nil && function(f) != commInitRankScalable { // the version says that better
			return nil, fmt.Errorf("%s: %w", x.Path(), err)
		}
		l.functions[f] = fn
	}
	if err := l.askVersion(); err != nil {
		return nil, fmt.Errorf("%s: %w", x.Path(), err)
	}
	return l, nil
}
