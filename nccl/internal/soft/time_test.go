package soft

import (
	"fmt"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/nccl/internal/backend"
)

// TestStartsPeers: a rank that waits starts the queued operations of the others, also if the program waits
// for that rank alone. The other stream is asked all the time, so that the driver is never idle and starts
// nothing by itself.
func TestStartsPeers(t *testing.T) {
	for _, schedule := range schedules {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/late=%v", schedule[:4], late), func(t *testing.T) {
				w := newWorld(t, 3, schedule, func(c *backend.Config) { c.Timeout = time.Second })
				idle, err := w.d.StreamCreate(w.ranks[0].ctx, cu.StreamNonBlocking)
				w.ok(err)
				done := make(chan error)
				var group []backend.Item
				for _, r := range w.ranks {
					group = append(group, r.item(r.buffer(sum100)))
				}
				if late {
					w.ok(Library{}.Submit(group[:1]))
				} else {
					w.ok(Library{}.Submit(group))
				}
				go func() { done <- w.d.StreamSynchronize(w.ranks[0].ctx, w.ranks[0].stream) }()
				if late {
					time.Sleep(20 * time.Millisecond)
					w.ok(Library{}.Submit(group[1:]))
				}
				for {
					select {
					case err := <-done:
						w.ok(err)
						w.ok(w.ranks[0].comm.Err())
						return
					case <-time.After(time.Millisecond):
						w.ok(w.d.StreamQuery(w.ranks[0].ctx, idle))
					}
				}
			})
		}
	}
}

// ends keeps the start and the end of operations by stream.
type ends struct{ by map[cu.Stream]*cu.Operation }

func (e *ends) Queued(uint64) {}
func (e *ends) Ended(o *cu.Operation) {
	if o.Kernel != "" {
		e.by[o.Stream] = o
	}
}

// TestTime: all ranks end at the same virtual time, the predicted time after the start of the last one. The times are
// the same under all schedules.
func TestTime(t *testing.T) {
	var first [3]time.Duration
	for k, schedule := range schedules {
		w := newWorld(t, 3, schedule, nil)
		e := &ends{by: map[cu.Stream]*cu.Operation{}}
		last := w.ranks[2]
		big, err := w.d.MemAlloc(last.ctx, 32<<20)
		w.ok(err)
		call := backend.Call{Kind: backend.AllReduce, Type: backend.Float32, Count: 3000}
		var group []backend.Item
		for _, r := range w.ranks {
			p := uint64(r.alloc(make([]byte, 12000)))
			call.Send, call.Recv = p, p
			group = append(group, r.item(call))
			w.ok(w.d.CtxSynchronize(r.ctx))
		}
		w.d.Now()
		w.d.Observe(e)
		w.ok(w.d.MemsetD8Async(last.ctx, big, 7, 32<<20, last.stream)) // the last rank begins later
		w.ok(Library{}.Submit(group))
		for _, r := range w.ranks {
			w.ok(w.d.StreamSynchronize(r.ctx, r.stream))
		}
		w.d.Now()
		w.d.Observe(nil)
		want := time.Duration(4 * w.d.Machine().Copy.Peer.Ns(4000))
		start := e.by[last.stream].Start
		for i, r := range w.ranks {
			o := e.by[r.stream]
			if took := o.End - start; took < want-1 || took > want+1 {
				t.Errorf("%s: rank %d ends %v after the start of the last rank, want %v", schedule, i, took, want)
			}
			if wait := start - o.Start; i < 2 && wait < time.Microsecond {
				t.Errorf("%s: rank %d began only %v before the last one", schedule, i, wait)
			}
			if at := o.End - e.by[w.ranks[0].stream].Start; k == 0 {
				first[i] = at
			} else if at != first[i] {
				t.Errorf("%s: rank %d ends at %v, under eager at %v", schedule, i, at, first[i])
			}
		}
	}
}

// TestPrices: the model of each call, with 8 ranks of 1 MiB.
func TestPrices(t *testing.T) {
	w := newWorld(t, 8, "eager", nil)
	peer := func(n float64) float64 { return w.d.Machine().Copy.Peer.Ns(n) }
	const mib = 1 << 20
	for kind, want := range map[backend.Kind]float64{
		backend.AllReduce: 14 * peer(mib/8), backend.ReduceScatter: 7 * peer(mib), backend.AllGather: 7 * peer(mib),
		backend.Broadcast: peer(mib) + 6*peer(0), backend.Reduce: peer(mib) + 6*peer(0),
		backend.AllToAll: 7 * peer(mib), backend.Gather: 7 * peer(mib), backend.Scatter: 7 * peer(mib), backend.Send: peer(mib),
	} {
		k := &call{Call: backend.Call{Kind: kind, Type: backend.Uint8, Count: mib, Peer: 1}, comm: w.ranks[0].comm.(*comm)}
		if got := k.ns(); got != want {
			t.Errorf("%v: %v ns, want %v", kind, got, want)
		}
	}
}
