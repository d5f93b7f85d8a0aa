package refusal

import (
	"errors"
	"fmt"
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

// TestJoin: an error that only says that the context is lost is left out after the first report
// of the fault. All others stay.
func TestJoin(t *testing.T) {
	var loss cu.Loss
	first := loss.Report(cu.ErrorLaunchFailed)
	later := loss.Report(cu.ErrorLaunchFailed)
	other := loss.Report(cu.ErrorIllegalAddress) // another code of a lost context
	closing := errors.New("close")
	for i, c := range []struct{ errs, want []error }{
		{nil, nil},
		{[]error{nil, nil}, nil},
		{[]error{first, nil, later}, []error{first}},
		{[]error{nil, fmt.Errorf("copy: %w", first), fmt.Errorf("close: %w", later)}, []error{fmt.Errorf("copy: %w", first)}},
		{[]error{later, later, closing}, []error{later, closing}},
		{[]error{first, other}, []error{first, other}},
		{[]error{closing, later}, []error{closing, later}},
		{[]error{first, errors.Join(later, closing)}, []error{first, later, closing}},
		{[]error{cu.ErrorInvalidValue, cu.ErrorInvalidValue}, []error{cu.ErrorInvalidValue, cu.ErrorInvalidValue}},
	} {
		got, want := Join(c.errs...), errors.Join(c.want...)
		if (got == nil) != (want == nil) || got != nil && got.Error() != want.Error() {
			t.Errorf("%d: got %v, want %v", i, got, want)
		}
		for _, err := range c.errs {
			if result, ok := errors.AsType[cu.Result](err); ok && result == cu.ErrorLaunchFailed && !errors.Is(got, result) {
				t.Errorf("%d: %v has no %v", i, got, result)
			}
		}
	}
}

// TestJoinReports: one of two reports of a fault is enough, and no panic of a host function
// is lost with a report.
func TestJoinReports(t *testing.T) {
	var loss cu.Loss
	first := loss.Report(cu.ErrorLaunchFailed)
	later := loss.Report(cu.ErrorLaunchFailed)
	panicked := &cu.HostPanic{Value: "planted"}
	for _, c := range []struct {
		name           string
		a, b           error
		reports, panic bool
	}{
		{"first and later", first, later, false, false},
		{"later and first", later, first, false, false},
		{"later with a panic, and first", errors.Join(later, panicked), first, true, true},
		{"first, and later with a panic", first, errors.Join(later, panicked), true, true},
		{"panic alone", panicked, nil, false, true},
		{"panic, and first", panicked, first, true, true},
	} {
		err := JoinReports(c.a, c.b)
		_, has := errors.AsType[*cu.HostPanic](err)
		if has != c.panic || (err != c.a && err != c.b) != c.reports {
			t.Errorf("%s: %v", c.name, err)
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
