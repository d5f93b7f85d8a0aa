package cu

import "fmt"

// Batches makes several calls at once. It is the only part of [Driver] that CUDA does
// not have. In C a call has no overhead, but every call from Go to C has.
type Batches interface {
	// Submit makes the calls of b in order. It stops at the first call that fails. done
	// is the number of calls before it, which succeeded. Package libcuda calls C once
	// for all of them. The batch must not change during Submit, and can be submitted
	// again. A nil batch is refused with [ErrorInvalidValue].
	Submit(ctx Context, b *Batch) (done int, err error)
}

// Batch is a list of stream-ordered calls for [Batches].Submit. The calls can use
// several streams of one context. Each method appends the call that [Driver] has under
// the same name. The zero Batch is empty and ready to use. Reset empties a batch and
// keeps its memory, so that a batch in a loop allocates nothing. Memory that a call
// uses must stay valid as for the call itself. A Batch is not safe for concurrent use.
type Batch struct {
	calls    []Call
	prepared any  // kept by a driver
	current  bool // prepared is for the calls as they are now
}

// Call is one call of a [Batch]. It uses the fields that are arguments of Op's
// function.
type Call struct {
	Op       Op
	Dst, Src DevicePtr
	DstCtx   Context // of a copy between devices
	SrcCtx   Context
	Host     HostPtr // the source or the destination in host memory
	Bytes    uintptr // or the count of a memset
	Value    uint32  // of a memset
	Stream   Stream
	Event    Event
	Function Function
	Grid     Dim3
	Block    Dim3
	Shared   uint32 // dynamic shared memory in bytes
	Params   []byte
}

// Op names the function of a [Call].
type Op uint8

// The functions that a batch can call.
const (
	OpMemcpyAsync Op = iota
	OpMemcpyHtoDAsync
	OpMemcpyDtoHAsync
	OpMemcpyDtoDAsync
	OpMemcpyPeerAsync
	OpMemsetD8Async
	OpMemsetD16Async
	OpMemsetD32Async
	OpLaunchKernel
	OpEventRecord
	OpStreamWaitEvent
)

var opNames = [...]string{
	OpMemcpyAsync:     "cuMemcpyAsync",
	OpMemcpyHtoDAsync: "cuMemcpyHtoDAsync",
	OpMemcpyDtoHAsync: "cuMemcpyDtoHAsync",
	OpMemcpyDtoDAsync: "cuMemcpyDtoDAsync",
	OpMemcpyPeerAsync: "cuMemcpyPeerAsync",
	OpMemsetD8Async:   "cuMemsetD8Async",
	OpMemsetD16Async:  "cuMemsetD16Async",
	OpMemsetD32Async:  "cuMemsetD32Async",
	OpLaunchKernel:    "cuLaunchKernel",
	OpEventRecord:     "cuEventRecord",
	OpStreamWaitEvent: "cuStreamWaitEvent",
}

// String returns the function's name in C.
func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// Len returns the number of calls, 0 for a nil batch.
func (b *Batch) Len() int {
	if b == nil {
		return 0
	}
	return len(b.calls)
}

// Calls returns the calls in order. The slice is valid until the batch changes; the
// caller may change its elements.
func (b *Batch) Calls() []Call {
	b.current = false
	return b.calls
}

// Prepare keeps x, which a driver has made from the calls, for the next Submit.
func (b *Batch) Prepare(x any) { b.prepared, b.current = x, true }

// Prepared returns what Prepare kept last, or nil. If current is false, the calls have
// changed since, and only the memory of x can be used again.
func (b *Batch) Prepared() (x any, current bool) { return b.prepared, b.current }

// Reset removes all calls.
func (b *Batch) Reset() {
	clear(b.calls) // releases the memory that they point to
	b.calls, b.current = b.calls[:0], false
}

// Append appends copies of calls.
func (b *Batch) Append(calls ...Call) {
	for i := range calls {
		*b.next() = calls[i]
	}
}

// next appends an empty call and returns it.
func (b *Batch) next() *Call {
	b.current = false
	b.calls = append(b.calls, Call{})
	return &b.calls[len(b.calls)-1]
}

// MemcpyAsync appends a copy between any two addresses.
func (b *Batch) MemcpyAsync(dst, src DevicePtr, bytes uintptr, stream Stream) {
	*b.next() = Call{Op: OpMemcpyAsync, Dst: dst, Src: src, Bytes: bytes, Stream: stream}
}

// MemcpyHtoDAsync appends a copy from host memory to the device.
func (b *Batch) MemcpyHtoDAsync(dst DevicePtr, src HostPtr, bytes uintptr, stream Stream) {
	*b.next() = Call{Op: OpMemcpyHtoDAsync, Dst: dst, Host: src, Bytes: bytes, Stream: stream}
}

// MemcpyDtoHAsync appends a copy from the device to host memory.
func (b *Batch) MemcpyDtoHAsync(dst HostPtr, src DevicePtr, bytes uintptr, stream Stream) {
	*b.next() = Call{Op: OpMemcpyDtoHAsync, Host: dst, Src: src, Bytes: bytes, Stream: stream}
}

