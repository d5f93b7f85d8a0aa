// Package refusal makes the errors of requests that Ferry refuses without a driver call. It
// also formats sizes for error texts.
package refusal

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/ferrygpu/ferry/cu"
)

// Error is the error of a refused request. It unwraps to the result that the driver would
// have returned.
type Error struct {
	Result cu.Result
	Text   string
}

// Error returns the text, followed by the CUDA name of the result: "0 bytes: must be positive
// (CUDA_ERROR_INVALID_VALUE)".
func (e *Error) Error() string { return e.Text + " (" + e.Result.Name() + ")" }

func (e *Error) Unwrap() error { return e.Result }

// Invalid returns the error for an invalid argument, which wraps cu.ErrorInvalidValue.
func Invalid(format string, args ...any) error {
	return &Error{cu.ErrorInvalidValue, fmt.Sprintf(format, args...)}
}

// New returns an error that wraps a result.
func New(result cu.Result, format string, args ...any) error {
	return &Error{result, fmt.Sprintf(format, args...)}
}

// Is reports whether an error is or wraps an Error, so that no driver call has caused it.
func Is(err error) bool {
	_, ok := errors.AsType[*Error](err)
	return ok
}

// Cause returns err without what a driver says it was doing, if err says so: for texts that
// say it already. The result wraps err.
func Cause(err error) error {
	if e, ok := err.(interface{ Cause() string }); ok {
		return &cause{err, e.Cause()}
	}
	return err
}

// Join joins errors of the same work, in any order, as [errors.Join] does. It leaves out those that
// tell nothing more: of two errors with the same text the second, and of several reports of one
// fault all but the first report, because the others only say that the context is lost. It looks
// into what errors.Join has joined. A single error that is left is returned as it is.
func Join(errs ...error) error {
	if !slices.ContainsFunc(errs, func(err error) bool { return err != nil }) { // the common case, without more work
		return nil
	}
	var all []error
	for _, err := range errs {
		for _, err := range parts(err) {
			if !slices.ContainsFunc(all, func(e error) bool { return tells(e, err) }) {
				all = append(slices.DeleteFunc(all, func(e error) bool { return tells(err, e) }), err)
			}
		}
	}
	if len(all) == 1 {
		return all[0]
	}
	return errors.Join(all...)
}

// Without returns err without those of its joined errors for which drop is true.
func Without(err error, drop func(error) bool) error {
	if err == nil {
		return nil
	}
	return Join(slices.DeleteFunc(parts(err), drop)...)
}

// joined is the type of the results of errors.Join.
var joined = reflect.TypeOf(errors.Join(cu.ErrorUnknown))

// parts returns the errors that errors.Join has joined to err, or err itself; none for nil.
func parts(err error) (all []error) {
	switch {
	case err == nil:
		return nil
	case reflect.TypeOf(err) != joined:
		return []error{err}
	}
	for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
		all = append(all, parts(e)...)
	}
	return all
}

// tells reports whether err tells all that other does: it has the same text, or other is a report
// of a fault that err reports, too, and not later than other.
func tells(err, other error) bool {
	if err.Error() == other.Error() {
		return true
	}
	fault := reported(other)
	return fault != nil && errors.Is(err, fault) && (IsLost(other) || !IsLost(err))
}

// reported returns the fault that err reports, if it does no more: a [*cu.Fault], or the sticky
// [cu.Result] that stands for the fault. It returns nil for other errors.
func reported(err error) error {
	for err != nil {
		switch e := err.(type) {
		case *cu.Lost:
			return e.Result
		case *cu.Fault:
			return e
		case cu.Result:
			if e.Sticky() {
				return e
			}
		}
		err = errors.Unwrap(err)
	}
	return nil
}

// Sticky reports whether an error means that the context is lost.
func Sticky(err error) bool {
	r, ok := errors.AsType[cu.Result](err)
	return ok && r.Sticky()
}

// IsLost reports whether a fault was reported before err.
func IsLost(err error) bool {
	_, ok := errors.AsType[*cu.Lost](err)
	return ok
}

// cause is an error with a shorter text.
type cause struct {
	error
	text string
}

func (e *cause) Error() string { return e.text }

func (e *cause) Unwrap() error { return e.error }

// Elements formats the size of n elements of each bytes, also where an address cannot count
// them: "2305843009213693952 elements of 8 bytes, more than the address space".
func Elements(n, each uintptr) string {
	if bytes, ok := Bytes(n, each); ok {
		return Size(bytes)
	}
	return fmt.Sprintf("%d elements of %s, more than the address space", n, Size(each))
}

// Bytes returns the size of n elements of each bytes. Without ok it is more than an address can
// count, and the result is the most that it can.
func Bytes(n, each uintptr) (bytes uintptr, ok bool) {
	if each != 0 && n > math.MaxUint/each {
		return math.MaxUint, false
	}
	return n * each, true
}

// Size formats a number of bytes: "1.5 MiB", "17 bytes".
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
