package dl

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
)

// ErrPlatform says that C libraries cannot be called on this platform.
var ErrPlatform = errors.New("cannot call C libraries on this platform, only on linux/amd64 and linux/arm64, and in builds without the tag " + softTag)

// softTag is the build tag that leaves purego out, so that programs are static and open no library.
const softTag = "ferrysoft"

// Platform names what this program was built for: "linux/amd64", and behind it the tag that makes it
// unable to open libraries.
func Platform() string {
	name := runtime.GOOS + "/" + runtime.GOARCH
	if !Supported && (name == "linux/amd64" || name == "linux/arm64") {
		name += " built with the tag " + softTag
	}
	return name
}

// Library is an open library, which is never closed. Its methods are safe for concurrent
// use.
type Library struct {
	path   string
	handle uintptr
}

// Path returns the path of the library. A library that the system's loader found by its
// name has only that name.
func (l *Library) Path() string { return l.path }

// Open opens the library with an absolute path. The error begins with the path.
func Open(path string) (*Library, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("open library %q: the path is not absolute", path)
	}
	if !Supported {
		return nil, ErrPlatform
	}
	l, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", path, explain(path, err))
	}
	return l, nil
}
