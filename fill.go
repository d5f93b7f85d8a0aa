package ferry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/kernelargs"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// Fill sets all elements of dst to value, in the order of the stream (cuMemsetD8Async,
// cuMemsetD16Async, cuMemsetD32Async). It returns when the operation is queued. Elements
// of 1, 2 and 4 bytes can have any value. The bytes of a larger value must repeat a
// pattern of 1, 2 or 4 bytes, as those of zero do. Bytes between the fields of a struct are
// zero, and so are fields with the name _. A page-locked buffer must have an
// address in kernels: see [Host.Pointer]. Pageable memory is refused: fill it in Go.
// Memory of another GPU needs peer access ([GPU.EnablePeer]).
// Errors are as for [Copy]. Fill is safe for concurrent use.
func Fill[T any](q Queue, dst Memory[T], value T) error {
	r, bytes := spanOf(dst), address.BytesOf(&value)
	kernelargs.ClearPadding[T](bytes)
	if b, ok := q.(*Batch); ok {
		return addFill(b, r, bytes)
	}
	return streamOf(q).operate("fill", r, inflight.Write, func(st *streamState) (queued bool, err error) {
		if queued, err = fillNow(st, r, bytes); err != nil {
			if p, ok := errors.AsType[*patternError](err); ok && p.size <= shownBytes {
				p.given = fmt.Sprintf("%v, ", value)
			}
		}
		return queued, err
	})
}

// patternError is the error for a value that the driver cannot repeat.
type patternError struct {
	given string // the value as the program wrote it, if that is known and short
	size  int
	bytes []byte // the first of size bytes
}

// shownBytes is how many bytes of a value a patternError shows.
const shownBytes = 64

func newPatternError(value []byte) *patternError {
	return &patternError{size: len(value), bytes: slices.Clone(value[:min(len(value), shownBytes)])}
}

func (e *patternError) Error() string {
	more := ""
	if e.size > len(e.bytes) {
		more = "..."
	}
	return fmt.Sprintf("the value %s%d bytes (%#x%s), does not repeat a pattern of 1, 2 or 4 bytes: launch a kernel, or copy (%s)", e.given, e.size, e.bytes, more, cu.ErrorInvalidValue.Name())
}

func (e *patternError) Unwrap() error { return cu.ErrorInvalidValue }

// fillNow checks and queues a fill. queued is as for queueCopy.
func fillNow(st *streamState, dst *span, value []byte) (queued bool, err error) {
	fill, err := newFill(st, dst, value)
	if err != nil {
		return false, err
	}
	for c := range fill.calls() {
		queued = true
		if err := c.Do(st.g.driver, st.g.ctx); err != nil {
			return queued, err
		}
	}
	return queued, nil
}

// fill is a fill that has been checked.
type fill struct {
	st    *streamState
	dst   *span
	value []byte
	unit  int // bytes that the driver sets at a time
	at    cu.DevicePtr
}

// newFill checks a fill.
func newFill(st *streamState, dst *span, value []byte) (fill, error) {
	unit, ok := fillUnit(value)
	switch {
	case dst.a == nil:
		return fill{}, refusal.Invalid("%v is ordinary Go memory: fill it with a loop or clear", dst)
	case dst.a.readOnly.Load():
		return fill{}, refusal.Invalid("%v is read-only", dst)
	case dst.bytes == 0:
		return fill{st: st, dst: dst}, nil
	case !ok && dst.dev != 0:
		return fill{}, newPatternError(value)
	}
	p, err := dst.addressFor(st)
	if err == nil && uint64(p)%uint64(unit) != 0 {
		err = refusal.Invalid("the address %#x is not a multiple of %d bytes, the unit of this fill: launch a kernel, or copy", uint64(p), unit)
	}
	return fill{st, dst, value, unit, p}, err
}

// calls returns the driver calls of the fill, which do not cross a boundary between
// registrations.
func (f *fill) calls() iter.Seq[cu.Call] {
	return func(yield func(cu.Call) bool) {
		for off := uintptr(0); off < f.dst.bytes; {
			n, u, in := f.dst.toBoundary(off), uintptr(f.unit), off%uintptr(f.unit)
			if in != 0 || n < u { // the boundary is within a unit
				n, u = 1, 1
			}
			if !yield(memset(f.st.handle, f.at+cu.DevicePtr(off), f.value[in:], int(u), n/u)) {
				return
			}
			off += n / u * u
		}
	}
}

// memset returns the call that fills n units with the first bytes of a value.
func memset(stream cu.Stream, p cu.DevicePtr, value []byte, unit int, n uintptr) cu.Call {
	c := cu.Call{Op: cu.OpMemsetD8Async, Dst: p, Value: uint32(value[0]), Bytes: n, Stream: stream}
	switch unit {
	case 2:
		c.Op, c.Value = cu.OpMemsetD16Async, uint32(binary.NativeEndian.Uint16(value))
	case 4:
		c.Op, c.Value = cu.OpMemsetD32Async, binary.NativeEndian.Uint32(value)
	}
	return c
}

