package soft

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/nccl/internal/backend"
	"github.com/ferrygpu/ferry/nccl/internal/rendezvous"
	"github.com/ferrygpu/ferry/softgpu"
)

// buffer returns a call's memory on a rank: 4 KiB at both addresses.
func (r *rank) buffer(c backend.Call) backend.Call {
	c.Send, c.Recv = uint64(r.alloc(make([]byte, 4096))), uint64(r.alloc(make([]byte, 4096)))
	return c
}

var sum100 = backend.Call{Kind: backend.AllReduce, Type: backend.Float32, Count: 100}

// failsWith waits for the streams of all ranks, and fails unless each communicator has an error with all the
// texts. Then memory can be freed, and the device works.
func (w *world) failsWith(texts ...string) {
	w.t.Helper()
	for i, r := range w.ranks {
		w.ok(w.d.StreamSynchronize(r.ctx, r.stream))
		err := r.comm.Err()
		for _, text := range texts {
			if err == nil || !strings.Contains(err.Error(), text) {
				w.t.Errorf("rank %d: got %v, want an error with %q", i, err, text)
			}
		}
		if err := r.submit(r.buffer(sum100)); err == nil {
			w.t.Errorf("rank %d: a call after the error is not refused", i)
		}
		p, err := w.d.MemAlloc(r.ctx, 16)
		w.ok(err)
		w.ok(w.d.MemFree(r.ctx, p))
		w.ok(r.comm.Abort())
		w.ok(r.comm.Abort())
	}
}

// TestWrongCalls: rank 1 of 3 calls something else. All ranks get an error with the number of the call, both
// ranks and both calls.
func TestWrongCalls(t *testing.T) {
	with := func(change func(*backend.Call)) backend.Call {
		c := sum100
		change(&c)
		return c
	}
	root := with(func(c *backend.Call) { c.Kind, c.Peer = backend.Broadcast, 0 })
	for _, x := range []struct {
		name  string
		right []backend.Call
		wrong []backend.Call
		texts []string
	}{
		{"count", []backend.Call{sum100, sum100}, []backend.Call{sum100, with(func(c *backend.Call) { c.Count = 99 })},
			[]string{`communicator "dp", call 2: rank `, "all-reduce of 100 float32 (sum)", "rank 1 calls all-reduce of 99 float32 (sum)"}},
		{"type", []backend.Call{sum100}, []backend.Call{with(func(c *backend.Call) { c.Type = backend.Int32 })},
			[]string{"call 1: ", "rank 1 calls all-reduce of 100 int32 (sum)"}},
		{"operation", []backend.Call{sum100}, []backend.Call{with(func(c *backend.Call) { c.Op.Code = backend.Max })},
			[]string{"all-reduce of 100 float32 (sum)", "rank 1 calls all-reduce of 100 float32 (maximum)"}},
		{"root", []backend.Call{root}, []backend.Call{with(func(c *backend.Call) { c.Kind, c.Peer = backend.Broadcast, 2 })},
			[]string{"broadcast of 100 float32 from rank 0", "rank 1 calls broadcast of 100 float32 from rank 2"}},
		{"order", []backend.Call{sum100, root}, []backend.Call{root, sum100},
			[]string{"call 1: ", "all-reduce of 100 float32 (sum)", "rank 1 calls broadcast of 100 float32 from rank 0"}},
	} {
		for _, schedule := range schedules {
			t.Run(x.name+"/"+schedule[:4], func(t *testing.T) {
				w := newWorld(t, 3, schedule, nil)
				w.each(func(i int, r *rank) error {
					calls := x.right
					if i == 1 {
						calls = x.wrong
					}
					for _, c := range calls {
						if err := r.submit(r.buffer(c)); err != nil && r.comm.Err() == nil {
							return err
						}
					}
					return nil
				})
				w.failsWith(x.texts...)
			})
		}
	}
}

