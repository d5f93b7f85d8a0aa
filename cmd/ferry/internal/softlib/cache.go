package softlib

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/ferrygpu/ferry/internal/printable"
)

// newPrefix begins the names of folders in the cache that are being filled.
const newPrefix = "new-"

// kept is the number of libraries that the cache keeps, and abandoned the age at which a folder
// that nobody has completed is removed.
const (
	kept      = 4
	abandoned = 24 * time.Hour
)

// keyBytes is the length of the hash in the name of a library's folder.
const keyBytes = 16

// settings are the variables that change what cgo makes.
var settings = []string{"CC", "CGO_CFLAGS", "CGO_CPPFLAGS", "CGO_LDFLAGS", "GOAMD64", "GOARM64", "GOEXPERIMENT", "GOTOOLCHAIN"}

// key returns the name of the library's folder in the cache: a hash of the tools, of the variables
// that they read, and of all sources that the library may have.
func (t *tools) key(source string) (string, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%s %s\n%s\n", t.goVersion, t.compiler, t.compilerName, runtime.GOARCH)
	for _, name := range settings {
		fmt.Fprintf(sum, "%s=%q\n", name, os.Getenv(name))
	}
	root, err := filepath.EvalSymlinks(source) // WalkDir enters no link
	if err != nil {
		return "", fmt.Errorf("read the sources: %w", err)
	}
	files := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(root, path)
		switch {
		case err != nil || relErr != nil:
			return errors.Join(err, relErr)
		case d.IsDir() && without(name):
			return filepath.SkipDir
		case !d.Type().IsRegular() || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		files++
		return add(sum, name, path)
	})
	if err != nil {
		return "", fmt.Errorf("read the sources: %w", err)
	}
	if files == 0 {
		return "", fmt.Errorf("read the sources: %s has no files", printable.Path(source))
	}
	return hex.EncodeToString(sum.Sum(nil)[:keyBytes]), nil
}

// without reports whether a folder of the module has nothing of the library.
func without(name string) bool {
	base := filepath.Base(name)
	return base == "testdata" || base[0] == '.' && name != "." || slices.Contains([]string{"docs", "examples"}, name) ||
		filepath.Dir(name) == "cmd" && name != filepath.FromSlash(target)
}

// add adds a file to a hash, with its name and its length.
func add(sum io.Writer, name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	fmt.Fprintf(sum, "%q %d\n", filepath.ToSlash(name), info.Size())
	_, err = io.Copy(sum, f)
	return err
}

// safe demands that nobody but this user and the administrator can change a file or folder of the
// cache: programs load what is there.
func safe(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !trusted(info):
		return fmt.Errorf("%s belongs to another user, who could change what programs load: remove it, or name another cache by XDG_CACHE_HOME", printable.Path(path))
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s can be written by other users (mode %#o): take that right away by \"chmod go-w\", or name another cache by XDG_CACHE_HOME", printable.Path(path), info.Mode().Perm())
	}
	return nil
}

// prune removes the libraries that were not used for longest, but not current, and what builds
// have left that were killed. A program that has loaded a library keeps it.
func prune(cache, current string) error {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return err
	}
	type folder struct {
		path string
		used time.Time
	}
	var old []folder
	for _, e := range entries {
		info, gone := e.Info()
		path := filepath.Join(cache, e.Name())
		switch {
		case gone != nil || !e.IsDir() || path == current:
		case len(e.Name()) == 2*keyBytes:
			old = append(old, folder{path, info.ModTime()})
		case strings.HasPrefix(e.Name(), newPrefix) && time.Since(info.ModTime()) > abandoned:
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	slices.SortFunc(old, func(a, b folder) int { return b.used.Compare(a.used) })
	for _, f := range old[min(len(old), kept-1):] {
		err = errors.Join(err, os.RemoveAll(f.path))
	}
	return err
}
