package uvm

import "slices"

// use makes b the last that dev would give up.
func (s *Space) use(b *block, dev Processor) {
	list := s.used[dev]
	if n := len(list); n > 0 && list[n-1] == b {
		return
	}
	if i := slices.Index(list, b); i >= 0 {
		list = slices.Delete(list, i, i+1)
	}
	s.used[dev] = append(list, b)
}

// settle takes b off the lists of devices that hold none of it.
func (s *Space) settle(b *block) {
	for d := range s.devices {
		s.settleOn(b, Processor(d))
	}
}

func (s *Space) settleOn(b *block, dev Processor) {
	if !b.resident[dev.slot()].empty() {
		return
	}
	if i := slices.Index(s.used[dev], b); i >= 0 {
		s.used[dev] = slices.Delete(s.used[dev], i, i+1)
	}
}

// makeRoom evicts blocks from dev until it has room for b: those that got pages
// longest ago go to the CPU first, unmapped everywhere. A device without room for
// one block has it all the same: nobody would get on otherwise.
func (s *Space) makeRoom(b *block, dev Processor, w *Work) {
	if s.Room == nil || !b.resident[dev.slot()].empty() {
		return
	}
	room := int(s.Room(dev) >> BlockShift)
	for len(s.used[dev]) > 0 && len(s.used[dev])+1 > room {
		old := s.used[dev][0]
		pages := old.resident[dev.slot()]
		s.bring(old, &pages, CPU, false, w)
		for slot := range old.mapped {
			old.mapped[slot].andNot(&pages)
			old.writable[slot].andNot(&pages)
		}
		w.Evicted++
	}
}
