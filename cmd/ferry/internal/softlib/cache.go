package softlib

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/usercache"
	"github.com/ferrygpu/ferry/internal/printable"
)

// kept is the number of libraries that the cache keeps.
const kept = 4

// settings are the variables that change what cgo makes.
var settings = []string{"CC", "CGO_CFLAGS", "CGO_CPPFLAGS", "CGO_LDFLAGS", "GOAMD64", "GOARM64", "GOEXPERIMENT", "GOTOOLCHAIN"}

// key returns the name of the library's folder in the cache: a hash of the tools, of the variables
// that they read, of the tags, and of all sources that the library may have.
func (t *tools) key(source, tags string) (string, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n%s %s\n%s %s\n", t.goVersion, t.compiler, t.compilerName, runtime.GOARCH, tags)
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
	return usercache.Key(sum), nil
}

// without reports whether a folder of the module has nothing of the library.
func without(name string) bool {
	base := filepath.Base(name)
	return base == "testdata" || base[0] == '.' && name != "." || slices.Contains([]string{"contrib", "docs", "examples"}, name) ||
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
