package cutest

import (
	"errors"

	"github.com/ferrygpu/ferry/cu"
)

// stickyError reports whether err has made its context unusable.
func stickyError(err error) bool {
	var code cu.Result
	return errors.As(err, &code) && code.Sticky()
}
