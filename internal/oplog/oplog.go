// Package oplog tells a program's logger about events that operators watch: slow page-locking,
// fallbacks, copies that wait, leaks, limits. It has the rule that keeps a hot path from filling a log.
package oplog

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ferrygpu/ferry/internal/callsite"
)

// The messages. They are constant, so that a program can count them.
const (
	SlowLock   = "slow page-locking"
	Fallback   = "fallback"
	StagedCopy = "copy waits for pageable memory"
	Leak       = "leak"
	Limit      = "limit of page-locked memory reached"
)

// target is a logger, and how often each event has come.
type target struct {
	logger *slog.Logger
	places callsite.Finder
	mu     sync.Mutex
	counts map[event]uint64
}

// event is what is counted together.
type event struct{ message, reason, place string }

var current atomic.Pointer[target]

// Set sets the logger. With nil, the default, nothing is logged.
func Set(l *slog.Logger) {
	if l == nil {
		current.Store(nil)
		return
	}
	current.Store(&target{logger: l, counts: map[event]uint64{}})
}

// On reports whether there is a logger. Callers ask before they make attributes.
func On() bool { return current.Load() != nil }

// maxEvents bounds the events that are counted. More are of no place.
const maxEvents = 1 << 12

// Say logs an event at the line of the program that has called Ferry: the first one of its message,
// reason and place, and then the 10th, the 100th and so on. The handler runs on a goroutine of its
// own, because callers may hold what the handler needs if it calls Ferry.
func Say(level slog.Level, message, reason string, attrs ...slog.Attr) {
	t := current.Load()
	if t == nil || !t.logger.Enabled(context.Background(), level) {
		return
	}
	t.say(level, event{message, reason, t.places.Place(t.places.Find(1, nil)).String()}, attrs)
}

// Bytes logs an event about a number of bytes of a GPU.
func Bytes(level slog.Level, message, reason string, bytes uintptr, gpu string) {
	if On() {
		Say(level, message, reason, slog.Uint64("bytes", uint64(bytes)), slog.String("gpu", gpu))
	}
}

// NoSlot logs that the driver makes a copy because the staging ring has no slot.
func NoSlot(bytes uintptr, gpu string) {
	Bytes(slog.LevelWarn, Fallback, "the staging ring has no slot, the driver copies", bytes, gpu)
}

// slowLock is from when on page-locking is slow, and slowRate below how many bytes a second, for
// slowBytes and more.
const (
	slowLock  = 100 * time.Millisecond
	slowRate  = 500e6
	slowBytes = 1 << 20
)

// Locked logs page-locking that was slow.
func Locked(bytes uintptr, took time.Duration, gpu string) {
	if took > slowLock || bytes >= slowBytes && float64(bytes) < slowRate*took.Seconds() {
		Say(slog.LevelWarn, SlowLock, "", slog.Uint64("bytes", uint64(bytes)), slog.Duration("duration", took), slog.String("gpu", gpu))
	}
}

// SayAt is Say for an event at another line, that of a call stack.
func SayAt(stack []uintptr, level slog.Level, message, reason string, attrs ...slog.Attr) {
	t := current.Load()
	if t == nil || !t.logger.Enabled(context.Background(), level) {
		return
	}
	place := callsite.Place{}.String()
	for f := range callsite.Foreign(stack) {
		place = callsite.Line(f.File, f.Line)
		break
	}
	t.say(level, event{message, reason, place}, attrs)
}

func (t *target) say(level slog.Level, e event, attrs []slog.Attr) {
	n := t.count(e)
	if !powerOfTen(n) {
		return
	}
	r := slog.NewRecord(time.Now(), level, e.message, 0)
	if e.reason != "" {
		r.AddAttrs(slog.String("reason", e.reason))
	}
	r.AddAttrs(attrs...)
	r.AddAttrs(slog.String("place", e.place), slog.Uint64("count", n))
	go func() { _ = t.logger.Handler().Handle(context.Background(), r) }()
}

// count counts an event, and returns how often it has come.
func (t *target) count(e event) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.counts[e]; !known && len(t.counts) >= maxEvents {
		e.place = ""
	}
	t.counts[e]++
	return t.counts[e]
}

func powerOfTen(n uint64) bool {
	for n >= 10 && n%10 == 0 {
		n /= 10
	}
	return n == 1
}
