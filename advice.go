package ferry

import (
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

// Advice is what the driver was told about managed memory. A place is a device's
// ordinal, cu.CPUDevice for the host, or cu.InvalidDevice for none, or when parts
// of the memory differ.
type Advice struct {
	ReadMostly        bool
	PreferredLocation cu.Device
	AccessedBy        []cu.Device // in no order
	LastPrefetch      cu.Device   // where Prefetch was last queued to
}

// Advice reads back what [Managed.Advise] and [Managed.Prefetch] told the driver
// (cuMemRangeGetAttribute). Of an empty buffer it is that of none.
func (m *Managed[T]) Advice() (Advice, error) {
	none := Advice{PreferredLocation: cu.InvalidDevice, LastPrefetch: cu.InvalidDevice}
	r := m.where(nil)
	if err := r.enter(); err != nil {
		return none, fmt.Errorf("read advice: %w", err)
	}
	defer r.leave()
	if r.bytes == 0 {
		return none, nil
	}
	a, err := r.advice()
	if err != nil {
		return none, fmt.Errorf("read advice on %v: %w", r, err)
	}
	return a, nil
}

// advice asks the driver.
func (r *region) advice() (a Advice, err error) {
	g := r.a.g
	ask := func(what cu.MemRangeAttribute, places int) []int32 {
		data := make([]int32, places)
		if err == nil {
			err = g.driver.MemRangeGetAttribute(g.ctx, data, what, r.dev, r.bytes)
		}
		return data
	}
	count, err := g.driver.DeviceGetCount()
	a.ReadMostly = ask(cu.MemRangeAttributeReadMostly, 1)[0] != 0
	a.PreferredLocation = cu.Device(ask(cu.MemRangeAttributePreferredLocation, 1)[0])
	a.LastPrefetch = cu.Device(ask(cu.MemRangeAttributeLastPrefetchLocation, 1)[0])
	for _, dev := range ask(cu.MemRangeAttributeAccessedBy, int(count)+1) {
		if d := cu.Device(dev); d != cu.InvalidDevice {
			a.AccessedBy = append(a.AccessedBy, d)
		}
	}
	return a, err
}

// mayAdvise refuses advice about a device that cannot follow it.
func (g *GPU) mayAdvise(advice cu.MemAdvice, dev cu.Device) error {
	switch advice {
	case cu.MemAdviseSetPreferredLocation, cu.MemAdviseSetAccessedBy, cu.MemAdviseUnsetAccessedBy:
	default:
		return nil
	}
	if dev == cu.CPUDevice {
		return nil
	}
	v, err := g.driver.DeviceGetAttribute(cu.DeviceAttributeConcurrentManagedAccess, dev)
	switch {
	case err != nil:
		return fmt.Errorf("device %d: %w", dev, err)
	case v == 0:
		return &refusal{cu.ErrorInvalidDevice, fmt.Sprintf("device %d cannot follow it (%v is 0): leave it out", dev, cu.DeviceAttributeConcurrentManagedAccess)}
	}
	return nil
}

// attachment says who may touch managed memory where host and devices must take
// turns.
type attachment struct {
	flags cu.MemAttachFlags
	q     *queue // of cu.MemAttachSingle
}

// Attach says who may touch the buffer from this point of the stream on
// (cuStreamAttachMemAsync): cu.MemAttachGlobal anybody, cu.MemAttachHost the host
// alone, cu.MemAttachSingle the host and this stream alone, which must not be the
// default stream. It matters where the device lacks concurrent managed access:
// Slice then waits for every stream of such devices, for none, or for this one;
// and kernels that may not use the buffer are refused it. Only a whole buffer can
// be attached.
func (m *Managed[T]) Attach(s *Stream, flags cu.MemAttachFlags) error {
	return s.operate("attach", m.where(nil), writes, func(q *queue) (bool, error) {
		r := m.where(nil)
		switch {
		case q.c != nil:
			return false, &refusal{cu.ErrorStreamCaptureUnsupported, "the stream captures, and a graph cannot attach memory: attach before"}
		case r.a == nil:
			return false, refuse("there is no buffer")
		case r.bytes != r.a.bytes:
			return false, refuse("only the whole buffer can be attached")
		case flags != cu.MemAttachGlobal && flags != cu.MemAttachHost && flags != cu.MemAttachSingle:
			return false, refuse("flags are %#x: use cu.MemAttachGlobal, MemAttachHost or MemAttachSingle", uint32(flags))
		case flags == cu.MemAttachSingle && q.number == 0:
			return false, refuse("cu.MemAttachSingle needs a stream made by NewStream")
		}
		if err := r.reach(q.g); err != nil || r.bytes == 0 {
			return false, err
		}
		if err := q.g.driver.StreamAttachMemAsync(q.g.ctx, q.handle, r.dev, 0, flags); err != nil {
			return false, err
		}
		r.a.attached.Store(&attachment{flags, q})
		return true, nil
	})
}

// takeTurn waits until the host may touch managed memory where host and devices
// must take turns. What is in flight on it has been waited for.
func (a *allocation) takeTurn(wait func(*queue) error) error {
	at := a.attached.Load()
	switch {
	case at == nil || at.flags == cu.MemAttachGlobal:
		for _, q := range a.g.shared.busy() {
			if err := wait(q); err != nil {
				return err
			}
		}
	case at.flags == cu.MemAttachSingle && !at.q.idle():
		return wait(at.q)
	}
	return nil
}

// busy is the streams with work on devices of the driver where host and device
// must take turns at managed memory, whichever GPU value they came from.
func (t *registry) busy() []*queue {
	var all []*queue
	for _, g := range t.list() {
		if g.caps.concurrentManaged {
			continue
		}
		for _, q := range g.queues() {
			if !q.idle() {
				all = append(all, q)
			}
		}
	}
	return all
}

// attachedTo refuses managed memory that kernels of a stream may not use, on a
// device without concurrent managed access.
func (a *allocation) attachedTo(q *queue) error {
	at := a.attached.Load()
	switch {
	case at == nil || at.flags == cu.MemAttachGlobal || at.q == q && at.flags == cu.MemAttachSingle:
		return nil
	case at.flags == cu.MemAttachHost:
		return refuse("%v is attached to the host, and the device has no concurrent access (%v is 0): Attach it to the stream, or cu.MemAttachGlobal", a, cu.DeviceAttributeConcurrentManagedAccess)
	}
	return refuse("%v is attached to %v, and the device has no concurrent access (%v is 0): launch there, or Attach it to this stream", a, at.q, cu.DeviceAttributeConcurrentManagedAccess)
}
