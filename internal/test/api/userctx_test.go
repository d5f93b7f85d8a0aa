package api

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/fault"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestContextPanics: every function and method that takes a context takes one whose methods panic
// or end the goroutine. That of Done reaches the caller, that of Err is an error. Nothing
// stays in use, and no goroutine of Ferry ends the process.
func TestContextPanics(t *testing.T) {
	planted := errors.New("planted")
	nothing, panics := func() {}, func() { panic(planted) }
	for what, kind := range map[string]struct {
		ask, ended func()
		typedNil   bool
		reaches    func(value any) bool // the value with which the call must not return; nil if it must
		says       string
	}{
		"a typed nil":    {typedNil: true, reaches: func(v any) bool { _, ok := v.(runtime.Error); return ok }},
		"Done panics":    {ask: panics, reaches: func(v any) bool { return v == any(planted) }},
		"Done exits":     {ask: runtime.Goexit, reaches: func(v any) bool { return v == nil }},
		"Err panics":     {ask: nothing, ended: panics, says: "Err of the context panicked: planted"},
		"Err exits":      {ask: nothing, ended: runtime.Goexit, says: "runtime.Goexit"},
		"Err is its own": {ask: nothing, ended: nothing, says: gputest.ErrEnded.Error()},
	} {
		for name, open := range map[string]func() cu.Driver{
			"polled":  func() cu.Driver { return &gputest.Holding{Driver: softDriver(t, "h200", 1, softgpu.Eager)} },
			"waiting": func() cu.Driver { return softDriver(t, "h200", 1, softgpu.Eager) },
		} {
			d := fault.Wrap(open(), fault.Options{})
			g := must(ferry.OpenDriver(d, 0))(t)
			testContextCalls(t, g, func(t *testing.T, call string, c contextCall) {
				t.Helper()
				call = name + ", " + call + ": " + what
				var ctx *gputest.Context
				if !kind.typedNil {
					ctx = &gputest.Context{Ended: make(chan struct{}), Ask: kind.ask, AtEnd: kind.ended}
					defer time.AfterFunc(shortWait/10, func() { close(ctx.Ended) }).Stop()
				}
				returned, value, err := endOf(t, call, func() (int64, error) { return 0, c.call(ctx) })
				switch {
				case kind.reaches != nil && (returned || !kind.reaches(value)):
					t.Errorf("%s: returned %t, %v, panic of %v", call, returned, err, value)
				case kind.reaches == nil && (!returned || value != nil):
					t.Errorf("%s: returned %t, panic of %v", call, returned, value)
				case kind.reaches == nil && !c.atOnce && (err == nil || !strings.Contains(err.Error(), kind.says)):
					t.Errorf("%s: got %v, want %q", call, err, kind.says)
				}
			})
			ends(t, what+": Close of the GPU", func() { check(t, g.Close()) })
			eventually(t, what+": nothing is left", func() bool { return len(d.Live()) == 0 })
			if live := d.Live(); len(live) > 0 {
				t.Errorf("%s: %v are left", what, live)
			}
		}
	}
}
