package checkpoint

import (
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// defaultAlign is where a tensor begins in the buffer: what cudaMalloc aligns memory to.
const defaultAlign = 256

// slot is a tensor and its place.
type slot struct {
	t     *Info
	dtype DType              // in memory
	off   int64              // in the buffer
	bytes int64              // in memory
	given ferry.Memory[byte] // the place, if that is not in the buffer
}

// layout has the places of the tensors of a load.
type layout struct {
	slots []slot
	bytes int64    // of the buffer
	read  int64    // bytes of tensors in the files
	sums  [][]byte // by slot: see Placed.Sum; nil without hashes

	indexed sync.Once
	byName  map[string]int // see index
}

// index returns the slot of each name. The first call makes it.
func (l *layout) index() map[string]int {
	l.indexed.Do(func() {
		l.byName = make(map[string]int, len(l.slots))
		for i := range l.slots {
			l.byName[l.slots[i].t.Name] = i
		}
	})
	return l.byName
}

// place puts the selected tensors one after another, in the order of the files: neighbours in a
// file are neighbours in memory, so that one copy moves both.
func (c *Checkpoint) place(o *Options) (*layout, error) {
	tensors, err := c.selected(o)
	if err != nil {
		return nil, err
	}
	align := int64(o.Align)
	if align == 0 {
		align = defaultAlign
	}
	if align < 0 || align&(align-1) != 0 {
		return nil, refusal.Invalid("the alignment is %d: it must be a power of two", align)
	}
	l := &layout{slots: make([]slot, len(tensors))}
	for i := range tensors {
		s := &l.slots[i]
		s.t = &tensors[i]
		if err := l.next(s, align, o); err != nil {
			return nil, err
		}
	}
	return l, c.allGiven(tensors, o)
}

// next gives the next tensor its place.
func (l *layout) next(s *slot, align int64, o *Options) (err error) {
	t := s.t
	l.read += t.Bytes
	if s.dtype, err = t.converted(o.To); err != nil {
		return err
	}
	var ok bool
	if s.bytes, ok = s.dtype.size(t.Elements()); !ok {
		return refusal.Invalid("tensor %s as %v has more bytes than can be counted", printable.Value(t.Name), s.dtype)
	}
	if s.given, ok = o.Into[t.Name]; ok {
		return s.checkGiven()
	}
	if l.bytes > math.MaxInt64-s.bytes-align {
		return refusal.Invalid("the tensors up to %s have more bytes than can be counted", printable.Value(t.Name))
	}
	s.off = (l.bytes + align - 1) &^ (align - 1)
	l.bytes = s.off + s.bytes
	return nil
}

// checkGiven returns an error for a given destination of another size.
func (s *slot) checkGiven() error {
	switch m := s.given; {
	case m == nil:
		return refusal.Invalid("Into has no memory (nil) for tensor %s", printable.Value(s.t.Name))
	case int64(m.Size()) != s.bytes:
		return refusal.Invalid("Into has %v of %d bytes for tensor %s, which has %d as %v: use a range of that size",
			m, m.Size(), printable.Value(s.t.Name), s.bytes, s.dtype)
	}
	return nil
}

// allGiven returns an error for a destination of a tensor that is not loaded.
func (c *Checkpoint) allGiven(tensors []Info, o *Options) error {
	if len(o.Into) == 0 {
		return nil
	}
	selected := make(map[string]bool, len(tensors))
	for i := range tensors {
		selected[tensors[i].Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(o.Into)) {
		if _, ok := c.index()[name]; !ok {
			return c.noTensor(name)
		}
		if !selected[name] {
			return refusal.Invalid("Into has memory for tensor %s, which is not selected", printable.Value(name))
		}
	}
	return nil
}
