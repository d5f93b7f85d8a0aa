//go:build unix

package checkpoint

import (
	"os"
	"syscall"
)

// openFile opens a file to read. Without O_NONBLOCK it would wait for the writer of a named pipe.
func openFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}
