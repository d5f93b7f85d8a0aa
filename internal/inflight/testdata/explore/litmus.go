package inflight

import (
	"testing"

	"explore/sched"
)

// litmus runs threads in all interleavings with one preemption, then with more of them,
// until all interleavings or enough of them have been tried. A preemption is a switch
// from a thread that could go on. Nearly all errors need one or two.
func litmus(t *testing.T, prepare func() (threads []func(), check func())) {
	t.Helper()
	enough := 2000
	if testing.Short() {
		enough /= 4
	}
	for preemptions, before := 1, 0; ; preemptions++ {
		schedules, last, hung := sched.Explore(preemptions, prepare, t.Failed)
		if hung {
			t.Error("the threads wait for ever")
		}
		if t.Failed() {
			t.Fatalf("schedule %d with %d preemptions: %v", schedules, preemptions, last)
		}
		if schedules == before || schedules >= enough {
			t.Logf("%d schedules with %d preemptions", schedules, preemptions)
			return
		}
		before = schedules
	}
}

// seen reports whether f is true.
func seen(f func() bool) bool { return f() }
