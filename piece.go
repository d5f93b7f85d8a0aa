package ferry

import (
	"fmt"
	"runtime"
	"slices"
	"weak"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/pin"
)

// piece is a run of host addresses that the driver knows: all of an allocation, or
// one registration. Registered buffers may share pieces and have several: what
// was page-locked already when a buffer was made is not locked again, and stays
// until the last buffer in it is closed. Hardware refuses registrations that
// overlap, and copies that cross from one to the next.
//
// registry.mu guards users and change.
type piece struct {
	start, end uint64
	kind       kind
	users      []user        // of registered memory maybe several; those lost without Close stay
	change     chan struct{} // closed when the driver is done registering or unregistering; nil else

	// Of registered memory:
	g     *GPU // registered by, entered
	host  cu.HostPtr
	flags cu.MemHostRegisterFlags
	pin   runtime.Pinner // keeps Go memory, even if the program loses the buffer: to the driver it stays registered
}

// user is the part of memory that an allocation, maybe lost, has. It may begin
// before a piece and end after it.
type user struct {
	start, end uint64
	a          weak.Pointer[allocation]
}

// span is the host addresses of an allocation.
func (a *allocation) span() (start, end uint64) {
	start = uint64(deviceAddress(a.host))
	return start, start + uint64(a.bytes)
}

func (a *allocation) user() user {
	start, end := a.span()
	return user{start, end, weak.Make(a)}
}

// after is the index of the first piece that ends after an address. t.mu is held.
func (t *registry) after(p uint64) int {
	i, _ := slices.BinarySearchFunc(t.pieces, p, func(x *piece, p uint64) int {
		if x.end > p {
			return 1
		}
		return -1
	})
	return i
}

// within is the pieces that share bytes with a range. t.mu is held.
func (t *registry) within(start, end uint64) []*piece {
	i := t.after(start)
	j := i
	for j < len(t.pieces) && t.pieces[j].start < end {
		j++
	}
	return t.pieces[i:j]
}

// add puts a piece in its place. t.mu is held.
func (t *registry) add(p *piece) { t.pieces = slices.Insert(t.pieces, t.after(p.start), p) }

// remove takes a piece out. t.mu is held.
func (t *registry) remove(p *piece) {
	if i := t.after(p.start); i < len(t.pieces) && t.pieces[i] == p {
		t.pieces = slices.Delete(t.pieces, i, i+1)
	}
}

// enlist adds an allocation that the driver made at a host address.
func (a *allocation) enlist() {
	if a.host == nil || a.bytes == 0 || a.kind == registeredMemory {
		return
	}
	start, end := a.span()
	t := a.g.shared
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(&piece{start: start, end: end, kind: a.kind, users: []user{a.user()}})
}

// delist takes it out, before its addresses can be somebody else's.
func (a *allocation) delist() {
	if a.host == nil || a.bytes == 0 || a.kind == registeredMemory {
		return
	}
	start, end := a.span()
	t := a.g.shared
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.within(start, end) {
		if p.kind == a.kind && p.start == start {
			t.remove(p)
			return
		}
	}
}

// lock page-locks what is not page-locked yet of the memory of a registered
// allocation, and makes the allocation a user of all of it.
func (a *allocation) lock(flags cu.MemHostRegisterFlags) error {
	t := a.g.shared
	fresh, err := t.claim(a, flags)
	if err != nil {
		return err
	}
	for i, p := range fresh {
		if err = a.g.driver.MemHostRegister(a.g.ctx, p.host, uintptr(p.end-p.start), flags); err != nil {
			for _, q := range fresh[i:] {
				t.settle(q, true)
			}
			a.pieces = slices.DeleteFunc(a.pieces, func(q *piece) bool { return slices.Contains(fresh[i:], q) })
			if undo := a.unlock(); undo != nil {
				err = fmt.Errorf("%w; and undoing it: %w", err, undo)
			}
			return err
		}
		t.settle(p, false)
	}
	start, _ := a.span()
	for _, p := range a.pieces[1:] {
		a.cuts = append(a.cuts, uintptr(p.start-start))
	}
	return nil
}

// unlock ends the use of an allocation's pieces. The driver unregisters those
// without another user. After an error within a host function it goes on where it
// stopped.
func (a *allocation) unlock() error {
	t := a.g.shared
	var failed error
	for len(a.pieces) > 0 {
		p := a.pieces[0]
		if t.last(p, a) {
			err := p.g.driver.MemHostUnregister(p.g.ctx, p.host)
			t.settle(p, !inCallback(err))
			if inCallback(err) {
				return err
			}
			if failed == nil {
				failed = err
			}
		}
		a.pieces = a.pieces[1:]
	}
	return failed
}

