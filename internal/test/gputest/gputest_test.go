package gputest

import (
	"strings"
	"testing"
)

func TestSkip(t *testing.T) {
	for _, c := range []struct{ required, want string }{
		{"", "skip: no GPU"}, {"0", "skip: no GPU"}, {"1", "fatal: no GPU"},
	} {
		t.Setenv(RequireVariable, c.required)
		got := (&Recorder{TB: t}).Run(func(tb testing.TB) { Skip(tb, "because") })
		if !strings.HasPrefix(got, c.want) || !strings.Contains(got, "because") {
			t.Errorf("%s=%q: %q, want %q", RequireVariable, c.required, got, c.want)
		}
	}
}

// TestDriverWithoutLibrary opens the driver as on a machine without a GPU.
func TestDriverWithoutLibrary(t *testing.T) {
	t.Setenv("FERRY_LIBCUDA", "/no/such/libcuda.so.1")
	t.Setenv(RequireVariable, "1")
	got := (&Recorder{TB: t}).Run(func(tb testing.TB) { Driver(tb) })
	if !strings.HasPrefix(got, "fatal: no GPU") {
		t.Errorf("%q, want a failure", got)
	}
}
