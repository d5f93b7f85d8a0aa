package refusal

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// TestRefusals checks the texts of refusals and the results that they wrap.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		err    error
		result cu.Result
		text   string
	}{
		{Invalid("%d arguments, want %d", 1, 2), cu.ErrorInvalidValue, "1 arguments, want 2 (CUDA_ERROR_INVALID_VALUE)"},
		{New(cu.ErrorNotPermitted, "in a host function"), cu.ErrorNotPermitted, "in a host function (CUDA_ERROR_NOT_PERMITTED)"},
	} {
		if c.err.Error() != c.text {
			t.Errorf("got %q, want %q", c.err, c.text)
		}
		for _, err := range []error{c.err, fmt.Errorf("copy: %w", c.err), errors.Join(cu.ErrorOutOfMemory, c.err)} {
			if !Is(err) || !errors.Is(err, c.result) || errors.Is(err, cu.ErrorUnknown) {
				t.Errorf("%q: a refusal %v, wraps %v: %v; want both", err, Is(err), c.result, errors.Is(err, c.result))
			}
		}
	}
	for _, err := range []error{nil, errors.New("other"), cu.ErrorInvalidValue, fmt.Errorf("copy: %w", cu.ErrorInvalidValue)} {
		if Is(err) {
			t.Errorf("%v is not a refusal", err)
		}
	}
}

// TestSize checks the unit and the rounding at both sides of each boundary.
func TestSize(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 bytes", 1: "1 byte", 2: "2 bytes", 1<<10 - 1: "1023 bytes",
		1 << 10: "1.0 KiB", 1<<10 + 1<<9: "1.5 KiB", 1<<20 - 1<<10: "1023.0 KiB",
		1 << 20: "1.0 MiB", 1<<30 - 1<<20: "1023.0 MiB", 1 << 30: "1.0 GiB", 8 << 30: "8.0 GiB",
		1<<40 - 1<<30: "1023.0 GiB", 1 << 40: "1.0 TiB", 5 << 39: "2.5 TiB",
	} {
		if uint64(uintptr(n)) != n {
			continue // larger than the address space
		}
		if got := Size(uintptr(n)); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}

// TestJoin: an error that only says that the context is lost is left out beside the first report
// of the fault, wherever that stands, as is an error that was there before. All others stay.
func TestJoin(t *testing.T) {
	var loss cu.Loss
	kernel := &cu.Fault{Result: cu.ErrorLaunchFailed, Kernel: "k", Op: "trap"}
	first := loss.Report(cu.ErrorLaunchFailed)
	later := loss.Report(cu.ErrorLaunchFailed)
	other := loss.Report(cu.ErrorIllegalAddress) // another code of a lost context
	closing := errors.New("close")
	panicked := &cu.HostPanic{Value: "planted"}
	wait, free := fmt.Errorf("wait: %w", first), fmt.Errorf("free: %w", later)
	for i, c := range []struct{ errs, want []error }{
		{nil, nil},
		{[]error{nil, nil}, nil},
		{[]error{first, nil, later}, []error{first}},
		{[]error{later, first}, []error{first}},
		{[]error{nil, wait, free}, []error{wait}},
		{[]error{free, closing, wait}, []error{closing, wait}},
		{[]error{wait, fmt.Errorf("pending: %w", first)}, []error{wait}},
		{[]error{later, later, closing}, []error{later, closing}},
		{[]error{first, other}, []error{first, other}},
		{[]error{closing, later}, []error{closing, later}},
		{[]error{first, errors.Join(later, closing)}, []error{first, closing}},
		{[]error{errors.Join(free, errors.Join(closing, later)), first}, []error{closing, first}},
		{[]error{fmt.Errorf("close: %w", errors.Join(later, closing)), first}, []error{fmt.Errorf("close: %w", errors.Join(later, closing)), first}},
		{[]error{cu.ErrorInvalidValue, cu.ErrorInvalidValue}, []error{cu.ErrorInvalidValue}},
		{[]error{fmt.Errorf("a: %w", cu.ErrorInvalidValue), cu.ErrorInvalidValue}, []error{fmt.Errorf("a: %w", cu.ErrorInvalidValue), cu.ErrorInvalidValue}},
		{[]error{errors.Join(later, panicked), first}, []error{panicked, first}},
		{[]error{first, errors.Join(later, panicked)}, []error{first, panicked}},
		{[]error{panicked, nil}, []error{panicked}},
		{[]error{panicked, first}, []error{panicked, first}},
		{[]error{kernel, fmt.Errorf("pending: %w", kernel), later}, []error{kernel}},
		{[]error{later, first, kernel}, []error{kernel}},
		{[]error{kernel, &cu.Fault{Result: cu.ErrorLaunchFailed, Kernel: "other"}}, []error{kernel, &cu.Fault{Result: cu.ErrorLaunchFailed, Kernel: "other"}}},
	} {
		got, want := Join(c.errs...), errors.Join(c.want...)
		if (got == nil) != (want == nil) || got != nil && got.Error() != want.Error() {
			t.Errorf("%d: got %v, want %v", i, got, want)
		}
		if len(c.want) == 1 && got.Error() == c.want[0].Error() && reflect.TypeOf(got) != reflect.TypeOf(c.want[0]) {
			t.Errorf("%d: a single error is a %T, want a %T", i, got, c.want[0])
		}
		for _, err := range c.errs {
			if result, ok := errors.AsType[cu.Result](err); ok && !errors.Is(got, result) {
				t.Errorf("%d: %v has no %v", i, got, result)
			}
		}
	}
}

// TestElements: sizes that wrap are told as a number of elements.
func TestElements(t *testing.T) {
	for _, c := range []struct {
		n, each uintptr
		text    string
	}{
		{0, 8, "0 bytes"}, {3, 4, "12 bytes"}, {5, 0, "0 bytes"}, {1 << 20, 4, "4.0 MiB"},
		{1 << 61, 8, "2305843009213693952 elements of 8 bytes, more than the address space"},
		{1 << 62, 5, "4611686018427387904 elements of 5 bytes, more than the address space"},
	} {
		if got := Elements(c.n, c.each); got != c.text {
			t.Errorf("%d of %d: %q, want %q", c.n, c.each, got, c.text)
		}
	}
}
