package soft

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/nccl/internal/backend"
)

// trial is a call of all ranks.
type trial struct {
	backend.Call
	inPlace bool
}

func (x *trial) String() string {
	place := "out of place"
	if x.inPlace {
		place = "in place"
	}
	return fmt.Sprintf("%v of %d %v, %v, root %d, %s", x.Kind, x.Count, x.Type, x.Op.Code, x.Peer, place)
}

// trials lists calls of all kinds, types and operations, in place and out of place, for n ranks.
func trials(n int, counts []int) []trial {
	var list []trial
	add := func(c backend.Call) {
		for _, inPlace := range []bool{false, true} {
			if inPlace && (c.Kind == backend.AllToAll || c.Kind == backend.Send) {
				continue
			}
			list = append(list, trial{c, inPlace})
		}
	}
	for _, count := range counts {
		for t := backend.Int8; t <= backend.Float8E5M2; t++ {
			for kind := backend.AllReduce; kind <= backend.Send; kind++ {
				ops := []backend.OpCode{backend.Sum}
				if kind.Reduces() {
					ops = []backend.OpCode{backend.Sum, backend.Prod, backend.Max, backend.Min, backend.Avg, backend.PreMulSum}
				}
				for _, op := range ops {
					add(backend.Call{Kind: kind, Type: t, Op: backend.Op{Code: op}, Count: count, Peer: (len(list) + count) % n})
				}
			}
		}
	}
	return list
}

// arena is the memory of a rank for many trials.
type arena struct {
	send, recv cu.DevicePtr
	bytes      int
}

// run makes the call of a trial, and compares what the rank has received with the reference. All bytes
// of the destination are poisoned before, and those behind it must stay.
func (x *trial) run(r *rank, i, n int, m *arena) error {
	c := x.Call
	if c.Kind.Reduces() && c.Op.Code == backend.PreMulSum {
		op, err := r.comm.PreMulSum(c.Type, factor(c.Type, i))
		if err != nil {
			return err
		}
		defer r.comm.DestroyOp(op)
		c.Op = op
	}
	in := input(c.Type, i, sendCount(&c, n))
	sends, receives := c.Kind.Parts(i == c.Peer)
	if c.Kind == backend.Send { // around the ring, each with a receive
		receives = true
	}
	d, size := r.w.d, c.Type.Size()
	c.Send, c.Recv = uint64(m.send), uint64(m.recv)
	if x.inPlace {
		switch part := uint64(i * c.Count * size); c.Kind {
		case backend.AllGather, backend.Gather:
			c.Recv = c.Send
			if receives {
				c.Send += part
			}
		case backend.ReduceScatter, backend.Scatter:
			c.Recv = c.Send
			if sends {
				c.Recv += part
			}
		default:
			c.Recv = c.Send
		}
	}
	const tail = 64
	ref := c
	if c.Kind == backend.Send {
		ref.Kind = backend.Recv
	}
	var want []byte
	if receives {
		want = plain(&ref, n, i)
	}
	var all int
	if receives {
		all = len(want)
		poison := bytes.Repeat([]byte{0xa5}, all+tail)
		if err := r.upload(cu.DevicePtr(c.Recv), poison); err != nil {
			return err
		}
	}
	if sends {
		if err := r.upload(cu.DevicePtr(c.Send), in); err != nil {
			return err
		}
	}
	behind, err := r.download(cu.DevicePtr(c.Recv)+cu.DevicePtr(all), tail)
	if err != nil {
		return err
	}
	group := []backend.Item{r.item(c)}
	if c.Kind == backend.Send {
		get := c
		get.Kind, get.Peer, get.Send = backend.Recv, (i+n-1)%n, 0
		group[0].Call.Peer, group[0].Call.Recv = (i+1)%n, 0
		group = append(group, r.item(get))
	}
	if !receives {
		group[0].Call.Recv = 0
	}
	if !sends {
		group[0].Call.Send = 0
	}
	if err := (Library{}).Submit(group); err != nil {
		return err
	}
	if err := d.StreamSynchronize(r.ctx, r.stream); err != nil {
		return err
	}
	if err := r.comm.Err(); err != nil {
		return err
	}
	got, err := r.download(cu.DevicePtr(c.Recv), all+tail)
	if err != nil {
		return err
	}
	if j := firstDifference(got[:all], want); j >= 0 && receives {
		return fmt.Errorf("%v, %d ranks: byte %d of %d is %#x, want %#x", x, n, j, len(want), got[j:min(j+8, all)], want[j:min(j+8, all)])
	}
	if !bytes.Equal(got[all:], behind) {
		return fmt.Errorf("%v, %d ranks: the bytes behind the %d of the result have changed", x, n, all)
	}
	return nil
}

func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// draw returns a sample of trials: all in the long form. Race builds have fewer, also in the long form.
func draw(t *testing.T, list []trial, few int) []trial {
	if racebuild.On {
		few /= 5
		list = spread(list, len(list))
	}
	return sample.Of(t, list, few)
}

