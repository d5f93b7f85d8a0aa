//go:build !unix

package outfile

import (
	"errors"
	"io/fs"
	"os"
)

// duplicate returns standard output or standard error. Other descriptors have no names here.
func duplicate(n int, name string) (*os.File, error) {
	return nil, errors.ErrUnsupported
}

// openForWriting refuses every descriptor: they have no names here.
func openForWriting(int) error { return errors.ErrUnsupported }

// keepOwner does nothing where files have no groups.
func keepOwner(*os.File, fs.FileInfo) bool { return true }

// noSync reports that every file system can synchronize.
func noSync(error) bool { return false }
