package cutest

import (
	"errors"

	"github.com/ferrygpu/ferry/cu"
)

// stickyError says whether err is one that a context does not recover from.
func stickyError(err error) bool {
	var code cu.Result
	return errors.As(err, &code) && code.Sticky()
}
