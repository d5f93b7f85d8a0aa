package trace

import (
	"sync/atomic"
	"time"
)

// reader lets a goroutine of its own read the times of operations: on an H200
// cuEventElapsedTime takes 3 us, more than to queue a small copy. The goroutine exists while
// operations are pending and shows up each millisecond.
//
// The first operations of a context are also read when the program waits for them, so that a short
// program that closes nothing has all its rows.
type reader struct {
	pushed atomic.Uint64 // operations so far
	armed  atomic.Bool   // the goroutine sleeps or reads
	delay  time.Duration // of its sleep; only who has set armed may use it
}

// Times of the reader.
const (
	readDelay = time.Millisecond
	readLimit = time.Second // without an operation that is done the delay doubles until then, and the reader ends
)

// waitedFor is the number of operations of a context that are read when the program waits.
const waitedFor = 1024

// push gives the reader an operation that is queued.
func (t *timer) push(x *timing) {
	x.clock.push(x)
	t.reader.pushed.Add(1)
	t.expect()
}

// expect lets the reader read soon.
func (t *timer) expect() {
	r := &t.reader
	if r.armed.Load() || !r.armed.CompareAndSwap(false, true) {
		return
	}
	t.d.rec.unread(t)
	r.delay = readDelay
	time.AfterFunc(r.delay, t.wake)
}

// wake reads times, and sleeps again if operations are left.
func (t *timer) wake() {
	r := &t.reader
	last := r.pushed.Load()
	read, left := t.readAll()
	if r.delay *= 2; read > 0 {
		r.delay = readDelay
	}
	if left > 0 && r.delay <= readLimit {
		time.AfterFunc(r.delay, t.wake)
		return
	}
	r.armed.Store(false) // first, so that a push after allRead finds it so
	if left == 0 {
		t.d.rec.allRead(t, last)
	}
	if r.pushed.Load() != last { // the push may have found the reader armed
		t.expect()
	}
}

// readAll reads the times of all operations that are done. It returns how many these were, and how
// many are left.
func (t *timer) readAll() (read, left int) {
	t.mu.Lock()
	all := make([]*clock, 0, len(t.contexts))
	for _, k := range t.contexts {
		all = append(all, k)
	}
	t.mu.Unlock()
	for _, k := range all {
		r, l := t.readClock(k)
		read, left = read+r, left+l
	}
	return read, left
}

// readClock reads the times of the operations of a context that are done, and waits for other
// goroutines that do the same. It returns how many it has read, and how many are left.
func (t *timer) readClock(k *clock) (read, left int) {
	for _, q := range k.all() {
		for n := 4 * k.length(q); n > 1 && t.captures.none(); {
			n = min((n+3)/4, readAtOnce)
			for t.read(k, q, n, true) {
				read += n
			}
		}
		left += k.left(q)
	}
	return read, left
}

// settle reads the times of operations that are done, after the program has waited.
func (t *timer) settle(k *clock) {
	if k.young() {
		t.readClock(k)
	} else {
		t.expect()
	}
}
