package softgpu

import (
	"errors"

	"github.com/ferrygpu/ferry/cu"
)

// lateError is the error of an operation that failed after the call which queued it had
// returned: a panic of a host function, or a copy or fill whose memory could not be used. The
// context stays usable. One later call returns the error; see [cu.HostPanic] and
// [cu.OperationError].
type lateError struct {
	err    error
	op     uint64       // op.id: operations that are queued later have larger numbers
	stream *streamState // nil for a node of a graph
}

// lateErrors are the errors of a context's operations that no call has returned yet.
type lateErrors []lateError

// record keeps the error of an op that has retired, if it does not lose the context and no call
// waits for the op: such a call returns the error itself.
func (l *lateErrors) record(o *op) {
	if o.awaited {
		return
	}
	switch o.err.(type) {
	case *cu.HostPanic, *cu.OperationError:
		*l = append(*l, lateError{o.err, o.id, o.stream})
	}
}

// take removes and returns those that a call reports.
func (l *lateErrors) take(reports func(*lateError) bool) error {
	var taken []error
	rest := (*l)[:0]
	for i := range *l {
		if x := &(*l)[i]; reports(x) {
			taken = append(taken, x.err)
		} else {
			rest = append(rest, *x)
		}
	}
	clear((*l)[len(rest):])
	*l = rest
	return errors.Join(taken...)
}

// reportLate returns the errors of all operations of c that no call has returned yet.
func (c *contextState) reportLate() error {
	return c.late.take(func(*lateError) bool { return true })
}

// reportLate returns the errors of the operations of s, and of the context's graphs, that no
// call has returned yet. Those of a destroyed stream are for calls on the context.
func (s *streamState) reportLate() error {
	return s.ctx.late.take(func(x *lateError) bool { return x.stream == s || x.stream == nil })
}

// reportBefore returns the errors of copies, fills and the like that s ran before o, for a call
// that has waited for o. Such a call does not report panics of host functions.
func (s *streamState) reportBefore(o *op) error {
	return s.ctx.late.take(func(x *lateError) bool {
		_, failed := x.err.(*cu.OperationError)
		return failed && x.op < o.id && (x.stream == nil || s.waitsFor(x.stream))
	})
}

// waitsFor reports whether an operation of s follows all earlier ones of another stream of the
// context, by the rule of the legacy default stream.
func (s *streamState) waitsFor(other *streamState) bool {
	legacy := s.ctx.legacy
	return s == other || !s.nonBlocking() && !other.nonBlocking() && (s == legacy || other == legacy)
}
