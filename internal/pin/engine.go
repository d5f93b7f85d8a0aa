package pin

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// Driver is the part of [cu.Driver] that page-locks.
type Driver interface {
	MemHostRegister(ctx cu.Context, p cu.HostPtr, bytes uintptr, flags cu.MemHostRegisterFlags) error
	MemHostUnregister(ctx cu.Context, p cu.HostPtr) error
}

// MaxPiece is the most bytes that are registered at once. Larger pieces are not
// faster, and keep others on the machine waiting for longer: docs/PERFORMANCE.md.
const MaxPiece = 256 << 20

// Engine page-locks memory for one context. It is safe for concurrent use.
type Engine struct {
	driver  Driver
	ctx     cu.Context
	sys     system
	machine func() *Machine
	now     func() time.Duration
	real    bool // memory is touched: the device is not played by software

	trials sync.Mutex // one at a time
	mu     sync.Mutex
	pages  pages
	cost   cost
}

// pages is what is known of the page sizes of the machine.
type pages uint8

const (
	untried pages = iota
	hugePages
	smallPages
)

// NewEngine makes an engine. It is nil where memory cannot be taken from the
// system. For a device that software plays, now is its clock and emulated is true:
// its memory is not touched, and the machine that it runs on sets no limits.
func NewEngine(d Driver, ctx cu.Context, now func() time.Duration, emulated bool) *Engine {
	sys := host()
	if emulated && (sys == nil || underRace) {
		sys = heap{}
	}
	if sys == nil {
		return nil
	}
	e := &Engine{driver: d, ctx: ctx, sys: sys, machine: sys.machine, now: now, real: !emulated}
	if emulated {
		e.machine = Blank
	}
	return e
}

// Request is what to page-lock.
type Request struct {
	Bytes    uintptr
	Flags    cu.MemHostRegisterFlags
	Node     int                       // NUMA node, or AnyNode
	Strict   bool                      // a node that is not there is an error
	Progress func(done, total uintptr) // nil, or called after every piece, by the caller's goroutine
}

// Memory is what a request gave: one run of addresses, in pieces for the driver.
type Memory struct {
	e      *Engine
	start  address
	bytes  uintptr
	piece  uintptr // bytes of all pieces but the last
	locked int     // pieces registered, the first ones
	give   func() error
	failed error // an unregistering that did not succeed: the memory stays
}

// Start is where the memory is: at the start of a page, of a huge one if it is as
// large as that.
func (m *Memory) Start() cu.HostPtr { return m.start }

// Bytes is its size.
func (m *Memory) Bytes() uintptr { return m.bytes }

// Cuts is where one registration ends and the next begins, in bytes from the start.
func (m *Memory) Cuts() []uintptr {
	var cuts []uintptr
	for off := m.piece; off < m.bytes; off += m.piece {
		cuts = append(cuts, off)
	}
	return cuts
}

// Lock takes memory and page-locks it. When ctx ends first it gives up at the next
// piece, and the error wraps ctx.Err(). After an error nothing is left of it.
func (e *Engine) Lock(ctx context.Context, r Request) (*Memory, error) {
	machine := e.machine()
	if err := machine.refuse(r); err != nil {
		return nil, err
	}
	huge := e.choose(ctx, machine, r)
	begin := e.now()
	m, err := e.lock(ctx, machine, r, huge, MaxPiece)
	if err == nil {
		e.learn(r.Bytes, e.now()-begin)
	}
	return m, err
}

// lock is Lock on pages and in pieces that are decided.
func (e *Engine) lock(ctx context.Context, machine *Machine, r Request, huge bool, piece uintptr) (*Memory, error) {
	m, err := e.reserve(machine, r, huge, piece)
	if err != nil {
		return nil, err
	}
	if err := m.lock(ctx, machine, r, huge); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// reserve takes addresses, with advice on what shall be behind them.
func (e *Engine) reserve(machine *Machine, r Request, huge bool, piece uintptr) (*Memory, error) {
	align := uintptr(machine.HugeBytes)
	if r.Bytes < align {
		align = pageBytes
	}
	all, err := e.sys.take(r.Bytes, align)
	if err != nil {
		return nil, &Error{r.Bytes, r.Node, "the system has no addresses for it (" + err.Error() + ")", "lift the limit of address space (ulimit -v), or take less", cu.ErrorOutOfMemory}
	}
	m := &Memory{e: e, start: all.start, bytes: r.Bytes, piece: piece, give: all.give}
	if machine.Huge {
		e.sys.advise(m.start, m.bytes, huge)
	}
	if node, ok := machine.Node(r.Node); ok && len(machine.Nodes) > 1 {
		if err := e.sys.prefer(m.start, m.bytes, node); err != nil && r.Strict {
			return nil, errors.Join(&Error{r.Bytes, r.Node, "the system does not place it (" + err.Error() + ")", "ask for another NUMA node, or none", cu.ErrorInvalidValue}, m.Close())
		}
	}
	return m, nil
}

// lock registers piece after piece as it has been touched.
func (m *Memory) lock(ctx context.Context, machine *Machine, r Request, huge bool) error {
	ctx, stop := context.WithCancel(ctx)
	t := m.touch(ctx, machine, r, huge)
	defer t.wait()
	defer stop()
	for off := uintptr(0); off < m.bytes; off += m.piece {
		n := min(m.piece, m.bytes-off)
		if err := t.until(ctx, off+n); err != nil {
			return err
		}
		if err := m.e.driver.MemHostRegister(m.e.ctx, at(m.start, off), n, r.Flags); err != nil {
			return err
		}
		m.locked++
		if r.Progress != nil {
			r.Progress(off+n, m.bytes)
		}
	}
	return nil
}

// Close unregisters the memory and gives it back. Where the driver must not be
// called, in a host function, the error says so and another Close goes on. Memory
// that the driver does not let go stays where it is.
func (m *Memory) Close() error {
	for m.locked > 0 {
		err := m.e.driver.MemHostUnregister(m.e.ctx, at(m.start, uintptr(m.locked-1)*m.piece))
		if errors.Is(err, cu.ErrorNotPermitted) {
			return err
		}
		if err != nil && m.failed == nil {
			m.failed = err
		}
		m.locked--
	}
	if m.failed != nil || m.give == nil {
		return m.failed
	}
	give := m.give
	m.give = nil
	return give()
}
