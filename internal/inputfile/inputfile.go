// Package inputfile reads files that a user names, up to a size: the path may be that of a
// device without end, or of a file that is not what the user believes.
package inputfile

import (
	"fmt"
	"io"
	"os"

	"github.com/ferrygpu/ferry/internal/printable"
)

// The most bytes of files.
const (
	Document = 64 << 20 // results and profiles; the largest that Ferry writes has 1 MB
	Source   = 64 << 20 // PTX, CUDA C++ and Go
	Image    = 1 << 30  // a module for a device
)

// Read reads a file. If the file has more than most bytes, the error says so, and Read has
// not read it whole.
func Read(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, printable.Error(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > most {
		return nil, tooLong(path, most)
	}
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, printable.Error(err)
	}
	if int64(len(text)) > most {
		return nil, tooLong(path, most)
	}
	return text, nil
}

func tooLong(path string, most int64) error {
	return fmt.Errorf("read %s: it has more than %d bytes, the most that such a file may have", printable.Path(path), most)
}
