package kernelrace

// Phase is what an access to an mbarrier object does. Such an object counts arrivals, and a
// wait for a phase comes after the arrivals of that phase: not after those of the next one.
type Phase uint8

const (
	NoPhase     Phase = iota // it is no operation of an mbarrier object, or it makes one
	Arrival                  // it arrives, or changes what the phase waits for
	LastArrival              // the same, and the phase is over
	CopyArrival              // the copies of a thread arrive, not what else it has done
	LastCopy                 // the same, and the phase is over
	PhaseOver                // a wait that finds that the phase is over
	PhaseOpen                // a wait that finds that it is not
)

// object is what the detector knows of an mbarrier object. The arrivals of the current phase
// release into the word of the object.
type object struct {
	released *clock   // by the arrivals of the phases that are over
	current  *phase   // nil if it tracks no copies
	over     []*phase // the last phases that tracked copies
}

// phase is a phase of an object that tracks copies.
type phase struct {
	over    bool
	waiters group // the threads that have waited for it
}

// keptPhases is how many phases of an object are known to a wait. A thread can wait for the last one.
const keptPhases = 4

// object returns the object at an address of shared memory.
func (b *Block) object(addr uint64) *object {
	o := b.objects[addr]
	if o == nil {
		if b.objects == nil {
			b.objects = map[uint64]*object{}
		}
		o = &object{}
		b.objects[addr] = o
	}
	return o
}

// forgetObject drops what is known of an object that a weak access writes.
func (b *Block) forgetObject(a *Access) {
	if a.Shared {
		delete(b.objects, a.Addr)
	}
}

// atObject does what an operation of an mbarrier object orders.
func (b *Block) atObject(t int, a *Access) {
	scope := a.Kind.scope()
	switch a.Phase {
	case Arrival, LastArrival:
		b.observe(b.words, a.Addr, t, scope)
		b.around(t, a, b.words, scope)
	case PhaseOver:
		b.waited(t, b.object(a.Addr))
		if a.Acquire {
			b.fenceReads(t, scope)
		}
	}
	if a.Phase == LastArrival || a.Phase == LastCopy {
		b.endPhase(a.Addr)
	}
}

// endPhase lets waits see what the arrivals of the current phase have released.
func (b *Block) endPhase(addr uint64) {
	o := b.object(addr)
	if w := b.words[addr]; w != nil && w.block == b.number {
		o.released = joined(b.number, o.released, w.narrow)
	}
	delete(b.words, addr)
	if o.current == nil {
		return
	}
	o.current.over = true
	if o.over = append(o.over, o.current); len(o.over) > keptPhases {
		o.over = o.over[1:]
	}
	o.current = nil
}

// waited lets the next fence of a thread, or its acquire, order what a phase has released. The
// copies that the phase has tracked are there for the thread.
func (b *Block) waited(t int, o *object) {
	th := &b.threads[t]
	th.pending[narrow] = joined(b.number, th.pending[narrow], o.released)
	for _, p := range o.over {
		p.waiters.add(b.number, t, th.now)
	}
}
