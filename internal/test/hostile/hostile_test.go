package hostile

import (
	"testing"
	"time"
)

// recorder is a test that only counts its failures.
type recorder struct {
	testing.TB
	failed int
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed++ }

var sink []byte

// TestCheck demands that Check finds what takes too long or too much, and nothing else.
func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		f    func()
		want int
	}{
		"nothing": {func() {}, 0},
		"little at once": {func() {
			for range Memory>>24 + 1 {
				sink = make([]byte, 1<<24)
				time.Sleep(short) // lets the collector and look run
			}
		}, 0},
		"much at once": {func() { sink = make([]byte, Memory+2*fresh) }, 1},
		"much for a while": {func() {
			sink = make([]byte, Memory+2*fresh)
			time.Sleep(100 * short)
			sink = nil
		}, 1},
		"sleep": {func() { time.Sleep(10 * time.Millisecond) }, 0},
	} {
		sink = make([]byte, Memory/2)
		sink = nil // garbage of somebody else
		r := &recorder{TB: t}
		if Check(r, name, c.f); r.failed != c.want {
			t.Errorf("%s: %d failures, want %d", name, r.failed, c.want)
		}
	}
	sink = nil
}

// TestTime demands that a computation without end is too long.
func TestTime(t *testing.T) {
	const limit = 20 * time.Millisecond
	r := &recorder{TB: t}
	check(r, "endless", func() {
		for begin := processorTime(); processorTime()-begin < 3*limit; {
		}
	}, limit)
	if r.failed != 1 {
		t.Errorf("%d failures, want 1", r.failed)
	}
}
