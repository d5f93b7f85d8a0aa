package softgpu

import (
	"cmp"
	"errors"
	"slices"

	"github.com/ferrygpu/ferry/cu"
)

// lateError is the error of an operation that failed after the call which queued it had
// returned: a panic of a host function, or a copy or fill whose memory could not be used. The
// context stays usable. One later call returns the error; see [cu.HostPanic] and
// [cu.OperationError].
type lateError struct {
	err error
	op  *op
}

// lateErrors are the errors of a context's operations that no call has returned yet. These calls
// take them:
//
//   - StreamSynchronize and StreamQuery those of their stream and of graphs
//   - CtxSynchronize and CtxDestroy all
//   - copies and fills that wait, and blocking launches, those of copies and fills before them
//
// Other calls that wait for work, such as MemFree, take none: an error of one stream does not
// keep them from their own work.
type lateErrors []lateError

// record keeps the error of an op that has retired, if it does not lose the context and no call
// waits for the op: such a call returns the error itself.
func (l *lateErrors) record(o *op) {
	if o.awaited {
		return
	}
	switch o.err.(type) {
	case *cu.HostPanic, *cu.OperationError:
		*l = append(*l, lateError{o.err, o})
	}
}

// take removes and returns those that a call reports. What the caller does from now on follows
// their operations.
func (l *lateErrors) take(reports func(*lateError) bool) error {
	var taken []error
	rest := (*l)[:0]
	for i := range *l {
		if x := &(*l)[i]; reports(x) {
			x.op.acquired()
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

// reportLast is reportLate after c was destroyed. last are its last operations, which are done.
// Those that have not retired will be recorded too late.
func (c *contextState) reportLast(last []*op) error {
	if c.drv.failed {
		for _, o := range unretired(last) {
			if o.ctx == c {
				c.late.record(o)
			}
		}
	}
	return c.reportLate()
}

// unretired returns the ops among last, and those before them, that have not retired, in the
// order in which they were queued.
func unretired(last []*op) (all []*op) {
	seen := map[*op]bool{}
	for todo := slices.Clone(last); len(todo) > 0; {
		o := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if o == nil || o.retired || seen[o] {
			continue
		}
		seen[o] = true
		all = append(all, o)
		todo = append(todo, o.deps...)
	}
	slices.SortFunc(all, func(a, b *op) int { return cmp.Compare(a.id, b.id) })
	return all
}

// reportLate returns the errors of the operations of s, and of the context's graphs, that no
// call has returned yet. Those of a destroyed stream are for calls on the context.
func (s *streamState) reportLate() error {
	return s.ctx.late.take(func(x *lateError) bool { return x.op.stream == s || x.op.stream == nil })
}

// reportBefore returns the errors of copies, fills and the like that s ran before o, for a call
// that has waited for o. Such a call does not report panics of host functions.
func (s *streamState) reportBefore(o *op) error {
	return s.ctx.late.take(func(x *lateError) bool {
		_, failed := x.err.(*cu.OperationError)
		return failed && x.op.id < o.id && (x.op.stream == nil || s.waitsFor(x.op.stream))
	})
}

// waitsFor reports whether an operation of s follows all earlier ones of another stream of the
// context, by the rule of the legacy default stream.
func (s *streamState) waitsFor(other *streamState) bool {
	legacy := s.ctx.legacy
	return s == other || !s.nonBlocking() && !other.nonBlocking() && (s == legacy || other == legacy)
}
