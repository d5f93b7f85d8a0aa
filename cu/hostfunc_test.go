package cu_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

func TestHostPanicWraps(t *testing.T) {
	err := fmt.Errorf("wait: %w", &cu.HostPanic{Value: fmt.Errorf("read: %w", io.ErrUnexpectedEOF)})
	for _, want := range []error{cu.ErrorUnknown, io.ErrUnexpectedEOF} {
		if !errors.Is(err, want) {
			t.Errorf("%v does not wrap %v", err, want)
		}
	}
	if code, ok := errors.AsType[cu.Result](err); !ok || code.Sticky() {
		t.Errorf("result %v, %t: want a result that is not sticky", code, ok)
	}
}

func TestHostPanicFormat(t *testing.T) {
	e := &cu.HostPanic{Value: "index 4", Stack: []byte("goroutine 7")}
	for _, c := range []struct {
		format string
		stack  bool
	}{{"%v", false}, {"%s", false}, {"%+v", true}} {
		got := fmt.Sprintf(c.format, e)
		if !strings.Contains(got, "index 4") || strings.Contains(got, "goroutine 7") != c.stack {
			t.Errorf("%s is %q", c.format, got)
		}
	}
}
