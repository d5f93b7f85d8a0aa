package hostmap

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/account"
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

	part *part // set by Claim and Add
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
	Foreign    bool                    // another library made or page-locked it: see Claim
	Flags      cu.MemHostRegisterFlags // of registered memory
	By         any                     // the GPU that registered the memory
	Locked     *account.Claim          // of registered memory, which counts it

	// Map.mu guards the fields below.
	in        *Map
	users     int            // owners that have claimed the entry and not released it
	changedBy *part          // the only user, while there is a change
	change    chan struct{}  // closed when a change in progress is finished; nil if there is none
	releasing bool           // the change unregisters the entry
	pinner    runtime.Pinner // keeps Go memory while the driver has it, even if the program has lost the buffer
}

// Map has the entries of one driver. The zero Map is empty. It is safe for concurrent use.
type Map struct {
	mu      sync.RWMutex
	entries []*Entry // by rising address
	parts   parts    // of all owners
	changes int      // entries with a change in progress
	steps   int      // entries and parts that Claim and Release have looked at, for tests

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
	o.part = m.parts.add(o, 1)
	m.insert(&Entry{Start: o.Start, End: o.End, Host: o.Host, Kind: o.Kind, in: m, users: 1})
}

// Remove removes what Add added. It must be called before the driver can give the
// addresses to other memory.
func (m *Map) Remove(o *Owner) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.within(o.Start, o.End) {
		if !e.Registered && e.Start == o.Start {
			m.delete(e)
			m.parts.release(o.part)
			return
		}
	}
}

// Claim is a request to register the memory of an owner, or to know memory of another library.
type Claim struct {
	Owner *Owner
	// Foreign says that another library made or page-locked the memory. Then nothing is to be
	// registered: the caller only finishes what Claim and Release return. Owner.Host is nil for
	// device memory.
	Foreign bool
	Flags   cu.MemHostRegisterFlags
	By      any
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
	known := m.within(start, end)
	m.steps += len(known)
	for _, e := range known {
		if err := c.Admit(e); err != nil {
			return nil, nil, err
		}
	}
	m.share(c.Owner, known)
	at := start
	for _, e := range known {
		e.users++
		fresh = m.fill(&c, at, e.Start, fresh)
		at = e.End
	}
	fresh = m.fill(&c, at, end, fresh)
	c.Owner.part = m.parts.add(c.Owner, len(known)+len(fresh))
	for _, e := range fresh {
		e.changedBy = c.Owner.part
		m.insert(e)
	}
	return slices.Clone(m.within(start, end)), fresh, nil
}

// share sets Shared of an owner that claims entries with owners, and of those owners. Entries
// with two owners or more have set it before. mu is held.
func (m *Map) share(o *Owner, known []*Entry) {
	if len(known) > 0 {
		o.Shared.Store(true)
	}
	for _, e := range known {
		if e.users == 1 {
			m.steps += m.parts.visit(e.Start, e.End, func(p *part) {
				if other := p.owner.Value(); other != nil {
					other.Shared.Store(true)
				}
			})
		}
	}
}

// changing returns the change in progress in a range, or nil. mu is held.
func (m *Map) changing(start, end uint64) chan struct{} {
	if m.changes == 0 {
		return nil
	}
	for _, e := range m.within(start, end) {
		if e.change != nil {
			return e.change
		}
	}
	return nil
}

// fill appends entries for the addresses from at to end. mu is held.
func (m *Map) fill(c *Claim, at, end uint64, fresh []*Entry) []*Entry {
	for at < end {
		next := end
		if c.Unit > 0 {
			next = min(next, (at/c.Unit+1)*c.Unit)
		}
		e := &Entry{Start: at, End: next, Kind: c.Owner.Kind, Registered: !c.Foreign, Foreign: c.Foreign,
			Flags: c.Flags, By: c.By, in: m, users: 1, change: make(chan struct{})}
		if c.Owner.Host != nil {
			e.Host = addressAt(c.Owner.Host, uintptr(at-c.Owner.Start))
			e.pinner.Pin(e.Host)
		}
		m.changes++
		fresh = append(fresh, e)
		at = next
	}
	return fresh
}

// Finish ends a change of an entry. If gone is false, the driver has registered the entry,
// or kept it. If gone is true, the driver has unregistered it, or could not register it.
func (m *Map) Finish(e *Entry, gone bool) {
	m.mu.Lock()
	by := m.endChange(e)
	if gone {
		m.delete(e)
		m.parts.release(by)
	}
	m.mu.Unlock()
	if gone {
		e.pinner.Unpin()
	}
}

// endChange ends a change of an entry, and returns the part of its only user. mu is held.
func (m *Map) endChange(e *Entry) (by *part) {
	if e.releasing {
		m.releases.Add(-1)
	}
	m.changes--
	close(e.change)
	by, e.changedBy, e.change, e.releasing = e.changedBy, nil, nil, false
	return by
}

// Release ends an owner's use of an entry. If last is true, it is the only owner and
// remains so: the caller must unregister the entry and finish it. Release then waits for
// the holds of the entry's addresses, unless mayWait returns an error.
func (m *Map) Release(e *Entry, o *Owner, mayWait func() error) (last bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.steps++
	if e.users == 1 {
		e.change, e.releasing, e.changedBy = make(chan struct{}), true, o.part
		m.changes++
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
	e.users--
	m.parts.release(o.part)
	return false, nil
}

// Sharing returns the other owners of bytes in a range.
func (m *Map) Sharing(o *Owner, start, end uint64) []*Owner {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var all []*Owner
	m.parts.visit(start, end, func(p *part) {
		if other := p.owner.Value(); other != nil && other != o {
			all = append(all, other)
		}
	})
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
	owner, until, lost := m.ownerAt(e, start)
	return Run{min(end, until), true, owner, lost}
}

// ownerAt returns the open owner of a byte of an entry whose memory extends furthest, and the
// end of that memory. Without an open owner, until is the next address that may have one. lost
// reports whether an owner of the byte was lost without Close. The Map is locked.
func (m *Map) ownerAt(e *Entry, at uint64) (best *Owner, until uint64, lost bool) {
	until = e.End
	m.parts.visit(at, e.End, func(p *part) {
		o := p.owner.Value()
		switch {
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
	})
	return best, until, lost
}

// String returns a description of the entry's first owner. The Map is locked: see
// Claim.Admit.
func (e *Entry) String() string {
	var first *Owner
	number := uint64(0)
	e.in.parts.visit(e.Start, e.End, func(p *part) {
		if o := p.owner.Value(); o != nil && (first == nil || p.number < number) {
			first, number = o, p.number
		}
	})
	if first != nil {
		return first.Of.String()
	}
	return fmt.Sprintf("a %s buffer (%s) that was lost without Close", e.Kind, refusal.Size(uintptr(e.End-e.Start)))
}
