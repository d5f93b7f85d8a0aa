package nccl

import (
	"math"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/bridge"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/nccl/internal/backend"
)

// Caller makes calls of a rank: a [*Comm] at once, a [*Member] when its [Group] is submitted.
type Caller interface {
	make(f *frame) error // f has the call
	comm() *Comm         // nil if there is none
	refused(error) error // returns the error
}

// pending is a call before it is queued.
type pending struct {
	c          *Comm
	stream     *ferry.Stream
	call       backend.Call
	op         Op
	send, recv bridge.Piece
}

// AllReduce combines src of all ranks element by element, and leaves the result in dst of every rank
// (ncclAllReduce). dst and src have the same length. In place, they are the same memory.
//
// On the software GPU the reduction goes around the ring of ranks, in an order that depends on the
// length and the number of ranks alone, so that floats have the same bits in every run.
//
// Like the other calls it returns when the work is queued in s, and is safe for concurrent use. It
// allocates nothing on hardware.
//
// https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/colls.html#ncclallreduce
func AllReduce[T Number](c Caller, s *ferry.Stream, dst, src ferry.Memory[T], op Op) error {
	return queue(c, s, backend.AllReduce, dst, src, op, 0)
}

// Broadcast copies src of the rank root to dst of every rank (ncclBroadcast). They have the same
// length. The other ranks may give nil for src. In place, the root gives the same memory
// twice. Elements of types that are no Number are copied as bytes.
//
// https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/colls.html#ncclbroadcast
func Broadcast[T any](c Caller, s *ferry.Stream, dst, src ferry.Memory[T], root int) error {
	return queue(c, s, backend.Broadcast, dst, src, 0, root)
}

// Reduce is [AllReduce] whose result only the rank root gets (ncclReduce). The other ranks may give
// nil for dst.
//
// https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/colls.html#ncclreduce
func Reduce[T Number](c Caller, s *ferry.Stream, dst, src ferry.Memory[T], op Op, root int) error {
	return queue(c, s, backend.Reduce, dst, src, op, root)
}

// AllGather collects src of all ranks, in the order of ranks, in dst of every rank
// (ncclAllGather). dst is as long as src of all ranks together. In place, src is the part of dst
// that is this rank's.
//
// https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/colls.html#ncclallgather
func AllGather[T any](c Caller, s *ferry.Stream, dst, src ferry.Memory[T]) error {
	return queue(c, s, backend.AllGather, dst, src, 0, 0)
}

// ReduceScatter combines src of all ranks element by element, and leaves in dst of each rank its
// part of the result (ncclReduceScatter). src is as long as dst of all ranks together. In place,
// dst is the part of src that is this rank's.
//
// https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/colls.html#ncclreducescatter
func ReduceScatter[T Number](c Caller, s *ferry.Stream, dst, src ferry.Memory[T], op Op) error {
	return queue(c, s, backend.ReduceScatter, dst, src, op, 0)
}

// AllToAll sends part r of src to rank r, and puts what rank r sends into part r of dst
// (ncclAlltoAll). dst and src have the same length, a multiple of the number of ranks. They must
// not overlap.
//
// https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/colls.html#ncclalltoall
func AllToAll[T any](c Caller, s *ferry.Stream, dst, src ferry.Memory[T]) error {
	return queue(c, s, backend.AllToAll, dst, src, 0, 0)
}

// Gather collects src of all ranks, in the order of ranks, in dst of the rank root (ncclGather).
// dst is as long as src of all ranks together. The other ranks may give nil for it. In place, src
// of the root is its part of dst.
//
// https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/colls.html#ncclgather
func Gather[T any](c Caller, s *ferry.Stream, dst, src ferry.Memory[T], root int) error {
	return queue(c, s, backend.Gather, dst, src, 0, root)
}

// Scatter sends part r of src of the rank root to dst of rank r (ncclScatter). src is as long as dst
// of all ranks together. The other ranks may give nil for it. In place, dst of the root is its
// part of src.
//
// https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/colls.html#ncclscatter
func Scatter[T any](c Caller, s *ferry.Stream, dst, src ferry.Memory[T], root int) error {
	return queue(c, s, backend.Scatter, dst, src, 0, root)
}

