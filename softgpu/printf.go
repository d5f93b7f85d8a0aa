package softgpu

import (
	"math"
	"os"
	"strings"
	"sync"
	"sync/atomic"
)

// printed is what kernels of a context have printed and nobody has seen yet. As
// on hardware it is a circular buffer of CU_LIMIT_PRINTF_FIFO_SIZE bytes, in which
// the oldest output gives way to new, and goes to the standard output when the
// context is synchronized with, at the start of the next launch, and so on: see
// the callers of flush. Hardware counts arguments and a header for each call, here
// it is the text. It is safe for concurrent use.
type printed struct {
	bytes   atomic.Int64 // of lines
	writing sync.Mutex   // taken before mu

	mu    sync.Mutex
	limit int
	lines []string
	calls uint64 // of printf, so far: the last of lines is of the last
}

func (p *printed) setLimit(n uintptr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = int(min(n, 1<<30))
	p.drop(p.limit)
}

// add is a call of printf. Of one that prints more than there is room for, the end stays.
func (p *printed) add(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s = s[max(0, len(s)-p.limit):]
	p.drop(p.limit - len(s))
	p.lines = append(p.lines, s)
	p.calls++
	p.bytes.Add(int64(len(s)))
}

// drop forgets the oldest lines beyond n bytes. mu is held.
func (p *printed) drop(n int) {
	first := 0
	for p.bytes.Load() > int64(n) {
		p.bytes.Add(-int64(len(p.lines[first])))
		first++
	}
	clear(p.lines[:first])
	p.lines = p.lines[first:]
}

// flush writes what is there. The driver's lock must not be held: whoever reads
// the standard output may be slow.
func (p *printed) flush() { p.flushTo(math.MaxUint64) }

// mark is what is there, for flushTo later.
func (p *printed) mark() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}

// flushTo is flush of what was there at a mark.
func (p *printed) flushTo(mark uint64) {
	if p.bytes.Load() == 0 {
		return
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	p.mu.Lock()
	first := p.calls - uint64(len(p.lines))
	n := min(max(mark, first)-first, uint64(len(p.lines)))
	text := strings.Join(p.lines[:n], "")
	clear(p.lines[:n])
	p.lines = p.lines[n:]
	p.bytes.Add(-int64(len(text)))
	p.mu.Unlock()
	os.Stdout.WriteString(text)
}