// fillUnit returns the length of the shortest pattern, of 1, 2 or 4 bytes, that a value
// repeats. It returns false if there is none.
func fillUnit(value []byte) (int, bool) {
	for _, unit := range []int{1, 2, 4} {
		if len(value)%unit == 0 && repeats(value, unit) {
			return unit, true
		}
	}
	return 0, false
}

// repeats reports whether value repeats its first unit bytes.
func repeats(value []byte, unit int) bool {
	for i := unit; i < len(value); i++ {
		if value[i] != value[i-unit] {
			return false
		}
	}
	return true
}

// addFill adds a Fill to a batch.
func addFill(b *Batch, dst *span, value []byte) error {
	if err := dst.check(); err != nil {
		return fmt.Errorf("fill in a batch: %w", err)
	}
	op, err := b.add("fill", prepareFill)
	if err != nil {
		return err
	}
	op.dst, op.params.from = *dst, len(b.params)
	b.params = append(b.params, value...)
	op.params.to = len(b.params)
	return nil
}

func prepareFill(b *Batch, st *streamState, op *batchOp) error {
	if err := b.acquireSpan(st, &op.dst, inflight.Write); err != nil {
		return err
	}
	fill, err := newFill(st, &op.dst, b.params[op.params.from:op.params.to])
	if err != nil {
		return err
	}
	for c := range fill.calls() {
		b.calls.Append(c)
	}
	return nil
}

// WriteValue writes value to the first element of dst in the order of the stream
// (cuStreamWriteValue32, cuStreamWriteValue64). What earlier work of the stream wrote is visible
// before the value is: to kernels, to streams in [WaitValue], and to a host that reads the element
// with sync/atomic. dst is device memory of [Alloc], or page-locked memory with an address in
// kernels. Memory of pools, managed and pageable memory are refused. A device can lack words of 8
// bytes (cu.ErrorNotSupported). Errors are as for [Fill].
func WriteValue[T uint32 | uint64](s *Stream, dst Memory[T], value T) error {
	return wordOperation(s, "write a value to", dst, inflight.Write, func(st *streamState, p cu.DevicePtr) error {
		if v, ok := any(value).(uint32); ok {
			return st.g.driver.StreamWriteValue32(st.g.ctx, st.handle, p, v, cu.StreamWriteValueDefault)
		}
		return st.g.driver.StreamWriteValue64(st.g.ctx, st.handle, p, uint64(value), cu.StreamWriteValueDefault)
	})
}

// WaitValue lets later work of the stream wait until the first element of word fulfils a
// condition with value (cuStreamWaitValue32, cuStreamWaitValue64):
//
//	cu.StreamWaitValueGEQ  it is value or more; as a counter, which may wrap around
//	cu.StreamWaitValueEQ   it is value
//	cu.StreamWaitValueAND  it has a bit of value
//	cu.StreamWaitValueNOR  it lacks a bit that value lacks, too
//
// It returns when the wait is queued. Work behind it sees what came before the write of the value:
// work of another stream before [WriteValue], of a kernel before a release, and what Go code did
// before it stored the value with sync/atomic. Take the slice to store to before the wait is
// queued, because [Host.Slice] waits for it. The memory is as for WriteValue. In a capture every
// launch of the graph waits.
//
// Nothing checks that the value ever comes: a stream whose value does not come never ends. CUDA
// does not see the order, and may run work that must write the value behind the work that waits
// for it. So queue the write before the wait, or let the host write, and use [Stream.WaitEvent]
// where an event can do it. Until the value comes, Close of any device buffer of the GPU
// may wait. A device can lack NOR and words of 8 bytes (cu.ErrorNotSupported). Errors are as for
// [Fill].
func WaitValue[T uint32 | uint64](s *Stream, word Memory[T], until cu.StreamWaitValueFlags, value T) error {
	return wordOperation(s, "wait for a value in", word, inflight.Read, func(st *streamState, p cu.DevicePtr) error {
		if v, ok := any(value).(uint32); ok {
			return st.g.driver.StreamWaitValue32(st.g.ctx, st.handle, p, v, until)
		}
		return st.g.driver.StreamWaitValue64(st.g.ctx, st.handle, p, uint64(value), until)
	})
}

// wordOperation queues an operation of the driver on the first element of a buffer.
func wordOperation[T uint32 | uint64](s *Stream, what string, word Memory[T], a inflight.Access, call func(*streamState, cu.DevicePtr) error) error {
	r := spanOf(word)
	return s.operate(what, r, a, func(st *streamState) (queued bool, err error) {
		switch {
		case r.a == nil:
			return false, refusal.Invalid("%v is ordinary Go memory: use a buffer of Alloc, AllocHost or Register", r)
		case r.a.readOnly.Load() && a == inflight.Write:
			return false, refusal.Invalid("%v is read-only", r)
		case r.bytes == 0:
			return false, refusal.Invalid("%v has no elements, and the first one is the word", r)
		}
		p, err := r.addressFor(st)
		if err != nil {
			return false, err
		}
		return true, call(st, p)
	})
}
