package ferry

import (
	"errors"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
)

// ErrClosed is what the use of something after its Close wraps: of a buffer, stream,
// event, module, graph, pool or GPU. The error's text says which. To close twice is no
// error.
var ErrClosed = errors.New("already closed")

// inHostFunction reports that the driver refused a call because it came from a host
// function.
func inHostFunction(err error) bool { return errors.Is(err, cu.ErrorNotPermitted) }

// sticky reports that the context is lost.
func sticky(err error) bool {
	r, ok := errors.AsType[cu.Result](err)
	return ok && r.Sticky()
}

// pendingError keeps the first error of asynchronous work that nobody was told of
// yet.
type pendingError struct{ first atomic.Pointer[error] }

// add keeps an error, unless there is one. nil is none.
func (p *pendingError) add(err error) {
	if err != nil {
		kept := err // so that only an error is allocated
		p.first.CompareAndSwap(nil, &kept)
	}
}

// take is the error kept, once.
func (p *pendingError) take() error {
	if err := p.first.Swap(nil); err != nil {
		return *err
	}
	return nil
}
