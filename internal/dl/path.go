package dl

import (
	"path/filepath"
	"strings"

	"github.com/ferrygpu/ferry/internal/secureenv"
)

// pathAtStart is the LD_LIBRARY_PATH that the system's loader uses: it reads the variable
// once, when the process starts.
var pathAtStart = secureenv.Get("LD_LIBRARY_PATH")

// SearchPath returns the directories of LD_LIBRARY_PATH that have absolute paths, and
// reports whether all have one, now and when the process started. Only then the system's
// loader can be asked for a library by its name: it would also search the working directory.
func SearchPath() (dirs []string, safe bool) {
	dirs, safe = searchPath(secureenv.Get("LD_LIBRARY_PATH"))
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