// claim makes an allocation a user of the pieces in its range, of new ones where
// there are none. The new ones are the caller's to register and settle.
func (t *registry) claim(a *allocation, flags cu.MemHostRegisterFlags) (fresh []*piece, err error) {
	start, end := a.span()
	t.mu.Lock()
	defer t.mu.Unlock()
	for busy := t.changing(start, end); busy != nil; busy = t.changing(start, end) {
		t.mu.Unlock()
		// Within a host function the change may be waiting for this very function.
		_, err := a.g.driver.DriverGetVersion()
		if !inCallback(err) {
			<-busy
			err = nil
		}
		t.mu.Lock()
		if err != nil {
			return nil, err
		}
	}
	for _, p := range t.within(start, end) {
		if err := p.admits(a, flags); err != nil {
			return nil, err
		}
	}
	at := start
	for _, p := range slices.Clone(t.within(start, end)) {
		fresh = t.fill(a, flags, at, p.start, fresh)
		p.join(a)
		at = p.end
	}
	fresh = t.fill(a, flags, at, end, fresh)
	a.pieces = slices.Clone(t.within(start, end))
	return fresh, nil
}

// changing is the change in progress in a range. t.mu is held.
func (t *registry) changing(start, end uint64) chan struct{} {
	for _, p := range t.within(start, end) {
		if p.change != nil {
			return p.change
		}
	}
	return nil
}

// fill makes pieces from at to before, none larger than the engine's where kernels
// need not see them as one. t.mu is held.
func (t *registry) fill(a *allocation, flags cu.MemHostRegisterFlags, at, before uint64, fresh []*piece) []*piece {
	for at < before {
		end := before
		if a.g.hostPointers() {
			end = min(end, (at/pin.MaxPiece+1)*pin.MaxPiece)
		}
		fresh = append(fresh, t.newPiece(a, flags, at, end))
		at = end
	}
	return fresh
}

// newPiece makes a piece for the caller to register. t.mu is held.
func (t *registry) newPiece(a *allocation, flags cu.MemHostRegisterFlags, at, end uint64) *piece {
	start, _ := a.span()
	p := &piece{start: at, end: end, kind: registeredMemory, users: []user{a.user()}, change: make(chan struct{}),
		g: a.g, host: addressAt(a.host, uintptr(at-start)), flags: flags}
	p.pin.Pin(p.host)
	a.g.life.again()
	t.add(p)
	return p
}

// join adds a user. Both it and those that are in it learn that others may have
// the same bytes in flight. t.mu is held.
func (p *piece) join(a *allocation) {
	for _, u := range p.users {
		if b := u.a.Value(); b != nil {
			b.overlapped.Store(true)
		}
	}
	a.overlapped.Store(true)
	p.users = append(p.users, a.user())
}

// admits says why an allocation cannot use a piece. t.mu is held.
func (p *piece) admits(a *allocation, flags cu.MemHostRegisterFlags) error {
	already := func(format string, args ...any) error {
		return &refusal{cu.ErrorHostMemoryAlreadyRegistered, "it shares bytes with " + p.words() + fmt.Sprintf(format, args...)}
	}
	missing := flags &^ p.flags
	switch {
	case p.kind != registeredMemory:
		return refuse("it shares bytes with %s, which needs no registration: use its Range", p.words())
	case p.flags&cu.MemHostRegisterReadOnly != 0 && flags&cu.MemHostRegisterReadOnly == 0:
		return already(", registered with ReadOnly: close that first, or register with ReadOnly, too")
	case a.g.caps.unified: // all is mapped, for every device
		return nil
	case missing&cu.MemHostRegisterDeviceMap != 0:
		return already(", registered without Mapped: close that first (%v is 0)", cu.DeviceAttributeUnifiedAddressing)
	case p.flags&cu.MemHostRegisterPortable == 0 && p.g.ctx != a.g.ctx:
		return already(", registered with NotPortable for %s: close that first (%v is 0)", p.g.label, cu.DeviceAttributeUnifiedAddressing)
	}
	return nil
}

// words describe a piece by its first user. registry.mu is held.
func (p *piece) words() string {
	for _, u := range p.users {
		if a := u.a.Value(); a != nil {
			return a.String()
		}
	}
	return fmt.Sprintf("a %v buffer (%s) that was lost without Close", p.kind, sizeText(uintptr(p.end-p.start)))
}

// last says whether an allocation is the last user of a piece, whose
// unregistering begins. Of other pieces it is no user any more.
func (t *registry) last(p *piece, a *allocation) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(p.users) == 1 {
		p.change = make(chan struct{})
		return true
	}
	me := weak.Make(a)
	p.users = slices.DeleteFunc(p.users, func(u user) bool { return u.a == me })
	return false
}

// settle ends a change. gone says that the piece is not registered now.
func (t *registry) settle(p *piece, gone bool) {
	t.mu.Lock()
	close(p.change)
	p.change = nil
	if gone {
		t.remove(p)
	}
	t.mu.Unlock()
	if gone {
		p.pin.Unpin()
		p.g.leave()
	}
}

// sharing is the allocations other than r's that have bytes of r.
func (t *registry) sharing(r *region) []*allocation {
	start := uint64(deviceAddress(r.host))
	end := start + uint64(r.bytes)
	t.mu.RLock()
	defer t.mu.RUnlock()
	var all []*allocation
	for _, p := range t.within(start, end) {
		for _, u := range p.users {
			if u.start < end && start < u.end {
				if b := u.a.Value(); b != nil && b != r.a && !slices.Contains(all, b) {
					all = append(all, b)
				}
			}
		}
	}
	return all
}
