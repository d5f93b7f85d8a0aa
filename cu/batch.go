package cu

import "fmt"

// Batches is for calls that are made together. It is the one part of [Driver]
// that CUDA does not have: from C a call costs nothing on the way, from Go each
// crossing does.
type Batches interface {
	// Submit makes the calls of b in order. It stops at the first that fails; done
	// is how many were made with success before. libcuda crosses into C once for
	// all of them. b must not change meanwhile, and can be submitted again.
	Submit(ctx Context, b *Batch) (done int, err error)
}

// Batch is a list of stream-ordered calls for [Batches].Submit, which may be for
// several streams of one context. Its methods append the call that [Driver] has
// under their name. The zero Batch is empty and ready; Reset empties it and keeps
// its room, so that a batch in a loop allocates nothing. Memory that a call names
// must stay as it would for the call. A Batch is not safe for concurrent use.
type Batch struct {
	calls    []Call
	prepared any  // by a driver,
	current  bool // for these calls
}

// Call is one call of a [Batch], with the arguments that Op's function has.
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

// Op is the function of a [Call].
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

// String is the function's name in C.
func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// Len is the number of calls.
func (b *Batch) Len() int { return len(b.calls) }

// Calls are the calls in order, valid until the batch changes. They may be changed.
func (b *Batch) Calls() []Call {
	b.current = false
	return b.calls
}

// Prepare keeps what a driver has made of the calls, for the next Submit.
func (b *Batch) Prepare(x any) { b.prepared, b.current = x, true }

// Prepared is what was kept last, nil if nothing; current says that the calls have
// not changed since, else x is good for its room only.
func (b *Batch) Prepared() (x any, current bool) { return b.prepared, b.current }

// Reset takes all calls out.
func (b *Batch) Reset() {
	clear(b.calls) // lets go of what they point to
	b.calls, b.current = b.calls[:0], false
}

// Append appends calls as they are.
func (b *Batch) Append(calls ...Call) {
	for i := range calls {
		*b.next() = calls[i]
	}
}

// next is a new call at the end, empty.
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

// MemsetD8Async appends the filling of count bytes.
func (b *Batch) MemsetD8Async(dst DevicePtr, value uint8, count uintptr, stream Stream) {
	*b.next() = Call{Op: OpMemsetD8Async, Dst: dst, Value: uint32(value), Bytes: count, Stream: stream}
}

// MemsetD16Async appends the filling of count 16-bit words.
func (b *Batch) MemsetD16Async(dst DevicePtr, value uint16, count uintptr, stream Stream) {
	*b.next() = Call{Op: OpMemsetD16Async, Dst: dst, Value: uint32(value), Bytes: count, Stream: stream}
}

// MemsetD32Async appends the filling of count 32-bit words.
func (b *Batch) MemsetD32Async(dst DevicePtr, value uint32, count uintptr, stream Stream) {
	*b.next() = Call{Op: OpMemsetD32Async, Dst: dst, Value: value, Bytes: count, Stream: stream}
}

// LaunchKernel appends a launch. params must not change before the batch is
// submitted.
func (b *Batch) LaunchKernel(f Function, grid, block Dim3, sharedMemBytes uint32, stream Stream, params []byte) {
	*b.next() = Call{Op: OpLaunchKernel, Function: f, Grid: grid, Block: block, Shared: sharedMemBytes, Stream: stream, Params: params}
}

// EventRecord appends the recording of an event.
func (b *Batch) EventRecord(event Event, stream Stream) {
	*b.next() = Call{Op: OpEventRecord, Event: event, Stream: stream}
}

// StreamWaitEvent appends a wait of a stream for an event.
func (b *Batch) StreamWaitEvent(stream Stream, event Event) {
	*b.next() = Call{Op: OpStreamWaitEvent, Event: event, Stream: stream}
}

// Do makes the calls of b one by one: a Submit for drivers that gain nothing
// from having them together.
func (b *Batch) Do(d Driver, ctx Context) (done int, err error) {
	for i := range b.calls {
		if err := b.calls[i].Do(d, ctx); err != nil {
			return i, err
		}
	}
	return len(b.calls), nil
}

// Do makes one call.
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
