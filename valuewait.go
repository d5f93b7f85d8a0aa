package ferry

import (
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/refusal"
)

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
// where an event can do it. Until the value comes, Close of any device buffer of the GPU may wait. A device can lack NOR and words of 8 bytes (cu.ErrorNotSupported).
// Errors are as for [Fill].
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
		case r.a.readOnly && a == inflight.Write:
			return false, refusal.Invalid("%v is registered read-only", r)
		case r.bytes == 0:
			return false, refusal.Invalid("%v has no elements, and the first one is the word", r)
		}
		p, err := r.addressFor(st)
		if err == nil {
			err = call(st, p)
		}
		return err == nil, err
	})
}
