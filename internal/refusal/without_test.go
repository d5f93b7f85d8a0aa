package refusal

import (
	"errors"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// TestWithout: of joined errors only those are left out that drop names.
func TestWithout(t *testing.T) {
	capture, fault := error(cu.ErrorStreamCaptureUnsupported), error(cu.ErrorIllegalAddress)
	drop := func(err error) bool { return err == capture }
	for _, c := range []struct{ err, want error }{
		{nil, nil}, {capture, nil}, {fault, fault}, {errors.Join(capture, fault), fault}, {errors.Join(fault, errors.Join(capture, capture)), fault},
	} {
		if got := Without(c.err, drop); got != c.want {
			t.Errorf("%v without the error of the capture is %v, want %v", c.err, got, c.want)
		}
	}
}
