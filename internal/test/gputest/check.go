package gputest

import (
	"errors"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// CloseAll closes things in this order.
func CloseAll(t testing.TB, things ...interface{ Close() error }) {
	t.Helper()
	for _, c := range things {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

// WantError checks that err wraps is, that its text has the name of the result once, and
// that it has all parts.
func WantError(t testing.TB, err, is error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %v", is)
		return
	}
	if !errors.Is(err, is) {
		t.Errorf("got %q, which does not wrap %v", err, is)
	}
	if code, ok := is.(cu.Result); ok && strings.Count(err.Error(), code.Name()) != 1 {
		t.Errorf("got %q, which does not have %s once", err, code.Name())
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("got %q, want %q in it", err, p)
		}
	}
}
