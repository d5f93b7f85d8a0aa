package hostmap

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Owner is the host memory of one buffer.
type Owner struct {
	Host  cu.HostPtr
	Start uint64 // the address Host as a number
	End   uint64
	Of    Buffer
	Kind  string // for messages: "page-locked"
	// Shared is set when other owners may have some of the same bytes.
	Shared atomic.Bool
	// Starting is set while the buffer is being made. First does not find it then.
	Starting atomic.Bool
}

// Buffer is the buffer of an Owner.
type Buffer interface {
	fmt.Stringer
	Closed() bool
}

// Entry is a range of addresses that the driver knows.
type Entry struct {
	Start, End uint64
	Host       cu.HostPtr
	Kind       string
	Registered bool
	Flags      cu.MemHostRegisterFlags // of registered memory
	By         any                     // the GPU that registered the memory

	// Map.mu guards the fields below.
	owners    []part
	change    chan struct{}  // closed when a change in progress is finished; nil if there is none
	releasing bool           // the change unregisters the entry
	pinner    runtime.Pinner // keeps Go memory while the driver has it, even if the program has lost the buffer
}

// part is the range of addresses of an owner, which may begin before an entry and end after
// it. If the owner was lost without Close, its pointer is nil.
type part struct {
	start, end uint64
	owner      weak.Pointer[Owner]
}

func partOf(o *Owner) part { return part{o.Start, o.End, weak.Make(o)} }

// Map has the entries of one driver. The zero Map is empty. It is safe for concurrent use.
type Map struct {
	mu      sync.RWMutex
	entries []*Entry // by rising address

	holds    holds
	lastHold atomic.Uint64
	releases atomic.Int32 // entries that are being unregistered
}

// after returns the index of the first entry that ends after an address. mu is held.
func (m *Map) after(p uint64) int {
	i, _ := slices.BinarySearchFunc(m.entries, p, func(e *Entry, p uint64) int {
		if e.End > p {
			return 1
		}
		return -1
	})
	return i
}

// within returns the entries that share bytes with a range. mu is held.
func (m *Map) within(start, end uint64) []*Entry {
	i := m.after(start)
	j := i
	for j < len(m.entries) && m.entries[j].Start < end {
		j++
	}
	return m.entries[i:j]
}

func (m *Map) insert(e *Entry) { m.entries = slices.Insert(m.entries, m.after(e.Start), e) }

func (m *Map) delete(e *Entry) {
	if i := m.after(e.Start); i < len(m.entries) && m.entries[i] == e {
		m.entries = slices.Delete(m.entries, i, i+1)
	}
}

// Add adds memory that the driver has made.
func (m *Map) Add(o *Owner) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.insert(&Entry{Start: o.Start, End: o.End, Host: o.Host, Kind: o.Kind, owners: []part{partOf(o)}})
}

// Remove removes what Add added. It must be called before the driver can give the
// addresses to other memory.
func (m *Map) Remove(o *Owner) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.within(o.Start, o.End) {
		if !e.Registered && e.Start == o.Start {
			m.delete(e)
			return
		}
	}
}

// Claim is a request to register the memory of an owner.
type Claim struct {
	Owner *Owner
	Flags cu.MemHostRegisterFlags
	By    any
	// Unit, if not 0, limits new entries: none extends across a multiple of it.
	Unit uint64
	// Admit returns an error if the owner cannot use an existing entry. The Map is locked
	// during the call: Admit must not call it, but may call Entry.String.
	Admit func(*Entry) error
	// MayWait returns an error if the caller must not wait for other claims.
	MayWait func() error
}

// Claim makes an owner one of the owners of all entries in its range. It adds fresh entries
// for addresses that have none. It returns all entries, and the fresh entries, which the
// caller must register and finish.
func (m *Map) Claim(c Claim) (all, fresh []*Entry, err error) {
	start, end := c.Owner.Start, c.Owner.End
	m.mu.Lock()
	defer m.mu.Unlock()
	for busy := m.changing(start, end); busy != nil; busy = m.changing(start, end) {
		if err := m.waitUnlocked(busy, c.MayWait); err != nil {
			return nil, nil, err
		}
	}
	for _, e := range m.within(start, end) {
		if err := c.Admit(e); err != nil {
			return nil, nil, err
		}
	}
	at := start
	for _, e := range slices.Clone(m.within(start, end)) {
		fresh = m.fill(&c, at, e.Start, fresh)
		e.join(c.Owner)
		at = e.End
	}
	fresh = m.fill(&c, at, end, fresh)
	return slices.Clone(m.within(start, end)), fresh, nil
}

// changing returns the change in progress in a range, or nil. mu is held.
func (m *Map) changing(start, end uint64) chan struct{} {
	for _, e := range m.within(start, end) {
		if e.change != nil {
			return e.change
		}
	}
	return nil
}

