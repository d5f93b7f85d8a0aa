package staging

import (
	"sync"

	"github.com/ferrygpu/ferry/internal/refusal"
)

// Lazy is a ring that the first transfer makes. The zero Lazy has none yet. It is safe for
// concurrent use.
type Lazy struct {
	once sync.Once
	ring *Ring
}

// Ring returns the ring. The first call makes it by calling open.
func (l *Lazy) Ring(open func() *Ring) *Ring {
	l.once.Do(func() { l.ring = open() })
	return l.ring
}

// Close frees the memory of the ring. After Close, no ring can be made. In a lost context,
// which has freed all its memory, Close returns nil.
func (l *Lazy) Close() error {
	l.once.Do(func() {})
	if l.ring == nil {
		return nil
	}
	if err := l.ring.Close(); !refusal.Sticky(err) {
		return err
	}
	return nil
}
