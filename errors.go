package ferry

import (
	"errors"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
)

// ErrClosed is the error that a call wraps when it uses a closed buffer, stream, event,
// module, graph, pool or GPU. The text of the error names the object. A second Close is
// not an error.
var ErrClosed = errors.New("already closed")

// inHostFunction reports whether the driver refused a call because it came from a host
// function.
func inHostFunction(err error) bool { return errors.Is(err, cu.ErrorNotPermitted) }

// sticky reports whether an error means that the context is lost.
func sticky(err error) bool {
	r, ok := errors.AsType[cu.Result](err)
	return ok && r.Sticky()
}

// pendingError stores the first error of asynchronous work until a call returns it.
type pendingError struct{ first atomic.Pointer[error] }

// add stores an error, unless one is stored already. It ignores nil.
func (p *pendingError) add(err error) {
	if err != nil {
		kept := err // escapes instead of err, so that add(nil) allocates nothing
		p.first.CompareAndSwap(nil, &kept)
	}
}

// take removes the stored error and returns it.
func (p *pendingError) take() error {
	if err := p.first.Swap(nil); err != nil {
		return *err
	}
	return nil
}