// Send sends src to the rank peer, which calls [Recv] with as many elements (ncclSend). The stream
// goes on when the peer has received. So two ranks that both send first wait for ever: put
// a send and a receive into one [Group].
//
// https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/p2p.html#ncclsend
func Send[T any](c Caller, s *ferry.Stream, src ferry.Memory[T], peer int) error {
	return queue(c, s, backend.Send, nil, src, 0, peer)
}

// Recv receives into dst what the rank peer sends with [Send] (ncclRecv).
//
// https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api/p2p.html#ncclrecv
func Recv[T any](c Caller, s *ferry.Stream, dst ferry.Memory[T], peer int) error {
	return queue(c, s, backend.Recv, dst, nil, 0, peer)
}

// queue checks a call and makes it.
func queue[T any](caller Caller, s *ferry.Stream, kind backend.Kind, dst, src ferry.Memory[T], op Op, peer int) error {
	if caller == nil || caller.comm() == nil {
		return errNoComm(kind.String())
	}
	f := frames.Get().(*frame)
	defer f.free()
	if err := describe(f.add(), caller.comm(), s, kind, dst, src, op, peer); err != nil {
		return caller.refused(err)
	}
	return caller.make(f)
}

// describe checks a call as far as its own arguments tell, and fills p.
func describe[T any](p *pending, c *Comm, s *ferry.Stream, kind backend.Kind, dst, src ferry.Memory[T], op Op, peer int) error {
	p.c, p.stream, p.op = c, s, op
	p.call = backend.Call{Kind: kind, Peer: peer}
	q := &p.call
	if kind.Rooted() || kind.Pair() {
		if peer < 0 || peer >= c.size {
			return c.refuse(kind, "rank %d is not one of the %d ranks", peer, c.size)
		}
	}
	sends, receives := kind.Parts(c.rank == peer)
	from, to := -1, -1
	if sends {
		if src == nil {
			return c.refuse(kind, "no memory to send given (nil)")
		}
		from, q.SendBytes = src.Len(), src.Size()
		p.send = bridge.Piece{Memory: src}
	}
	if receives {
		if dst == nil {
			return c.refuse(kind, "no memory for the result given (nil)")
		}
		to, q.RecvBytes = dst.Len(), dst.Size()
		p.recv = bridge.Piece{Memory: dst, Written: true}
	}
	count, err := c.count(kind, from, to)
	if err != nil {
		return err
	}
	q.Type, q.Count = typeOf[T](count)
	return nil
}

// count returns the count of a call by how many elements it sends and receives, -1 for none.
func (c *Comm) count(kind backend.Kind, from, to int) (int, error) {
	many, one, verb := from, to, "sent" // the side that has a part for each rank
	switch kind {
	case backend.AllGather, backend.Gather:
		many, one, verb = to, from, "received"
	case backend.ReduceScatter, backend.Scatter:
	case backend.AllToAll:
		if from != to || from%c.size != 0 {
			return 0, c.refuse(kind, "%d elements are sent and %d received: want the same number, a multiple of %d", from, to, c.size)
		}
		return from / c.size, nil
	default:
		if from >= 0 && to >= 0 && from != to {
			return 0, c.refuse(kind, "%d elements are sent and %d received: want the same number", from, to)
		}
		return max(from, to), nil
	}
	if many >= 0 && (one > math.MaxInt/c.size || many != one*c.size) {
		return 0, c.refuse(kind, "%d elements are %s for %d ranks with %d each: want %d times as many", many, verb, c.size, one, c.size)
	}
	return one, nil
}

// refuse returns the error of a call that is refused.
func (c *Comm) refuse(kind backend.Kind, format string, args ...any) error {
	return refusal.Invalid("%v by %v: %s", kind, c, refusal.Invalid(format, args...).(*refusal.Error).Text)
}
