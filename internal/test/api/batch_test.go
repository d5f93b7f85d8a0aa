package api

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/kernels"
)

// batchFixture has what the batches of these tests use.
type batchFixture struct {
	stream   *ferry.Stream
	in, out  *ferry.Host[float32]
	vec      *ferry.Device[float32]
	done     *ferry.Event
	add, one *ferry.Kernel
}

const batchFloats = 10_000

func newBatchFixture(t testing.TB, g *ferry.GPU) *batchFixture {
	t.Helper()
	m := must(ferry.Load(g, []byte(kernels.PTX), nil))(t)
	x := &batchFixture{
		stream: must(ferry.NewStream(g, nil))(t),
		in:     must(ferry.AllocHost[float32](g, batchFloats, nil))(t),
		out:    must(ferry.AllocHost[float32](g, batchFloats, nil))(t),
		vec:    must(ferry.Alloc[float32](g, batchFloats))(t),
		done:   must(ferry.NewEvent(g, nil))(t),
		add:    must(m.Kernel("vector_add"))(t),
		one:    must(m.Kernel("increment"))(t),
	}
	t.Cleanup(func() { closeAll(t, x.stream, x.in, x.out, x.vec, x.done, m) })
	return x
}

// queueOn copies in to the device, increments and doubles it there, copies it to out, and
// records done.
func (x *batchFixture) queueOn(q ferry.Queue) error {
	return errors.Join(
		ferry.Copy(q, x.vec, x.in),
		q.Launch(x.one, ferry.Cover(batchFloats, 256), x.vec, uint64(batchFloats)),
		ferry.Fill(q, x.vec.Range(0, 3), 7.5),
		q.Launch(x.add, ferry.Cover(batchFloats, 256), x.vec, x.vec, x.vec, uint64(batchFloats)),
		ferry.Copy(q, x.out, x.vec),
		q.Record(x.done),
	)
}

// TestBatch submits a batch several times with other data. Slice waits for each.
func TestBatch(t *testing.T) {
	x := newBatchFixture(t, openTest(t))
	var b ferry.Batch
	check(t, x.queueOn(&b))
	for round := range 4 {
		in := x.in.Slice()
		for i := range in {
			in[i] = float32(round*1000 + i)
		}
		check(t, x.stream.Submit(&b))
		for i, got := range x.out.Slice() {
			want := 2 * (float32(round*1000+i) + 1)
			if i < 3 {
				want = 15
			}
			if got != want {
				t.Fatalf("round %d: element %d is %v, want %v", round, i, got, want)
			}
		}
		check(t, x.done.Wait(context.Background()))
	}
	if b.Len() != 6 {
		t.Errorf("the batch has %d operations, want 6", b.Len())
	}
	b.Reset()
	clear(x.out.Slice())
	check(t, x.stream.Submit(&b))
	if b.Len() != 0 || x.out.Slice()[5] != 0 {
		t.Error("a batch did something after Reset")
	}
}

// TestBatchInFlight: the buffers of a batch are in flight from Submit on, not before.
func TestBatchInFlight(t *testing.T) {
	x := newBatchFixture(t, openTest(t))
	var b ferry.Batch
	check(t, x.queueOn(&b))
	open := gate(t, x.stream)
	_ = x.out.Slice() // must return although the gate is shut
	check(t, x.stream.Submit(&b))
	if done, err := x.done.Done(); done || err != nil {
		t.Errorf("Done of the event is %v, %v", done, err)
	}
	waits(t, "Slice", open, func() { _ = x.out.Slice() })

	open = gate(t, x.stream)
	check(t, x.stream.Submit(&b))
	waits(t, "Slice of the source", open, func() { _ = x.in.Slice() })
}