// spread returns as many trials, of all kinds and types.
func spread(list []trial, many int) (some []trial) {
	if racebuild.On {
		many /= 10
	}
	for i := range many {
		some = append(some, list[i*len(list)/many])
	}
	return some
}

// TestAll: all collectives, for all types and operations, in place and out of place, on 2, 3 and 8
// devices, under all schedules, have the bits of the reference.
func TestAll(t *testing.T) {
	for _, n := range []int{2, 3, 8} {
		for _, schedule := range schedules {
			t.Run(fmt.Sprintf("ranks=%d/%s", n, schedule[:4]), func(t *testing.T) {
				w := newWorld(t, n, schedule, nil)
				list := draw(t, trials(n, []int{1, 7, 1000}), 160/n)
				w.tryAll(list, 8*n*1000+100)
				t.Log(len(list), "trials")
			})
		}
	}
}

// tryAll runs trials on all ranks.
func (w *world) tryAll(list []trial, most int) {
	w.t.Helper()
	w.each(func(i int, r *rank) error {
		m := &arena{send: r.alloc(make([]byte, most)), recv: r.alloc(make([]byte, most)), bytes: most}
		for _, x := range list {
			if err := x.run(r, i, len(w.ranks), m); err != nil {
				r.comm.Abort() // the others end, too
				return err
			}
		}
		return nil
	})
}

// TestKindsInOneGroup: a group of one goroutine for all ranks, with calls of all kinds in one stream each,
// runs as one operation of each rank. The sends and receives stand in an order that would wait
// for ever one by one.
func TestKindsInOneGroup(t *testing.T) {
	for _, schedule := range schedules {
		t.Run(schedule[:4], func(t *testing.T) {
			const n, count = 3, 5
			w := newWorld(t, n, schedule, nil)
			var group []backend.Item
			outs := make([][]cu.DevicePtr, n)
			for i, r := range w.ranks {
				in := r.alloc(input(backend.Int32, i, count))
				out := func() cu.DevicePtr {
					p := r.alloc(make([]byte, 4*count))
					outs[i] = append(outs[i], p)
					return p
				}
				call := backend.Call{Type: backend.Int32, Count: count, Send: uint64(in)}
				send, recv, self, own := call, call, call, call
				send.Kind, send.Peer = backend.Send, (i+1)%n
				recv.Kind, recv.Peer, recv.Send, recv.Recv = backend.Recv, (i+n-1)%n, 0, uint64(out())
				self.Kind, self.Peer = backend.Send, i
				own.Kind, own.Peer, own.Send, own.Recv = backend.Recv, i, 0, uint64(out())
				call.Kind, call.Recv = backend.AllReduce, uint64(out())
				group = append(group, r.item(recv), r.item(send), r.item(self), r.item(own), r.item(call))
			}
			w.ok(Library{}.Submit(group))
			for i, r := range w.ranks {
				want := [][]byte{
					input(backend.Int32, (i+n-1)%n, count), input(backend.Int32, i, count),
					plain(&backend.Call{Kind: backend.AllReduce, Type: backend.Int32, Count: count}, n, i),
				}
				for j, p := range outs[i] {
					if got := r.read(p, 4*count); !slices.Equal(got, want[j]) {
						t.Errorf("rank %d: result %d is %x, want %x", i, j, got, want[j])
					}
				}
				w.ok(r.comm.Err())
			}
		})
	}
}

// TestManyStreams: calls of one communicator in several streams of each rank, and of a second communicator beside it,
// do not wait for each other and do not mix up their data.
func TestManyStreams(t *testing.T) {
	const n, streams, calls, count = 3, 4, 40, 33
	for _, schedule := range schedules {
		t.Run(schedule[:4], func(t *testing.T) {
			w := newWorld(t, n, schedule, nil)
			first := make([]backend.Comm, n)
			for i, r := range w.ranks {
				first[i] = r.comm
			}
			w.openComms("second", nil)
			w.each(func(i int, r *rank) error {
				var list []cu.Stream
				for range streams {
					s, err := w.d.StreamCreate(r.ctx, cu.StreamNonBlocking)
					if err != nil {
						return err
					}
					list = append(list, s)
				}
				in := make([]int32, calls*count)
				for j := range in {
					in[j] = int32((i + 1) * j)
				}
				p := r.alloc(bytesOf(in))
				for k := range calls {
					at := uint64(p) + uint64(4*k*count)
					c := backend.Call{Kind: backend.AllReduce, Type: backend.Int32, Count: count, Send: at, Recv: at}
					x := backend.Item{Comm: first[i], Stream: list[k%streams], Call: c}
					if k%3 == 0 {
						x.Comm = r.comm
					}
					if err := (Library{}).Submit([]backend.Item{x}); err != nil {
						return err
					}
				}
				for _, s := range list {
					if err := w.d.StreamSynchronize(r.ctx, s); err != nil {
						return err
					}
				}
				got := elements[int32](r.read(p, 4*len(in)))
				for j, x := range got {
					if x != int32(6*j) {
						return fmt.Errorf("element %d is %d, want %d", j, x, 6*j)
					}
				}
				return errors.Join(first[i].Close(t.Context()), r.comm.Close(t.Context()))
			})
		})
	}
}
