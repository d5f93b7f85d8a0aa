package pin

import (
	"context"
	"errors"

	"github.com/ferrygpu/ferry/cu"
)

// Memory is the page-locked memory of a request: one range of addresses, in one or more registrations of
// the driver. It is not safe for concurrent use.
type Memory struct {
	e          *Engine
	start      address
	bytes      uintptr
	part       uintptr // bytes of all registrations but the last
	registered int     // how many registrations exist, the first ones
	release    func() error
	failed     error           // the first unregistration that failed: the memory stays
	left       []uintptr       // registrations that the driver could not end, by their first byte
	count      func(bytes int) // see Request.Count
}

// Start returns where the memory is: at the start of a page, and of a huge page if it is
// as large as one.
func (m *Memory) Start() cu.HostPtr { return m.start }

// Bytes returns the size.
func (m *Memory) Bytes() uintptr { return m.bytes }

// Boundaries returns where one registration ends and the next begins, in bytes from the
// start.
func (m *Memory) Boundaries() []uintptr {
	var all []uintptr
	for off := m.part; off < m.bytes; off += m.part {
		all = append(all, off)
	}
	return all
}

// lock registers one part after the other as soon as it has been touched.
func (m *Memory) lock(ctx context.Context, machine *Machine, r Request, huge bool) error {
	ctx, stop := context.WithCancel(ctx)
	t := m.touch(ctx, machine, r, huge)
	defer t.wait()
	defer stop()
	for off := uintptr(0); off < m.bytes; off += m.part {
		n := min(m.part, m.bytes-off)
		if err := t.waitUntil(ctx, off+n); err != nil {
			return err
		}
		if err := m.e.driver.MemHostRegister(m.e.ctx, at(m.start, off), n, r.Flags); err != nil {
			return err
		}
		m.registered++
		m.count(int(n))
		if r.Progress != nil {
			r.Progress(off+n, m.bytes)
		}
	}
	return nil
}

// Close unregisters the memory and releases it. In a host function, where the driver must
// not be called, the error says so, and another Close goes on. Memory that the driver does
// not unregister stays where it is, and another Close tries again.
func (m *Memory) Close() error {
	if m.registered+len(m.left) > 0 && m.e.Settle != nil {
		if err := m.e.Settle(); err != nil {
			return err
		}
	}
	if err := m.unregisterAgain(); err != nil {
		return err
	}
	for m.registered > 0 {
		if err := m.unregister(uintptr(m.registered-1) * m.part); err != nil {
			return err
		}
		m.registered--
	}
	if m.failed != nil || m.release == nil {
		return m.failed
	}
	release := m.release
	m.release = nil
	return release()
}

// unregisterAgain unregisters what an earlier Close could not. A part that is not registered any
// more was unregistered by the call that failed. The error is that of a host function.
func (m *Memory) unregisterAgain() error {
	if len(m.left) > 0 {
		m.failed = nil
	}
	for range len(m.left) {
		if err := m.unregister(m.left[0]); err != nil {
			return err
		}
		m.left = m.left[1:]
	}
	return nil
}

// unregister unregisters the part that begins at a byte. Its own error is that of a host function.
func (m *Memory) unregister(off uintptr) error {
	err := m.e.driver.MemHostUnregister(m.e.ctx, at(m.start, off))
	switch again := len(m.left) > 0 && m.left[0] == off; {
	case err == nil, again && errors.Is(err, cu.ErrorHostMemoryNotRegistered):
		m.count(-int(min(m.part, m.bytes-off)))
	case errors.Is(err, cu.ErrorNotPermitted):
		return err
	default:
		m.left = append(m.left, off)
		if m.failed == nil {
			m.failed = err
		}
	}
	return nil
}
