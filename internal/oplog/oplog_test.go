package oplog

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"
)

// counter is a handler that sends the count of each record.
type counter struct{ counts chan uint64 }

func (c counter) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (c counter) WithAttrs([]slog.Attr) slog.Handler           { return c }
func (c counter) WithGroup(string) slog.Handler                { return c }
func (c counter) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "count" {
			c.counts <- a.Value.Uint64()
		}
		return true
	})
	return nil
}

// TestSay: of the events of one place and reason the first, the 10th, the 100th and so on are logged, and
// none below the level of the logger.
func TestSay(t *testing.T) {
	c := counter{make(chan uint64, 1000)}
	Set(slog.New(c))
	defer Set(nil)
	if !On() {
		t.Fatal("there is no logger")
	}
	for i := range 1234 {
		Say(slog.LevelWarn, Fallback, fmt.Sprint(i%2))
		Say(slog.LevelInfo, Fallback, "below the level")
	}
	got := map[uint64]int{}
	for range 6 {
		select {
		case n := <-c.counts:
			got[n]++
		case <-time.After(10 * time.Second):
		}
	}
	time.Sleep(time.Millisecond)
	if got[1] != 2 || got[10] != 2 || got[100] != 2 || len(c.counts) != 0 {
		t.Errorf("got %v and %d more, want 1, 10 and 100, twice each", got, len(c.counts))
	}
	Set(nil)
	Say(slog.LevelWarn, Fallback, "nobody hears it")
}

// TestManyEvents: more places than are counted are counted together.
func TestManyEvents(t *testing.T) {
	x := &target{counts: map[event]uint64{}}
	for i := range maxEvents + 500 {
		x.count(event{Leak, "", fmt.Sprint(i)})
	}
	if n := len(x.counts); n != maxEvents+1 || x.counts[event{Leak, "", ""}] != 500 || x.count(event{Leak, "", "7"}) != 2 {
		t.Errorf("%d events are counted, %d without a place", n, x.counts[event{Leak, "", ""}])
	}
}

// TestLocked: page-locking is slow by its duration, or by its rate if it is large.
func TestLocked(t *testing.T) {
	c := counter{make(chan uint64, 1000)}
	for _, x := range []struct {
		bytes uintptr
		took  time.Duration
		slow  bool
	}{
		{1, 101 * time.Millisecond, true}, {1, 99 * time.Millisecond, false}, {1 << 30, 101 * time.Millisecond, true},
		{1 << 20, 3 * time.Millisecond, true}, {1 << 20, time.Millisecond, false}, {1<<20 - 1, 50 * time.Millisecond, false},
	} {
		Set(slog.New(c))
		Locked(x.bytes, x.took, "soft")
		n := len(current.Load().counts)
		if (n == 1) != x.slow {
			t.Errorf("%d bytes in %v: %d records, want %t", x.bytes, x.took, n, x.slow)
		}
	}
	Set(nil)
}
