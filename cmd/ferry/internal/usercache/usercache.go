// Package usercache keeps folders of built files in the user's cache: the driver library of the
// software GPU, and what "ferry cc" makes. A folder has the hash of all that it was made of in its
// name, so it never changes. Programs load what is there, so other users must not be able to write.
package usercache

import (
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ferrygpu/ferry/internal/printable"
)

// newPrefix begins the names of folders that are being filled.
const newPrefix = "new-"

// abandoned is the age at which a folder that nobody has completed is removed.
const abandoned = 24 * time.Hour

// keyBytes is the length of the hash in the name of a folder.
const keyBytes = 16

// Key returns the name of a folder for a hash of what it is made of.
func Key(sum hash.Hash) string { return hex.EncodeToString(sum.Sum(nil)[:keyBytes]) }

// Path returns a folder for a part of Ferry in the user's cache, which need not be there.
func Path(part string) (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache: %w", err)
	}
	return filepath.Join(dir, "ferry", part), nil
}

// Find returns whether a folder has a file that is not empty. Such a folder then counts as used now.
// It is an error if other users could change what is there.
func Find(root, key, file string) (bool, error) {
	dir := filepath.Join(root, key)
	info, err := os.Stat(filepath.Join(dir, file))
	if err != nil || info.Size() == 0 {
		return false, nil
	}
	if err := errors.Join(Safe(root), Safe(dir), Safe(filepath.Join(dir, file))); err != nil {
		return false, err
	}
	now := time.Now()
	_ = os.Chtimes(dir, now, now) // so that the oldest are those that nobody uses
	return true, nil
}

// Fill makes a folder: fill writes into a new one, which then becomes that of the key. It is safe
// for concurrent use, also by several processes: the first that has the file wins.
func Fill(root, key, file string, fill func(dir string) error) error {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	if err := Safe(root); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(root, newPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := fill(dir); err != nil {
		return err
	}
	err = os.Rename(dir, filepath.Join(root, key))
	if _, there := os.Stat(filepath.Join(root, key, file)); there == nil {
		return nil // moved, or another process was faster
	}
	return err
}

// Safe demands that nobody but this user and the administrator can change a file or folder.
func Safe(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !Trusted(info):
		return fmt.Errorf("%s belongs to another user, who could change what programs load: remove it, or name another cache by XDG_CACHE_HOME", printable.Path(path))
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s can be written by other users (mode %#o): take that right away by \"chmod go-w\", or name another cache by XDG_CACHE_HOME", printable.Path(path), info.Mode().Perm())
	}
	return nil
}

// Prune keeps a number of folders, the current one among them, and removes those that were not used
// for longest, and what was abandoned half made. A program that has loaded a file keeps it.
func Prune(root, current string, keep int) error {
	entries, err := os.ReadDir(root)
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
		path := filepath.Join(root, e.Name())
		switch {
		case gone != nil || !e.IsDir() || e.Name() == current:
		case len(e.Name()) == 2*keyBytes:
			old = append(old, folder{path, info.ModTime()})
		case strings.HasPrefix(e.Name(), newPrefix) && time.Since(info.ModTime()) > abandoned:
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	slices.SortFunc(old, func(a, b folder) int { return b.used.Compare(a.used) })
	for _, f := range old[min(len(old), keep-1):] {
		err = errors.Join(err, os.RemoveAll(f.path))
	}
	return err
}