// TestBatchRefused: an operation that cannot be queued is an error, and then none of the
// batch is queued.
func TestBatchRefused(t *testing.T) {
	g := openTest(t)
	x := newBatchFixture(t, g)
	closed := must(ferry.Alloc[float32](g, 8))(t)
	closeAll(t, closed)
	pageable := ferry.Pageable(make([]float32, batchFloats))
	for _, c := range []struct {
		name string
		add  func(b *ferry.Batch) error
		want string
	}{
		{"pageable source", func(b *ferry.Batch) error { return ferry.Copy(b, x.vec, pageable) }, "pageable memory"},
		{"pageable destination", func(b *ferry.Batch) error { return ferry.Copy(b, pageable, x.vec) }, "pageable memory"},
		{"fill of pageable memory", func(b *ferry.Batch) error { return ferry.Fill(b, pageable, 1) }, "fill it with a loop"},
		{"lengths", func(b *ferry.Batch) error { return ferry.Copy(b, x.vec.Range(0, 5), x.in) }, "operation 2 of 2, copy"},
		{"no buffer", func(b *ferry.Batch) error { return ferry.Copy(b, nil, x.in) }, "no buffer given"},
		{"overlap", func(b *ferry.Batch) error { return ferry.Copy(b, x.vec.Range(0, 5), x.vec.Range(1, 6)) }, "overlap"},
		{"closed buffer", func(b *ferry.Batch) error { return ferry.Fill(b, closed, 1) }, "closed"},
		{"closed argument", func(b *ferry.Batch) error {
			return b.Launch(x.one, ferry.Cover(8, 8), closed, uint64(8))
		}, "operation 2 of 2, launch increment"},
		{"number of arguments", func(b *ferry.Batch) error { return b.Launch(x.one, ferry.Cover(8, 8), x.vec) }, "1 arguments given"},
		{"type of an argument", func(b *ferry.Batch) error { return b.Launch(x.one, ferry.Cover(8, 8), x.vec, 1.5) }, "parameter 1"},
		{"configuration", func(b *ferry.Batch) error {
			return b.Launch(x.one, ferry.LaunchConfig{Block: cu.Dim3{X: 1 << 20}}, x.vec, uint64(8))
		}, "launch increment"},
		{"no kernel", func(b *ferry.Batch) error { return b.Launch(nil, ferry.Cover(8, 8)) }, "no kernel given"},
		{"no event to record", func(b *ferry.Batch) error { return b.Record(nil) }, "no event given"},
		{"no event to wait for", func(b *ferry.Batch) error { return b.WaitEvent(nil) }, "no event given"},
	} {
		var b ferry.Batch
		clear(x.out.Slice())
		check(t, ferry.Fill(x.stream, x.vec, 3))
		check(t, ferry.Copy(&b, x.out, x.vec))
		err := c.add(&b)
		if err == nil {
			err = x.stream.Submit(&b)
			if got := x.out.Slice()[batchFloats-1]; got != 0 {
				t.Errorf("%s: an operation before the bad one was queued", c.name)
			}
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want %q in it", c.name, err, c.want)
		}
		check(t, x.stream.Wait(context.Background()))
	}
	closeAll(t, must(ferry.Alloc[float32](g, 8))(t)) // the GPU still works
	if err := x.stream.Submit(nil); err == nil {
		t.Error("Submit(nil) returns no error")
	}
	if err := (*ferry.Stream)(nil).Submit(&ferry.Batch{}); err == nil {
		t.Error("Submit on a nil stream returns no error")
	}
	if err := ferry.Copy((*ferry.Batch)(nil), x.vec, x.in); err == nil {
		t.Error("Copy on a nil batch returns no error")
	}
}

// refusingDriver makes the first at calls of each batch and refuses the next.
type refusingDriver struct {
	*fakeDriver
	at int
}

func (d *refusingDriver) Submit(_ cu.Context, b *cu.Batch) (int, error) {
	return d.at, cu.ErrorInvalidValue
}

// TestBatchError: the error says which operation the driver has refused.
func TestBatchError(t *testing.T) {
	d := &refusingDriver{newFake(), 3}
	g := openDriver(t, d)
	x := &batchFixture{
		stream: must(ferry.NewStream(g, nil))(t),
		in:     must(ferry.AllocHost[float32](g, 8, nil))(t),
		vec:    must(ferry.Alloc[float32](g, 8))(t),
		done:   must(ferry.NewEvent(g, nil))(t),
	}
	defer closeAll(t, x.stream, x.in, x.vec, x.done)
	var b ferry.Batch
	check(t, ferry.Copy(&b, x.vec.Range(0, 0), x.in.Range(0, 0))) // needs no call of the driver
	check(t, ferry.Copy(&b, x.vec, x.in))
	check(t, ferry.Copy(&b, x.in, x.vec))
	check(t, b.Record(x.done))
	check(t, ferry.Copy(&b, x.vec.Range(1, 2), x.in.Range(1, 2)))
	check(t, b.Record(x.done))
	err := x.stream.Submit(&b)
	if !errors.Is(err, cu.ErrorInvalidValue) || !strings.Contains(err.Error(), "operation 5 of 6, copy 4 bytes to") {
		t.Errorf("got %v, want CUDA_ERROR_INVALID_VALUE of operation 5", err)
	}
}

