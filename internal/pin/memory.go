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
	failed     error // the first unregistration that failed: the memory stays
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
		if r.Progress != nil {
			r.Progress(off+n, m.bytes)
		}
	}
	return nil
}

// Close unregisters the memory and releases it. In a host function, where the driver must
// not be called, the error says so, and another Close goes on. Memory that the driver does
// not unregister stays where it is.
func (m *Memory) Close() error {
	if m.registered > 0 && m.e.Settle != nil {
		if err := m.e.Settle(); err != nil {
			return err
		}
	}
	for m.registered > 0 {
		err := m.e.driver.MemHostUnregister(m.e.ctx, at(m.start, uintptr(m.registered-1)*m.part))
		if errors.Is(err, cu.ErrorNotPermitted) {
			return err
		}
		if err != nil && m.failed == nil {
			m.failed = err
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