// TestWrongMessage: a receive of another count than the send.
func TestWrongMessage(t *testing.T) {
	w := newWorld(t, 2, "eager", nil)
	send, recv := sum100, sum100
	send.Kind, send.Peer = backend.Send, 1
	recv.Kind, recv.Peer, recv.Count = backend.Recv, 0, 101
	w.ok(w.ranks[0].submit(w.ranks[0].buffer(send)))
	w.ranks[1].submit(w.ranks[1].buffer(recv))
	w.failsWith(`message 1 from rank 0 to rank 1: rank 0 calls send of 100 float32 to rank 1, rank 1 calls receive of 101 float32 from rank 0`)
}

// TestAbsent: rank 2 of 3 makes the first call and not the second. The others find out after their timeout.
func TestAbsent(t *testing.T) {
	for _, schedule := range schedules {
		t.Run(schedule[:4], func(t *testing.T) {
			w := newWorld(t, 3, schedule, func(c *backend.Config) { c.Timeout = 300 * time.Millisecond })
			w.each(func(i int, r *rank) error {
				if err := r.submit(r.buffer(sum100)); err != nil || i == 2 {
					return err
				}
				c := sum100
				c.Op.Code = backend.Max
				if err := r.submit(r.buffer(c)); err != nil {
					return err
				}
				return w.d.StreamSynchronize(r.ctx, r.stream)
			})
			w.failsWith(`communicator "dp", call 2 (all-reduce of 100 float32 (maximum)): ranks 0 and 1 waited for 300ms; ` +
				"rank 2 has not called: its last call was call 1, all-reduce of 100 float32 (sum)")
		})
	}
}

// TestBlocked: a rank has called, but its stream waits for something else.
func TestBlocked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, "eager", func(c *backend.Config) { c.Timeout = 150 * time.Millisecond })
	open := make(chan struct{})
	w.ok(w.d.LaunchHostFunc(w.ranks[1].ctx, w.ranks[1].stream, func() { <-open }))
	for _, r := range w.ranks {
		w.ok(r.submit(r.buffer(sum100)))
	}
	w.ok(w.d.StreamSynchronize(w.ranks[0].ctx, w.ranks[0].stream))
	close(open)
	w.failsWith("rank 0 waited for 150ms; rank 1 has called, but its stream has not come to the call")
}

// TestNeverCalled: a rank that never made a call is named as such.
func TestNeverCalled(t *testing.T) {
	w := newWorld(t, 2, "eager", func(c *backend.Config) { c.Timeout = 50 * time.Millisecond })
	w.ok(w.ranks[0].submit(w.ranks[0].buffer(sum100)))
	w.failsWith("rank 0 waited for 50ms; rank 1 has not called: it has made no call")
}

// TestClosedBefore: a call for which a rank cannot come any more, because it has closed the communicator, fails at once,
// whichever is first.
func TestClosedBefore(t *testing.T) {
	for _, callFirst := range []bool{false, true} {
		w := newWorld(t, 2, "eager", func(c *backend.Config) { c.Timeout = time.Minute })
		r := w.ranks[0]
		if callFirst {
			w.ok(r.submit(r.buffer(sum100)))
		}
		w.ok(w.ranks[1].comm.Close(t.Context()))
		if !callFirst {
			w.ok(r.submit(r.buffer(sum100)))
		}
		w.ok(w.d.StreamSynchronize(r.ctx, r.stream))
		const text = "call 1: rank 0 calls all-reduce of 100 float32 (sum); rank 1 has not called, and has closed the communicator"
		if err := r.comm.Err(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want an error with %q", err, text)
		}
	}
}

