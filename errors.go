package ferry

import (
	"errors"
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

// ErrClosed is what using something after its Close wraps: a buffer, stream,
// event, module or GPU. The error's text says which. Closing twice is no error.
var ErrClosed = errors.New("already closed")

// refusal is something that Ferry refuses before the driver sees it. It unwraps
// to the result that the driver would give.
type refusal struct {
	result cu.Result
	text   string
}

func (e *refusal) Error() string { return e.text }

func (e *refusal) Unwrap() error { return e.result }

// refuse makes a refusal for a bad argument.
func refuse(format string, args ...any) error {
	return &refusal{cu.ErrorInvalidValue, fmt.Sprintf(format, args...)}
}

// lacking makes a refusal for what the device cannot do, as its attribute says.
func (g *GPU) lacking(what string, attribute cu.DeviceAttribute, remedy string) error {
	return &refusal{cu.ErrorNotSupported, fmt.Sprintf("%s on %s: the device cannot (%s is 0): %s", what, g.label, attribute, remedy)}
}

// inCallback says that a driver call was refused because it came from a host
// function.
func inCallback(err error) bool { return errors.Is(err, cu.ErrorNotPermitted) }

// sticky says that the context is lost.
func sticky(err error) bool {
	r, ok := errors.AsType[cu.Result](err)
	return ok && r.Sticky()
}

// sizeText writes a number of bytes for people.
func sizeText(n uintptr) string {
	switch {
	case n >= 1<<40:
		return fmt.Sprintf("%.1f TiB", float64(n)/(1<<40))
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n == 1:
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", n)
}
