package outfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/internal/printable"
)

// mostLinks is how many symbolic links one path may have at its end, as on Linux.
const mostLinks = 40

// target is what a path leads to.
type target struct {
	path       string      // of the file, behind all symbolic links
	info       fs.FileInfo // of the file that is there; nil for none
	descriptor int         // to write to in its place; or one of the next
}

// Values of target.descriptor for what is no descriptor.
const (
	aFile      = -1
	nullDevice = -2
)

// find follows a path to what it leads to. It refuses what cannot be written.
func find(path string) (target, error) {
	switch {
	case path == "":
		return target{}, errors.New("want the name of a file")
	case os.IsPathSeparator(path[len(path)-1]):
		return target{}, errors.New("names a folder, want the name of a file")
	}
	for range mostLinks {
		if n, ok := standard(path); ok {
			return target{path: path, descriptor: n}, nil
		}
		dir, err := folderOf(path)
		if err != nil {
			return target{}, err
		}
		path = filepath.Join(dir, filepath.Base(path))
		if n, ok := standard(path); ok {
			return target{path: path, descriptor: n}, nil
		}
		info, err := os.Lstat(path)
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			if path, err = linkFrom(dir, path); err != nil {
				return target{}, err
			}
			continue
		}
		return found(path, info, err)
	}
	return target{}, errors.New("too many symbolic links")
}

// found returns the target of a path without links.
func found(path string, info fs.FileInfo, err error) (target, error) {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return target{path: path, descriptor: aFile}, nil
	case err != nil:
		return target{}, cause(err)
	case info.IsDir():
		return target{}, errors.New("is a directory")
	case !info.Mode().IsRegular():
		return target{}, fmt.Errorf("is %s: want a regular file, or one of /dev/stdout, /dev/stderr, /dev/fd/N and %s", kind(info.Mode()), os.DevNull)
	}
	return target{path: path, info: info, descriptor: aFile}, nil
}

// kind names what is no regular file.
func kind(m fs.FileMode) string {
	switch {
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "no regular file"
}

// folderOf returns the folder of a path, without symbolic links.
func folderOf(path string) (string, error) {
	dir, _ := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", cause(err)
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", printable.Path(dir))
	}
	return dir, err
}

// linkFrom returns the path to which a symbolic link in a folder leads.
func linkFrom(dir, path string) (string, error) {
	to, err := os.Readlink(path)
	if err != nil {
		return "", cause(err)
	}
	if !filepath.IsAbs(to) {
		to = dir + string(filepath.Separator) + to // not cleaned: it may have ".." behind a link
	}
	return to, nil
}

// standard returns the descriptor that a path stands for.
func standard(path string) (n int, ok bool) {
	switch path {
	case os.DevNull:
		info, err := os.Lstat(path)
		return nullDevice, err != nil || !info.Mode().IsRegular()
	case "/dev/stdout":
		return 1, true
	case "/dev/stderr":
		return 2, true
	}
	for _, dir := range []string{"/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/", fmt.Sprintf("/proc/%d/fd/", os.Getpid())} {
		if text, in := strings.CutPrefix(path, dir); in {
			n, err := strconv.Atoi(text)
			return n, err == nil && n >= 0
		}
	}
	return 0, false
}

// cause returns an error of the system without the call and the path that it had.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err
	}
	return err
}

// Same reports whether two paths lead to one file, or to one open descriptor. The null device
// is not the same as itself: it may be named twice.
func Same(a, b string) bool {
	x, errX := find(a)
	y, errY := find(b)
	if errX != nil || errY != nil {
		return a != "" && b != "" && sameName(a, b)
	}
	switch {
	case x.descriptor != y.descriptor || x.descriptor == nullDevice:
		return false
	case x.descriptor != aFile:
		return true
	case x.info != nil && y.info != nil:
		return os.SameFile(x.info, y.info)
	}
	return sameName(x.path, y.path)
}

// sameName reports whether two paths are one, whatever they lead to.
func sameName(a, b string) bool {
	x, errX := filepath.Abs(a)
	y, errY := filepath.Abs(b)
	if errX == nil && errY == nil && x == y {
		return true
	}
	ix, err := os.Stat(a)
	if err != nil {
		return false
	}
	iy, err := os.Stat(b)
	return err == nil && os.SameFile(ix, iy)
}
