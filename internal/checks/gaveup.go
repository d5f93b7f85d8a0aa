package checks

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
)

// GaveUp is what a check did not follow any more, because it would have needed too much memory
// or time. So there may be faults that it has not found.
type GaveUp struct {
	Check string `json:"check"` // "races", "memory", "report"
	What  string `json:"what"`  // what was given up, and what is not found for that reason
	Count int    `json:"count"` // how often. A report has the last power of two that was reached
}

// String returns a line such as "races: launches were forgotten ... (4 times)".
func (g GaveUp) String() string {
	times := "times"
	if g.Count == 1 {
		times = "time"
	}
	return fmt.Sprintf("%s: %s (%d %s)", g.Check, g.What, g.Count, times)
}

// Limits counts what the checks of a driver have given up. The zero Limits is ready to use. It
// is safe for concurrent use.
type Limits struct {
	mu   sync.Mutex
	id   uint64
	list []GaveUp
}

var lastLimits atomic.Uint64

// Add counts that a check has given something up n times more. It writes a row to the file of
// "ferry check" when the count has reached another power of two. unsaid reports that it is the
// first time and that the file does not have it.
func (l *Limits) Add(check, what string, n int) (unsaid bool) {
	if n <= 0 {
		return false
	}
	g, before, id := l.count(check, what, n)
	if bits.Len(uint(before)) == bits.Len(uint(g.Count)) {
		return false
	}
	g.Count = 1 << (bits.Len(uint(g.Count)) - 1)
	written := Append(Row{Check: check, GaveUp: &g, Source: id})
	return before == 0 && !written
}

// Count is Add without the file. It reports whether it is the first time.
func (l *Limits) Count(check, what string, n int) (first bool) {
	_, before, _ := l.count(check, what, n)
	return before == 0
}

// count adds n to a count. It returns the sum, the count before, and what identifies l in this
// process.
func (l *Limits) count(check, what string, n int) (sum GaveUp, before int, id uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.id == 0 {
		l.id = lastLimits.Add(1)
	}
	for i := range l.list {
		if g := &l.list[i]; g.Check == check && g.What == what {
			before = g.Count
			g.Count += n
			return *g, before, l.id
		}
	}
	sum = GaveUp{check, what, n}
	l.list = append(l.list, sum)
	return sum, 0, l.id
}

// List returns what was given up so far, with exact counts.
func (l *Limits) List() []GaveUp {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]GaveUp{}, l.list...)
}