// TestAbort: an abort ends operations that wait, of all ranks. Operations that have not begun end, too.
func TestAbort(t *testing.T) {
	for _, schedule := range schedules {
		t.Run(schedule[:4], func(t *testing.T) {
			w := newWorld(t, 3, schedule, nil)
			for _, r := range w.ranks[:2] {
				for range 3 {
					w.ok(r.submit(r.buffer(sum100)))
				}
			}
			time.Sleep(10 * time.Millisecond)
			began := time.Now()
			w.ok(w.ranks[1].comm.Abort())
			if took := time.Since(began); took > time.Second {
				t.Errorf("Abort took %v", took)
			}
			for _, r := range w.ranks {
				w.ok(w.d.StreamSynchronize(r.ctx, r.stream))
			}
			for _, i := range []int{0, 2} {
				if err := w.ranks[i].comm.Err(); err == nil || err.Error() != `rank 1 has aborted communicator "dp"` {
					t.Errorf("rank %d: %v", i, err)
				}
			}
		})
	}
}

// TestClose: Close starts queued operations and waits for them. If its context ends before, it aborts.
func TestClose(t *testing.T) {
	for _, schedule := range schedules {
		t.Run(schedule[:4], func(t *testing.T) {
			w := newWorld(t, 2, schedule, nil)
			w.each(func(i int, r *rank) error {
				c := r.buffer(sum100)
				if err := r.upload(cu.DevicePtr(c.Send), bytesOf([]float32{1, 2, 3})); err != nil {
					return err
				}
				if err := r.submit(c); err != nil {
					return err
				}
				if err := r.comm.Close(t.Context()); err != nil {
					return err
				}
				if got := elements[float32](r.read(cu.DevicePtr(c.Recv), 12)); got[2] != 6 {
					t.Errorf("rank %d: got %v, want 2 4 6", i, got)
				}
				if err := r.submit(c); err == nil || !strings.Contains(err.Error(), `communicator "dp" is closed`) {
					t.Errorf("a call after Close: %v", err)
				}
				return r.comm.Close(t.Context())
			})
			w = newWorld(t, 2, schedule, nil)
			r := w.ranks[0]
			w.ok(r.submit(r.buffer(sum100)))
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if err := r.comm.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "all-reduce of 100 float32 (sum) waits") {
				t.Errorf("Close of a call that waits: %v", err)
			}
			w.ok(w.d.StreamSynchronize(r.ctx, r.stream))
		})
	}
}

// TestStopped: an operation that waits for a rank ends when its context is destroyed, at an interrupt, and at the
// limit of kernels.
func TestStopped(t *testing.T) {
	t.Parallel()
	open := func(limit time.Duration) (*world, backend.Comm, cu.Context, cu.Stream) {
		d, err := softgpu.Open(softgpu.Options{Devices: 2, KernelLimit: limit})
		if err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, d: d}
		w.ok(d.Init(0))
		ctx, err := d.CtxCreate(0, 0)
		w.ok(err)
		other, err := d.CtxCreate(0, 1)
		w.ok(err)
		stream, err := d.StreamCreate(ctx, 0)
		w.ok(err)
		w.ranks = []*rank{{w: w, ctx: ctx, stream: stream}, {w: w, ctx: other}}
		places := rendezvous.Local(2)
		w.each(func(i int, r *rank) (err error) {
			r.comm, err = Library{}.Open(t.Context(), &backend.Config{Driver: d, Context: r.ctx, Device: cu.Device(i), Session: places[i], Name: "dp"})
			return err
		})
		w.ok(w.ranks[0].submit(w.ranks[0].buffer(sum100)))
		return w, w.ranks[0].comm, ctx, stream
	}
	failed := func(c backend.Comm, text string) {
		t.Helper()
		if err := c.Err(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want an error with %q", err, text)
		}
	}
	w, comm, ctx, _ := open(0)
	w.ok(w.d.CtxDestroy(ctx))
	failed(comm, "the context was destroyed")

	w, comm, ctx, stream := open(0)
	time.AfterFunc(10*time.Millisecond, func() { w.d.Interrupt(errors.New("enough")) })
	if err := w.d.StreamSynchronize(ctx, stream); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("after an interrupt: %v", err)
	}
	failed(comm, "enough")

	w, comm, ctx, stream = open(20 * time.Millisecond)
	if err := w.d.StreamSynchronize(ctx, stream); !errors.Is(err, cu.ErrorLaunchTimeout) || !strings.Contains(err.Error(), "longer than the limit of 20ms") {
		t.Errorf("after the limit: %v", err)
	}
	failed(comm, "time limit")
}

