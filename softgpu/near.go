package softgpu

import "fmt"

// near says in words what is at or next to addr.
func (s *space) near(addr uint64) string {
	if x, ok := s.find(addr); ok {
		return fmt.Sprintf("%d bytes into %s", addr-x.base, x.words())
	}
	if f, ok := s.wasFreed(addr); ok {
		return fmt.Sprintf("%d bytes into %s", addr-f.base, f.words())
	}
	best, text := uint64(1<<30), ""
	look := func(base, end uint64, words string) {
		switch {
		case addr >= end && addr-end < best:
			best = addr - end
			text = fmt.Sprintf("%s past the end of %s", size(addr-end), words)
			if addr == end {
				text = "just past the end of " + words
			}
		case addr < base && base-addr < best:
			best = base - addr
			text = fmt.Sprintf("%s before %s", size(base-addr), words)
		}
	}
	for _, x := range s.load() {
		look(x.base, x.end, x.words())
	}
	for _, f := range s.freed {
		look(f.base, f.end, f.words())
	}
	if text == "" {
		return "no allocation is near"
	}
	return text
}

func (x span) words() string {
	w := words(x.region.kind, x.base, x.end)
	if x.region.name != "" {
		w += " (" + x.region.name + ")"
	}
	return w
}

// words says who freed it, too.
func (f freedSpan) words() string { return words(f.kind, f.base, f.end) + ", freed" + f.site.words() }

func words(k kind, base, end uint64) string {
	return fmt.Sprintf("a %d-byte %v at %#x", end-base, k, base)
}

func (s *space) wasFreed(addr uint64) (freedSpan, bool) {
	for i := len(s.freed) - 1; i >= 0; i-- { // the youngest are not last in a full ring, but any will do
		if f := s.freed[i]; addr >= f.base && addr < f.end {
			return f, true
		}
	}
	return freedSpan{}, false
}
