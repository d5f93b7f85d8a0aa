// Package refusal has the errors for what Ferry refuses before a driver sees it, and
// writes sizes for error texts.
package refusal

import (
	"errors"
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

// Error is a refusal. It unwraps to the result that the driver would have given.
type Error struct {
	Result cu.Result
	Text   string
}

func (e *Error) Error() string { return e.Text }

func (e *Error) Unwrap() error { return e.Result }

// Invalid refuses a bad argument: cu.ErrorInvalidValue.
func Invalid(format string, args ...any) error {
	return &Error{cu.ErrorInvalidValue, fmt.Sprintf(format, args...)}
}

// New refuses with any result.
func New(result cu.Result, format string, args ...any) error {
	return &Error{result, fmt.Sprintf(format, args...)}
}

// Is reports whether an error is or wraps a refusal: then the driver was not asked.
func Is(err error) bool {
	_, ok := errors.AsType[*Error](err)
	return ok
}

// Size writes a number of bytes: "1.5 MiB", "17 bytes".
func Size(n uintptr) string {
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
