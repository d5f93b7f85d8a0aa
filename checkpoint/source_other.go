//go:build !linux

package checkpoint

import (
	"errors"
	"os"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// errUnaligned is the error of no read.
var errUnaligned = errors.New("unaligned")

func reopenDirect(*os.File) (*os.File, error) {
	return nil, refusal.New(cu.ErrorNotSupported, "Ferry does so on Linux only")
}

func worthDirect(*os.File, fileRanges) bool { return false }

func dropCache(*os.File, fileRanges) error { return nil }