// TestRefused: what can be refused is refused before anything is queued, and the communicator works on.
func TestRefused(t *testing.T) {
	w := newWorld(t, 2, "eager", nil)
	r := w.ranks[0]
	good := r.buffer(sum100)
	foreign := w.ranks[1].buffer(sum100)
	host := make([]float32, 100)
	freed := r.alloc(make([]byte, 4096))
	w.ok(w.d.MemFree(r.ctx, freed))
	for _, x := range []struct {
		name   string
		change func(c *backend.Item)
		text   string
	}{
		{"other device", func(c *backend.Item) { c.Call.Send = foreign.Send }, "is memory of device 1, and the stream's context, of device 0, has no peer access to it"},
		{"pageable", func(c *backend.Item) { c.Call.Recv = hostAddress(host) }, "is not an address of this context"},
		{"freed", func(c *backend.Item) { c.Call.Send = uint64(freed) }, "freed"},
		{"short", func(c *backend.Item) { c.Call.SendBytes = 396 }, "it needs 400 bytes to send and 400 to receive into, and has 396"},
		{"past the end", func(c *backend.Item) { c.Call.Send += 4000 }, "past the end of"},
		{"rank", func(c *backend.Item) { c.Call.Kind, c.Call.Peer = backend.Broadcast, 2 }, "there is no rank 2: the communicator has 2"},
		{"stream", func(c *backend.Item) { c.Stream = w.ranks[1].stream }, "the stream belongs to another context"},
		{"address", func(c *backend.Item) { c.Call.Recv = 0 }, "it lacks an address"},
		{"scaled sum", func(c *backend.Item) { c.Call.Op = backend.Op{Code: backend.PreMulSum, Handle: 7} }, "scaled sum 7 is none of this communicator"},
	} {
		item := r.item(good)
		x.change(&item)
		err := Library{}.Submit([]backend.Item{r.item(good), item})
		if err == nil || !strings.Contains(err.Error(), x.text) {
			t.Errorf("%s: got %v, want an error with %q", x.name, err, x.text)
		}
	}
	w.ok(w.d.StreamBeginCapture(r.ctx, r.stream, cu.StreamCaptureModeRelaxed))
	if err := r.submit(good); !errors.Is(err, cu.ErrorStreamCaptureUnsupported) {
		t.Errorf("in a capture: %v", err)
	}
	w.d.StreamEndCapture(r.ctx, r.stream)
	w.each(func(i int, r *rank) error {
		c := r.buffer(sum100)
		if err := r.submit(c); err != nil {
			return err
		}
		r.read(cu.DevicePtr(c.Recv), 4)
		return r.comm.Err()
	})
}

// TestOneDevice: two ranks on one device are refused, as NCCL does.
func TestOneDevice(t *testing.T) {
	d, err := softgpu.Open(softgpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, d: d, ranks: make([]*rank, 2)}
	w.ok(d.Init(0))
	ctx, err := d.DevicePrimaryCtxRetain(0)
	w.ok(err)
	places := rendezvous.Local(2)
	w.each(func(i int, _ *rank) error {
		_, err := Library{}.Open(t.Context(), &backend.Config{Driver: d, Context: ctx, Session: places[i], Name: "dp"})
		if err == nil || !strings.Contains(err.Error(), "ranks 0 and 1 use the same GPU, device 0: each rank needs its own") {
			t.Errorf("got %v", err)
		}
		return nil
	})
}
