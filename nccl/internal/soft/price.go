package soft

import (
	"time"

	"github.com/ferrygpu/ferry/nccl/internal/backend"
)

// Virtual time is predicted by a model, from the curve of copies between two devices of the profile
// (copy.peer). Profiles without peer access have that curve, too: it is the time of a copy through host
// memory. Ranks of other processes count as devices of the same machine.
//
//	all-reduce                  2(n-1) steps of a part, bytes/n
//	reduce-scatter, all-gather  n-1 steps of a part
//	reduce, broadcast           all bytes, and n-2 empty steps: the ring passes them on as they come
//	all-to-all                  n-1 parts out of each device
//	gather, scatter             n-1 parts into or out of the root
//	send, receive               the bytes; in a group the longer of all sent and all received
//
// One rank alone has a copy within the device.

// price returns the predicted time of the calls of one operation.
func (b *batch) price() time.Duration {
	var calls, out, in float64
	for _, k := range b.calls {
		switch ns := k.ns(); k.Kind {
		case backend.Send:
			out += ns
		case backend.Recv:
			in += ns
		default:
			calls += ns
		}
	}
	return time.Duration(calls + max(out, in))
}

// ns returns the predicted time of a call that is alone.
func (k *call) ns() float64 {
	copies := &k.comm.driver.Machine().Copy
	n, part := k.comm.size, float64(k.Count*k.Type.Size())
	step := func(steps int, bytes float64) float64 { return float64(steps) * copies.Peer.Ns(bytes) }
	switch {
	case n == 1 || k.Kind.Pair() && k.Peer == k.comm.rank:
		return copies.DtoD.Ns(part)
	case k.Kind == backend.AllReduce:
		return step(2*(n-1), part/float64(n))
	case k.Kind == backend.Reduce || k.Kind == backend.Broadcast:
		return step(1, part) + step(n-2, 0)
	case k.Kind.Pair():
		return step(1, part)
	}
	return step(n-1, part)
}