// TestBatchAcrossRegistrations copies memory of two registrations, which takes two calls of
// the driver.
func TestBatchAcrossRegistrations(t *testing.T) {
	g := openRegister(t)
	x := newBatchFixture(t, g)
	memory := make([]byte, 1<<20)
	half := must(ferry.Register(g, memory[:len(memory)/2], nil))(t)
	whole := must(ferry.Register(g, memory, nil))(t)
	device := must(ferry.Alloc[byte](g, len(memory)))(t)
	back := must(ferry.AllocHost[byte](g, len(memory), nil))(t)
	defer closeAll(t, whole, half, device, back)
	fillRandom(whole.Slice())
	var b ferry.Batch
	check(t, ferry.Copy(&b, device, whole))
	check(t, ferry.Copy(&b, back, device))
	check(t, x.stream.Submit(&b))
	if !bytes.Equal(back.Slice(), whole.Slice()) {
		t.Error("the bytes copied back differ")
	}
}

// TestBatchCaptured captures a batch in a graph.
func TestBatchCaptured(t *testing.T) {
	x := newBatchFixture(t, openTest(t))
	var b ferry.Batch
	check(t, ferry.Copy(&b, x.vec, x.in))
	check(t, b.Launch(x.one, ferry.Cover(batchFloats, 256), x.vec, uint64(batchFloats)))
	check(t, ferry.Copy(&b, x.out, x.vec))
	graph := must(x.stream.Capture(func(s *ferry.Stream) error { return s.Submit(&b) }))(t)
	defer closeAll(t, graph)
	for round := range 3 {
		x.in.Slice()[9] = float32(round)
		check(t, graph.Launch(x.stream))
		if got := x.out.Slice()[9]; got != float32(round+1) {
			t.Errorf("round %d: got %v, want %v", round, got, round+1)
		}
	}
}

