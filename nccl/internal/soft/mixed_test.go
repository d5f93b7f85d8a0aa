package soft

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/nccl/internal/backend"
	"github.com/ferrygpu/ferry/nccl/internal/rendezvous"
	"github.com/ferrygpu/ferry/softgpu"
)

// asProcesses lets ranks count as in processes of n ranks each, so that messages between these go over TCP.
func asProcesses(t *testing.T, n int) {
	old := processOf
	processOf = func(cfg *backend.Config) string { return fmt.Sprint("test ", cfg.Session.Rank()/n) }
	t.Cleanup(func() { processOf = old })
}

// TestMixed: ranks in processes of two each, so that a ring goes through memory and TCP in turn. The bits are those
// of the reference, which are those of ranks in one process.
func TestMixed(t *testing.T) {
	asProcesses(t, 2)
	const n = 4
	for _, schedule := range schedules {
		t.Run(schedule[:4], func(t *testing.T) {
			w := newWorld(t, n, schedule, nil)
			if w.ranks[1].comm.(*comm).hub == w.ranks[2].comm.(*comm).hub {
				t.Fatal("ranks 1 and 2 are in one process")
			}
			w.tryAll(draw(t, trials(n, []int{1, 7, 1000}), 40), 8*n*1000+100)
			w.each(func(_ int, r *rank) error { return r.comm.Close(t.Context()) })
		})
	}
}

// TestMixedWrong: wrong calls and an abort reach the ranks of other processes.
func TestMixedWrong(t *testing.T) {
	asProcesses(t, 1)
	w := newWorld(t, 3, "eager", nil)
	c := sum100
	c.Count = 7
	w.each(func(i int, r *rank) error {
		call := sum100
		if i == 1 {
			call = c
		}
		if err := r.submit(r.buffer(call)); err != nil && r.comm.Err() == nil {
			return err
		}
		return nil
	})
	for _, r := range w.ranks {
		w.ok(w.d.StreamSynchronize(r.ctx, r.stream))
	}
	w.failsWith("rank 1 calls all-reduce of 7 float32 (sum)")

	w = newWorld(t, 3, "eager", nil)
	for _, r := range w.ranks[:2] {
		w.ok(r.submit(r.buffer(sum100)))
	}
	w.ok(w.ranks[1].comm.Abort())
	for _, r := range w.ranks[:2] {
		w.ok(w.d.StreamSynchronize(r.ctx, r.stream))
	}
	if err := w.ranks[0].comm.Err(); err == nil || err.Error() != `rank 1 has aborted communicator "dp"` {
		t.Error(err)
	}
}

// TestTwoMachines: a group of ranks on two software machines of one process. If one machine refuses its part, nothing
// is queued.
func TestTwoMachines(t *testing.T) {
	for _, schedule := range schedules {
		t.Run(schedule[:4], func(t *testing.T) {
			a, b := newWorld(t, 1, schedule, nil), newWorld(t, 1, schedule, nil)
			w := &world{t: t, ranks: []*rank{a.ranks[0], b.ranks[0]}}
			w.openComms("both", nil)
			var group, bad []backend.Item
			var outs []uint64
			for i, r := range w.ranks {
				c := r.buffer(backend.Call{Kind: backend.AllReduce, Type: backend.Uint8, Count: 1})
				w.ok(r.upload(cuPtr(c.Send), []byte{byte(3 + i)}))
				group, outs = append(group, r.item(c)), append(outs, c.Recv)
				c.Recv = uint64(i) * 7
				bad = append(bad, r.item(c))
			}
			if err := (Library{}).Submit([]backend.Item{group[0], bad[1]}); err == nil {
				t.Error("a group with a wrong address was taken")
			}
			w.ok(Library{}.Submit(group))
			for i, r := range w.ranks {
				if got := r.read(cuPtr(outs[i]), 1); got[0] != 7 {
					t.Errorf("rank %d: got %d, want 7", i, got[0])
				}
			}
			w.each(func(_ int, r *rank) error { return r.comm.Close(t.Context()) })
		})
	}
}

// TestLostBefore: when a device is lost before a call in its stream runs, the other ranks get an error at once,
// although the rank then closes the communicator.
func TestLostBefore(t *testing.T) {
	asProcesses(t, 1)
	w, places := &world{t: t}, rendezvous.Local(2)
	drivers := make([]*softgpu.Driver, 2)
	for i := range drivers {
		d, err := softgpu.Open(softgpu.Options{KernelLimit: 50 * time.Millisecond * time.Duration(1+100*(1-i))})
		w.ok(err)
		w.ok(d.Init(0))
		ctx, err := d.DevicePrimaryCtxRetain(0)
		w.ok(err)
		stream, err := d.StreamCreate(ctx, cu.StreamNonBlocking)
		w.ok(err)
		drivers[i] = d
		w.ranks = append(w.ranks, &rank{w: &world{t: t, d: d}, ctx: ctx, stream: stream})
	}
	w.each(func(i int, r *rank) (err error) {
		r.comm, err = Library{}.Open(t.Context(), &backend.Config{Driver: drivers[i], Context: r.ctx, Session: places[i], Name: "dp"})
		return err
	})
	first, last := w.ranks[0], w.ranks[1]
	calls := []backend.Call{first.buffer(sum100), last.buffer(sum100)}
	stuck := func(x *softgpu.Running) (time.Duration, error) {
		<-x.Context().Done()
		return 0, x.Context().Err()
	}
	_, err := drivers[1].Exchange([]*softgpu.Exchange{{Name: "stuck", Context: last.ctx, Stream: last.stream, Run: stuck}})
	w.ok(err)
	w.ok(last.submit(calls[1]))
	w.ok(first.submit(calls[0]))
	w.ok(last.comm.Close(t.Context()))
	select {
	case <-first.comm.(*comm).failed:
	case <-time.After(2 * time.Second):
		t.Error("rank 0 waits")
	}
	for i, r := range w.ranks {
		if err := r.comm.Err(); err == nil || !strings.Contains(err.Error(), "rank 1: its device was lost before the call ran") {
			t.Errorf("rank %d: got %v", i, err)
		}
	}
	w.ok(first.comm.Abort())
}

