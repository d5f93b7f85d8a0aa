package account

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ferrygpu/ferry/internal/callsite"
)

// maxDepth is the number of stack frames that are recorded.
const maxDepth = 40

// maxPlaces bounds the stacks that are kept. Memory of further ones is of a place without a stack.
const maxPlaces = 1 << 14

// Place is memory that was made at one place of the program.
type Place struct {
	Kind     string
	Stack    []uintptr // program counters of the program's frames, the innermost first
	Bytes    int       // in use
	Buffers  int
	AllBytes int64 // ever
	AllCount int64
}

// Places records where memory is made. The zero Places is off. It is safe for concurrent use.
type Places struct {
	on atomic.Bool

	mu    sync.Mutex
	known map[stack]*Site // by the whole stack
	sites map[stack]*Site // by the frames of the program, which several stacks can share
	all   []*Site
}

// stack is a kind and the addresses of a stack.
type stack struct {
	kind string
	pcs  [maxDepth]uintptr
}

// Site is a place that makes memory. A nil Site counts nothing.
type Site struct {
	of    *Places
	place Place // Places.mu guards its numbers
}

// Record turns recording on or off. What was recorded stays.
func (p *Places) Record(on bool) { p.on.Store(on) }

// site returns the place of the caller, nil if places are not recorded.
func (p *Places) site(kind string) *Site {
	if !p.on.Load() {
		return nil
	}
	key := stack{kind: kind}
	n := runtime.Callers(2, key.pcs[:])
	p.mu.Lock()
	s := p.known[key]
	p.mu.Unlock()
	if s != nil {
		return s
	}
	frames := own(key.pcs[:n])
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || len(p.known) >= maxPlaces {
		p.known = map[stack]*Site{}
	}
	s = p.of(kind, frames)
	p.known[key] = s
	return s
}

// of returns the place with a kind and frames of the program. p.mu is held.
func (p *Places) of(kind string, frames []uintptr) *Site {
	if len(p.all) >= maxPlaces {
		frames = nil
	}
	key := stack{kind: kind}
	copy(key.pcs[:], frames)
	s := p.sites[key]
	if s == nil {
		s = &Site{of: p, place: Place{Kind: kind, Stack: frames}}
		if p.sites == nil {
			p.sites = map[stack]*Site{}
		}
		p.sites[key], p.all = s, append(p.all, s)
	}
	return s
}

// own returns the part of a stack that is of the program. If there is none, as on a goroutine that
// Ferry has started, it returns the whole stack.
func own(stack []uintptr) (pcs []uintptr) {
	for f := range callsite.Foreign(stack) {
		pcs = append(pcs, f.PC+1) // a return address, as runtime.Callers has
	}
	if len(pcs) == 0 {
		return slices.Clone(stack)
	}
	return pcs
}

// change counts a buffer that has grown or shrunk. A buffer without bytes is none.
func (s *Site) change(before, after int) {
	if s == nil {
		return
	}
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.place.Bytes += after - before
	if after > before {
		s.place.AllBytes += int64(after - before)
	}
	switch {
	case before == 0 && after > 0:
		s.place.Buffers++
		s.place.AllCount++
	case before > 0 && after == 0:
		s.place.Buffers--
	}
}

// Buffer is memory that is not page-locked, at the place where it was made. The zero Buffer is not
// recorded.
type Buffer struct {
	at    *Site
	bytes atomic.Int64
}

// Made records memory of a kind that the caller has made.
func (b *Buffer) Made(p *Places, kind string, bytes int) {
	if p.on.Load() {
		b.at = p.site(kind)
		b.Resize(bytes)
	}
}

// Resize records that the memory has another size.
func (b *Buffer) Resize(bytes int) {
	if b.at != nil {
		b.at.change(int(b.bytes.Swap(int64(bytes))), bytes)
	}
}

// Grow records that the memory has at least a size.
func (b *Buffer) Grow(bytes int) {
	for b.at != nil {
		before := b.bytes.Load()
		if int64(bytes) <= before {
			return
		}
		if b.bytes.CompareAndSwap(before, int64(bytes)) {
			b.at.change(int(before), bytes)
			return
		}
	}
}

// List returns the places, those with the most bytes in use first.
func (p *Places) List() []Place {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]Place, 0, len(p.all))
	for _, s := range p.all {
		all = append(all, s.place)
	}
	slices.SortStableFunc(all, func(a, b Place) int { return b.Bytes - a.Bytes })
	return all
}
