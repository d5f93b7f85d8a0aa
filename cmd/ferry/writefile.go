package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// sameFile reports whether two paths lead to one file.
func sameFile(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	ia, err := os.Stat(a)
	if err != nil {
		return false
	}
	ib, err := os.Stat(b)
	return err == nil && os.SameFile(ia, ib)
}

// writeAtomic writes a file so that it is there whole, or as it was. A file that is not
// regular, such as a pipe, is written as it is.
func writeAtomic(path string, data []byte) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		if info.IsDir() {
			return fmt.Errorf("write %s: is a directory", path)
		}
		return os.WriteFile(path, data, 0o666)
	}
	err := replaceFile(path, data)
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("write %s: %w", path, e.Err) // without the name of the temporary file
	}
	return err
}

// replaceFile writes a file beside a path, then renames it.
func replaceFile(path string, data []byte) error {
	next, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = next.Write(data)
	err = firstError(err, next.Chmod(fileMode(path)), next.Close())
	if err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		os.Remove(next.Name())
	}
	return err
}

// fileMode returns the permissions of a file, or those of a new one.
func fileMode(path string) os.FileMode {
	if info, err := os.Stat(path); err == nil {
		return info.Mode().Perm()
	}
	return 0o644
}