// TestSplit: ranks 0 and 2 become one communicator in the order of their keys, rank 1 none, rank 3 one alone.
func TestSplit(t *testing.T) {
	w := newWorld(t, 4, "eager", nil)
	colors, keys := []int{0, -1, 0, 1}, []int{5, 0, 2, 0}
	w.each(func(i int, r *rank) error {
		session, err := r.comm.(*comm).session.Split(t.Context(), colors[i], keys[i])
		if err != nil {
			return err
		}
		part, err := r.comm.Split(t.Context(), colors[i], keys[i], session, "part")
		if err != nil || part == nil {
			if i != 1 {
				t.Errorf("rank %d has no part", i)
			}
			return err
		}
		r.comm = part
		c := backend.Call{Kind: backend.AllGather, Type: backend.Uint8, Count: 1}
		c.Send, c.Recv = uint64(r.alloc([]byte{byte(i)})), uint64(r.alloc(make([]byte, 4)))
		if err := r.submit(c); err != nil {
			return err
		}
		want := map[int][]byte{0: {2, 0}, 2: {2, 0}, 3: {3}}[i]
		if got := r.read(cuPtr(c.Recv), len(want)); !bytes.Equal(got, want) {
			t.Errorf("rank %d: got %v, want %v", i, got, want)
		}
		return part.Close(t.Context())
	})
}

// TestStranger: who does not know the secret of a rank gets no connection, and a second connection of a rank
// gets none either.
func TestStranger(t *testing.T) {
	asProcesses(t, 1)
	place := rendezvous.Local(3)[0]
	c := newComm(nil, &backend.Config{Session: place, Name: "dp"})
	cards := []card{{Process: "test 0"}, {Process: "test 1"}, {Process: "test 2"}}
	w, err := newWire(c, cards)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close(false)
	if at := w.card().Addresses; len(at) != 1 || !strings.HasPrefix(at[0], "127.0.0.1:") {
		t.Errorf("it listens at %v, want the loopback interface alone", at)
	}
	dial := func(rank int, secret []byte) (closed bool) {
		conn, err := net.Dial("tcp", w.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		other := &wire{comm: &comm{rank: rank}}
		if err := other.introduce(conn, secret); err != nil {
			return true
		}
		conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		_, err = conn.Read(make([]byte, 1))
		timeout, ok := err.(net.Error)
		return !ok || !timeout.Timeout()
	}
	if !dial(1, make([]byte, 32)) {
		t.Error("a connection without the secret was taken")
	}
	if dial(1, w.secret[:]) {
		t.Error("rank 1 was refused")
	}
	for _, rank := range []int{0, 1, 3} {
		if !dial(rank, w.secret[:]) {
			t.Errorf("rank %d was taken", rank)
		}
	}
	if l := <-w.came; l.rank != 1 || len(w.came) > 0 {
		t.Errorf("rank %d came, and %d more", l.rank, len(w.came))
	}
}

// TestGarbledMessages: nothing that another process sends is trusted.
func TestGarbledMessages(t *testing.T) {
	c := newComm(nil, &backend.Config{Session: rendezvous.Local(2)[0], Name: "dp"})
	notice := notice{kind: backend.AllReduce, count: 3}.encode()
	for _, m := range []*message{
		{from: 1, member: 1, data: notice[:5]},
		{from: 1, member: 0, data: notice},
		{from: 1, member: 7, data: notice},
		{from: 1, member: 1, data: slices.Repeat([]byte{255}, noticeBytes)},
		{from: 1, member: 1, key: key{pair: true, src: 5, dst: 9}, data: notice},
		{from: 1, member: 1, key: key{src: 5, dst: 9}, data: notice},
		{kind: kindData, from: 1, member: 0, data: notice},
		{kind: kindData, from: 1, member: 1, key: key{pair: true, src: 0, dst: 1}},
		{kind: kindData, from: 1, member: 0, key: key{pair: true, src: 1, dst: 1}},
		{kind: kindData, from: 1, member: 0, key: key{pair: true, src: 1, dst: 7}},
	} {
		c.err, c.failed = nil, make(chan struct{})
		c.deliver(m)
		if err := c.Err(); err == nil || !strings.Contains(err.Error(), "a message of rank 1 cannot be read") {
			t.Errorf("%+v: got %v", m, err)
		}
	}
	c.err, c.failed = nil, make(chan struct{})
	for _, n := range []int{0, 3, 5, 8} {
		k := &call{Call: backend.Call{Kind: backend.Recv, Peer: 1, Count: 4, Type: backend.Uint8}, comm: c, key: key{true, 1, 0, uint64(n)}}
		c.deliver(&message{kind: kindData, from: 1, key: k.key, data: make([]byte, n)})
		if out, err := k.algorithm(nil); err == nil || !strings.Contains(err.Error(), "got a wrong message from rank 1: ") {
			t.Errorf("%d bytes for 4: got %v, %v", n, out, err)
		}
	}
}
