package gputest

import (
	"fmt"
	"strings"
	"testing"
)

// recorder is a testing.TB that records how a test ended.
type recorder struct {
	testing.TB
	ended string
}

func (r *recorder) Helper()           {}
func (r *recorder) Fatal(args ...any) { r.end("fatal: " + fmt.Sprint(args...)) }
func (r *recorder) Skip(args ...any)  { r.end("skip: " + fmt.Sprint(args...)) }
func (r *recorder) end(how string)    { r.ended = how; panic(r) }
func (r *recorder) run(f func(testing.TB)) (how string) {
	defer func() {
		if v := recover(); v != nil && v != any(r) {
			panic(v)
		}
		how = r.ended
	}()
	f(r)
	return ""
}

func TestSkip(t *testing.T) {
	for _, c := range []struct{ required, want string }{
		{"", "skip: no GPU"}, {"0", "skip: no GPU"}, {"1", "fatal: no GPU"},
	} {
		t.Setenv(RequireVariable, c.required)
		got := (&recorder{TB: t}).run(func(tb testing.TB) { Skip(tb, "because") })
		if !strings.HasPrefix(got, c.want) || !strings.Contains(got, "because") {
			t.Errorf("%s=%q: %q, want %q", RequireVariable, c.required, got, c.want)
		}
	}
}

// TestDriverWithoutLibrary opens the driver as on a machine without a GPU.
func TestDriverWithoutLibrary(t *testing.T) {
	t.Setenv("FERRY_LIBCUDA", "/no/such/libcuda.so.1")
	t.Setenv(RequireVariable, "1")
	got := (&recorder{TB: t}).run(func(tb testing.TB) { Driver(tb) })
	if !strings.HasPrefix(got, "fatal: no GPU") {
		t.Errorf("%q, want a failure", got)
	}
}