// MemcpyDtoDAsync appends a copy within the device.
func (b *Batch) MemcpyDtoDAsync(dst, src DevicePtr, bytes uintptr, stream Stream) {
	*b.next() = Call{Op: OpMemcpyDtoDAsync, Dst: dst, Src: src, Bytes: bytes, Stream: stream}
}

// MemcpyPeerAsync appends a copy between devices.
func (b *Batch) MemcpyPeerAsync(dst DevicePtr, dstCtx Context, src DevicePtr, srcCtx Context, bytes uintptr, stream Stream) {
	*b.next() = Call{Op: OpMemcpyPeerAsync, Dst: dst, DstCtx: dstCtx, Src: src, SrcCtx: srcCtx, Bytes: bytes, Stream: stream}
}

// MemsetD8Async appends a fill of count bytes.
func (b *Batch) MemsetD8Async(dst DevicePtr, value uint8, count uintptr, stream Stream) {
	*b.next() = Call{Op: OpMemsetD8Async, Dst: dst, Value: uint32(value), Bytes: count, Stream: stream}
}

// MemsetD16Async appends a fill of count 16-bit words.
func (b *Batch) MemsetD16Async(dst DevicePtr, value uint16, count uintptr, stream Stream) {
	*b.next() = Call{Op: OpMemsetD16Async, Dst: dst, Value: uint32(value), Bytes: count, Stream: stream}
}

// MemsetD32Async appends a fill of count 32-bit words.
func (b *Batch) MemsetD32Async(dst DevicePtr, value uint32, count uintptr, stream Stream) {
	*b.next() = Call{Op: OpMemsetD32Async, Dst: dst, Value: value, Bytes: count, Stream: stream}
}

// LaunchKernel appends a launch. params must not change before the batch is
// submitted.
func (b *Batch) LaunchKernel(f Function, grid, block Dim3, sharedMemBytes uint32, stream Stream, params []byte) {
	*b.next() = Call{Op: OpLaunchKernel, Function: f, Grid: grid, Block: block, Shared: sharedMemBytes, Stream: stream, Params: params}
}

// EventRecord appends a record of an event.
func (b *Batch) EventRecord(event Event, stream Stream) {
	*b.next() = Call{Op: OpEventRecord, Event: event, Stream: stream}
}

// StreamWaitEvent appends a wait of a stream for an event.
func (b *Batch) StreamWaitEvent(stream Stream, event Event) {
	*b.next() = Call{Op: OpStreamWaitEvent, Event: event, Stream: stream}
}

// Do makes the calls of b one by one. A driver that gains nothing from making them at
// once implements Submit with it. A nil batch is an error.
func (b *Batch) Do(d Driver, ctx Context) (done int, err error) {
	if b == nil {
		return 0, fmt.Errorf("submit a batch: no batch given: %w", ErrorInvalidValue)
	}
	for i := range b.calls {
		if err := b.calls[i].Do(d, ctx); err != nil {
			return i, err
		}
	}
	return len(b.calls), nil
}

// Do makes the call.
func (c *Call) Do(d Driver, ctx Context) error {
	switch c.Op {
	case OpMemcpyAsync:
		return d.MemcpyAsync(ctx, c.Dst, c.Src, c.Bytes, c.Stream)
	case OpMemcpyHtoDAsync:
		return d.MemcpyHtoDAsync(ctx, c.Dst, c.Host, c.Bytes, c.Stream)
	case OpMemcpyDtoHAsync:
		return d.MemcpyDtoHAsync(ctx, c.Host, c.Src, c.Bytes, c.Stream)
	case OpMemcpyDtoDAsync:
		return d.MemcpyDtoDAsync(ctx, c.Dst, c.Src, c.Bytes, c.Stream)
	case OpMemcpyPeerAsync:
		return d.MemcpyPeerAsync(ctx, c.Dst, c.DstCtx, c.Src, c.SrcCtx, c.Bytes, c.Stream)
	case OpMemsetD8Async:
		return d.MemsetD8Async(ctx, c.Dst, uint8(c.Value), c.Bytes, c.Stream)
	case OpMemsetD16Async:
		return d.MemsetD16Async(ctx, c.Dst, uint16(c.Value), c.Bytes, c.Stream)
	case OpMemsetD32Async:
		return d.MemsetD32Async(ctx, c.Dst, c.Value, c.Bytes, c.Stream)
	case OpLaunchKernel:
		return d.LaunchKernel(ctx, c.Function, c.Grid, c.Block, c.Shared, c.Stream, c.Params)
	case OpEventRecord:
		return d.EventRecord(ctx, c.Event, c.Stream)
	case OpStreamWaitEvent:
		return d.StreamWaitEvent(ctx, c.Stream, c.Event, EventWaitDefault)
	}
	return fmt.Errorf("%v in a batch: %w", c.Op, ErrorInvalidValue)
}
