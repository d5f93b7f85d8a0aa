package nccl

import (
	"fmt"
	"sync"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/bridge"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Registration is memory that is registered with a communicator.
type Registration struct {
	c      *Comm
	handle uintptr
	once   sync.Once
	hold   bridge.Exported
}

// Register registers memory with a communicator, so that calls with it need no buffers of NCCL's own
// where the links allow that (ncclCommRegister). It is worth its time for memory that many calls
// use; every rank should register. The memory stays until the Registration is closed: a buffer that is
// closed before is freed then. On the software GPU it changes nothing but is checked in the
// same way.
//
// https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/comms.html#ncclcommregister
func Register[T any](c *Comm, m ferry.Memory[T]) (*Registration, error) {
	const what = "register memory"
	switch {
	case c == nil:
		return nil, errNoComm(what)
	case m == nil:
		return nil, refusal.Invalid("%s with %v: none given (nil)", what, c)
	}
	if err := c.begin(what); err != nil {
		return nil, err
	}
	defer c.end()
	hold, err := bridge.Export(m, false)
	if err != nil {
		return nil, fmt.Errorf("%s with %v: %w", what, c, err)
	}
	if hold.Kind != bridge.DeviceKind || hold.Device != c.gpu.CUDevice() || m.Size() == 0 {
		hold.Release()
		return nil, refusal.Invalid("%s with %v: %v: want device memory of %v", what, c, m, c.gpu)
	}
	handle, err := c.backend.Register(hold.Address, m.Size())
	if err != nil {
		hold.Release()
		return nil, fmt.Errorf("%s with %v: %v: %w", what, c, m, err)
	}
	return &Registration{c: c, handle: handle, hold: hold}, nil
}

// Close undoes Register (ncclCommDeregister). Calls with the memory must be done: wait for them
// before. A communicator that has ended has no registrations, so Close then only gives the memory free.
// A second Close does nothing.
func (r *Registration) Close() (err error) {
	if r == nil {
		return nil
	}
	r.once.Do(func() {
		defer r.hold.Release()
		if r.c.begin("undo a registration") != nil {
			<-r.c.done // the communicator has ended, and uses memory until then
			return
		}
		defer r.c.end()
		if failed := r.c.backend.Deregister(r.handle); failed != nil {
			err = fmt.Errorf("undo a registration with %v: %w", r.c, failed)
		}
	})
	return err
}