// TestBatchWaitEvent: a batch waits for what the event stands for when it is submitted.
func TestBatchWaitEvent(t *testing.T) {
	g := openTest(t)
	x := newBatchFixture(t, g)
	other := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	defer closeAll(t, other)
	var b ferry.Batch
	check(t, b.WaitEvent(x.done))
	check(t, ferry.Copy(&b, x.out, x.vec))
	for want := float32(11); want < 14; want++ {
		open := gate(t, other)
		check(t, ferry.Fill(other, x.vec, want))
		check(t, other.Record(x.done))
		check(t, x.stream.Submit(&b))
		waits(t, "Slice", open, func() { _ = x.out.Slice() })
		if got := x.out.Slice()[1]; got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	_, err := other.Capture(func(s *ferry.Stream) error {
		check(t, s.Record(x.done))
		wantError(t, x.stream.Submit(&b), cu.ErrorInvalidValue, "operation 1 of 2", "capture")
		return nil
	})
	check(t, err)
}

// TestBatchReplay: a batch that is submitted again notices another stream, operations that
// were added, and things that were closed.
func TestBatchReplay(t *testing.T) {
	g := openTest(t)
	x := newBatchFixture(t, g)
	other := must(ferry.NewStream(g, nil))(t)
	defer closeAll(t, other)
	var b ferry.Batch
	put := func(v float32) {
		in, _ := x.in.SliceContext(context.Background()) // nil after Close
		for i := range in {
			in[i] = v
		}
	}
	wantOut := func(want float32) {
		t.Helper()
		if out := x.out.Slice(); out[3] != want || out[batchFloats-1] != want {
			t.Errorf("got %v and %v, want %v", out[3], out[batchFloats-1], want)
		}
	}
	// A batch that needed no call of the driver leaves nothing behind after Reset.
	check(t, ferry.Copy(&b, x.vec.Range(0, 0), x.in.Range(0, 0)))
	check(t, x.stream.Submit(&b))
	b.Reset()
	check(t, x.queueOn(&b))
	for i, s := range []*ferry.Stream{x.stream, x.stream, other, x.stream, other, other} {
		put(float32(i))
		check(t, s.Submit(&b))
		wantOut(2 * (float32(i) + 1))
		check(t, errors.Join(x.stream.Wait(context.Background()), other.Wait(context.Background())))
	}
	check(t, b.Launch(x.one, ferry.Cover(batchFloats, 256), x.vec, uint64(batchFloats)))
	check(t, ferry.Copy(&b, x.out, x.vec))
	put(5)
	check(t, other.Submit(&b))
	wantOut(13)

	closeBetween := func(what string, c interface{ Close() error }) {
		t.Helper()
		put(1)
		check(t, x.stream.Submit(&b))
		wantOut(5)
		check(t, x.stream.Wait(context.Background()))
		check(t, c.Close())
		put(2)
		wantError(t, x.stream.Submit(&b), ferry.ErrClosed, what)
		wantOut(5)
	}
	closeBetween("operation 6 of 8, record an event", x.done)
	check(t, x.done.Close())
	b.Reset()
	x.done = must(ferry.NewEvent(g, nil))(t)
	check(t, x.queueOn(&b))
	check(t, b.Launch(x.one, ferry.Cover(batchFloats, 256), x.vec, uint64(batchFloats)))
	check(t, ferry.Copy(&b, x.out, x.vec))
	closeBetween("operation 1 of 8, copy 39.1 KiB", x.in)
}

// TestBatchReplayInFlight: the buffers and the event of a batch are in flight each time that
// it is submitted.
func TestBatchReplayInFlight(t *testing.T) {
	x := newBatchFixture(t, openTest(t))
	var b ferry.Batch
	check(t, x.queueOn(&b))
	for range 3 {
		open := gate(t, x.stream)
		check(t, x.stream.Submit(&b))
		if done := must(x.done.Done())(t); done {
			t.Error("the event is done before its work")
		}
		waits(t, "Slice of the output", open, func() { x.out.Slice() })
		check(t, x.done.Wait(context.Background()))
		open = gate(t, x.stream)
		check(t, x.stream.Submit(&b))
		waits(t, "Slice of the input", open, func() { x.in.Slice() })
	}
}

// TestBatchReadsAndWrites: a buffer that a batch first reads and then writes is in flight as
// written, each time.
func TestBatchReadsAndWrites(t *testing.T) {
	x := newBatchFixture(t, openTest(t))
	var b ferry.Batch
	check(t, ferry.Copy(&b, x.vec, x.in))
	check(t, ferry.Copy(&b, x.in, x.vec))
	for range 3 {
		open := gate(t, x.stream)
		check(t, x.stream.Submit(&b))
		waits(t, "ReadSlice", open, func() { x.in.ReadSlice() })
	}
}

// TestBatchPooledBuffers: a batch uses buffers of a pool. A closed one is refused although
// its memory is that of an open one.
func TestBatchPooledBuffers(t *testing.T) {
	g := openTest(t)
	x := newBatchFixture(t, g)
	p := must(ferry.NewPinnedPool(g, &ferry.PinnedPoolOptions{Mapped: true}))(t)
	var h, o ferry.Host[float32]
	check(t, h.Alloc(p, batchFloats))
	stale := h.Range(0, batchFloats)
	check(t, h.Close())
	check(t, h.Alloc(p, batchFloats))
	check(t, o.Alloc(p, batchFloats))
	defer closeAll(t, p, &h, &o)
	for i := range h.Slice() {
		h.Slice()[i] = float32(i)
	}
	var b ferry.Batch
	check(t, ferry.Copy(&b, x.vec, &h))
	check(t, b.Launch(x.add, ferry.Cover(batchFloats, 256), x.vec, &h, &o, uint64(batchFloats)))
	check(t, x.stream.Submit(&b))
	check(t, x.stream.Submit(&b))
	if got := o.Slice()[9]; got != 18 {
		t.Errorf("got %v, want 18", got)
	}
	check(t, x.stream.Wait(context.Background()))
	wantError(t, x.stream.Launch(x.add, ferry.Cover(batchFloats, 256), &h, stale, &o, uint64(batchFloats)), ferry.ErrClosed, "parameter 1", "of a pool")
	wantError(t, ferry.CopyAll(x.stream, []ferry.Pair[float32]{{Dst: x.vec.Range(0, 9), Src: h.Range(0, 9)}, {Dst: x.vec.Range(9, 18), Src: stale.Range(0, 9)}}), ferry.ErrClosed, "copy 2 of 2", "of a pool")
	check(t, h.Close())
	check(t, h.Alloc(p, batchFloats))
	wantError(t, x.stream.Submit(&b), ferry.ErrClosed, "operation 1 of 2", "of a pool")
}

// TestBatchSameEvent: a batch can record one event, and wait for it, any number of times.
func TestBatchSameEvent(t *testing.T) {
	const many = 5000
	g := openTest(t)
	s, e := must(ferry.NewStream(g, nil))(t), must(ferry.NewEvent(g, nil))(t)
	for what, add := range map[string]func(*ferry.Batch) error{
		"Record":                func(b *ferry.Batch) error { return b.Record(e) },
		"WaitEvent":             func(b *ferry.Batch) error { return b.WaitEvent(e) },
		"Record, WaitEvent":     func(b *ferry.Batch) error { return errors.Join(b.Record(e), b.WaitEvent(e)) },
		"WaitEvent then Record": func(b *ferry.Batch) error { return errors.Join(b.WaitEvent(e), b.Record(e)) },
	} {
		var b ferry.Batch
		for range many {
			check(t, add(&b))
		}
		for range 3 { // the later times replay
			check(t, within(t, what, func() error { return s.Submit(&b) }))
		}
		check(t, within(t, "Wait", func() error { return e.Wait(context.Background()) }))
	}
	closeAll(t, e, s)
	_, err := e.Done()
	wantError(t, err, ferry.ErrClosed)
}

// TestBatchWaitsThenRecords: an event that a batch waits for, and records later, stands for the
// work before the batch. So after a wait for the event, the buffers of that work are not in flight.
func TestBatchWaitsThenRecords(t *testing.T) {
	g := openTest(t)
	s, e := must(ferry.NewStream(g, nil))(t), must(ferry.NewEvent(g, nil))(t)
	host, device := must(ferry.AllocHost[byte](g, 64, nil))(t), must(ferry.Alloc[byte](g, 64))(t)
	var b ferry.Batch
	check(t, errors.Join(b.WaitEvent(e), b.Record(e), b.Record(e)))
	check(t, errors.Join(ferry.Copy(s, host, device), s.Submit(&b), e.Wait(context.Background())))
	open := gate(t, s)
	check(t, within(t, "Wait", func() error { return host.Wait(context.Background()) }))
	open()
	closeAll(t, e, host, device, s)
}

// TestBatchRecordThenWaitCaptured: a captured batch can wait for an event that it has recorded.
func TestBatchRecordThenWaitCaptured(t *testing.T) {
	g := openTest(t)
	s, e := must(ferry.NewStream(g, nil))(t), must(ferry.NewEvent(g, nil))(t)
	host, device := must(ferry.AllocHost[byte](g, 64, nil))(t), must(ferry.Alloc[byte](g, 64))(t)
	var b ferry.Batch
	check(t, errors.Join(ferry.Fill(&b, device, 9), b.Record(e), b.WaitEvent(e), ferry.Copy(&b, host, device)))
	x := must(s.Capture(func(s *ferry.Stream) error { return s.Submit(&b) }))(t)
	clear(host.Slice())
	check(t, x.Launch(s))
	if got := host.Slice(); got[0] != 9 || got[63] != 9 {
		t.Errorf("got %d and %d, want 9", got[0], got[63])
	}
	closeAll(t, x, host, device, e, s)
}

// TestBatchClosedEventAgain: a batch whose submission has failed at a closed event fails there
// again.
func TestBatchClosedEventAgain(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	for what, add := range map[string]func(*ferry.Batch, *ferry.Event) error{
		"wait": (*ferry.Batch).WaitEvent, "record": (*ferry.Batch).Record,
	} {
		e := must(ferry.NewEvent(g, nil))(t)
		var b ferry.Batch
		check(t, add(&b, e))
		check(t, e.Close())
		_, err := s.Capture(func(s *ferry.Stream) error { return s.Submit(&b) })
		wantError(t, err, ferry.ErrClosed, "operation 1 of 1", what)
		for range 2 {
			wantError(t, s.Submit(&b), ferry.ErrClosed, "operation 1 of 1", what)
		}
	}
	closeAll(t, s)
}