// fill adds entries for the addresses from at to end. mu is held.
func (m *Map) fill(c *Claim, at, end uint64, fresh []*Entry) []*Entry {
	for at < end {
		next := end
		if c.Unit > 0 {
			next = min(next, (at/c.Unit+1)*c.Unit)
		}
		e := &Entry{Start: at, End: next, Host: addressAt(c.Owner.Host, uintptr(at-c.Owner.Start)), Kind: c.Owner.Kind,
			Registered: true, Flags: c.Flags, By: c.By, owners: []part{partOf(c.Owner)}, change: make(chan struct{})}
		e.pinner.Pin(e.Host)
		m.insert(e)
		fresh = append(fresh, e)
		at = next
	}
	return fresh
}

// join adds an owner, and sets Shared of all owners of the entry. The Map is locked.
func (e *Entry) join(o *Owner) {
	for _, p := range e.owners {
		if other := p.owner.Value(); other != nil {
			other.Shared.Store(true)
		}
	}
	o.Shared.Store(true)
	e.owners = append(e.owners, partOf(o))
}

// Finish ends a change of an entry. If gone is false, the driver has registered the entry,
// or kept it. If gone is true, the driver has unregistered it, or could not register it.
func (m *Map) Finish(e *Entry, gone bool) {
	m.mu.Lock()
	m.endChange(e)
	if gone {
		m.delete(e)
	}
	m.mu.Unlock()
	if gone {
		e.pinner.Unpin()
	}
}

// endChange ends a change of an entry. mu is held.
func (m *Map) endChange(e *Entry) {
	if e.releasing {
		m.releases.Add(-1)
	}
	close(e.change)
	e.change, e.releasing = nil, false
}

// Release ends an owner's use of an entry. If last is true, it is the only owner and
// remains so: the caller must unregister the entry and finish it. Release then waits for
// the holds of the entry's addresses, unless mayWait returns an error.
func (m *Map) Release(e *Entry, o *Owner, mayWait func() error) (last bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(e.owners) == 1 {
		e.change, e.releasing = make(chan struct{}), true
		m.releases.Add(1) // before it looks for holds: see begin
		for hold := m.holds.of(e); hold != nil && err == nil; hold = m.holds.of(e) {
			err = m.waitUnlocked(hold, mayWait)
		}
		if err != nil {
			m.endChange(e)
			return false, err
		}
		return true, nil
	}
	me := weak.Make(o)
	e.owners = slices.DeleteFunc(e.owners, func(p part) bool { return p.owner == me })
	return false, nil
}

// Sharing returns the other owners of bytes in a range.
func (m *Map) Sharing(o *Owner, start, end uint64) []*Owner {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var all []*Owner
	for _, e := range m.within(start, end) {
		for _, p := range e.owners {
			if p.start < end && start < p.end {
				if other := p.owner.Value(); other != nil && other != o && !slices.Contains(all, other) {
					all = append(all, other)
				}
			}
		}
	}
	return all
}

// Run is the first part of a range that is memory of one kind.
type Run struct {
	End   uint64
	Known bool   // the driver knows the memory; otherwise it is ordinary memory
	Owner *Owner // an open buffer that has the memory; nil if there is none
	Lost  bool   // the buffer was lost without Close
}

// First returns the longest run of memory of one kind at the beginning of a range.
func (m *Map) First(start, end uint64) Run {
	m.mu.RLock()
	defer m.mu.RUnlock()
	found := m.within(start, end)
	if len(found) == 0 {
		return Run{End: end}
	}
	e := found[0]
	if e.Start > start {
		return Run{End: e.Start}
	}
	owner, until, lost := e.ownerAt(start)
	return Run{min(end, until), true, owner, lost}
}

// ownerAt returns the open owner of a byte whose memory extends furthest, and the end of
// that memory. Without an open owner, until is the next address that may have one. lost
// reports whether an owner of the byte was lost without Close. The Map is locked.
func (e *Entry) ownerAt(at uint64) (best *Owner, until uint64, lost bool) {
	until = e.End
	for _, p := range e.owners {
		o := p.owner.Value()
		switch {
		case p.end <= at:
		case p.start > at:
			if best == nil {
				until = min(until, p.start)
			}
		case o == nil:
			lost = true
		case o.Starting.Load() || o.Of.Closed():
		case best == nil || p.end > until:
			best, until = o, p.end
		}
	}
	return best, until, lost
}

// String returns a description of the entry's first owner. The Map is locked: see
// Claim.Admit.
func (e *Entry) String() string {
	for _, p := range e.owners {
		if o := p.owner.Value(); o != nil {
			return o.Of.String()
		}
	}
	return fmt.Sprintf("a %s buffer (%s) that was lost without Close", e.Kind, refusal.Size(uintptr(e.End-e.Start)))
}
