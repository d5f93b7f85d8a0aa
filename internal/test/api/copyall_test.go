package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/sample"
)

// pathDriver counts the copies of CopyAll by the call of the driver.
type pathDriver struct {
	cu.Driver
	paths map[string]int
}

func (d *pathDriver) Unwrap() cu.Driver { return d.Driver }

func (d *pathDriver) Submit(ctx cu.Context, b *cu.Batch) (int, error) {
	for _, c := range b.Calls() {
		d.paths[c.Op.String()]++
	}
	return d.Driver.Submit(ctx, b)
}

func (d *pathDriver) MemcpyBatchAsync(ctx cu.Context, dsts, srcs []cu.DevicePtr, sizes []uintptr, stream cu.Stream) error {
	d.paths["cuMemcpyBatchAsync"] += len(dsts)
	return d.Driver.MemcpyBatchAsync(ctx, dsts, srcs, sizes, stream)
}

// TestCopyAll copies ranges of several numbers and sizes to the device and back, also at odd
// addresses. It compares all bytes, also those around the ranges, and checks which call of
// the driver made the copies.
func TestCopyAll(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeUnifiedAddressing)
	gputest.NeedsCall(t, "cuMemcpyBatchAsync", 12080)
	g := openTest(t)
	d := &pathDriver{Driver: g.Driver(), paths: map[string]int{}}
	g = must(ferry.OpenDriver(d, 0))(t)
	s := must(ferry.NewStream(g, nil))(t)
	const room = 8 << 20
	in, out := must(ferry.AllocHost[byte](g, room, nil))(t), must(ferry.AllocHost[byte](g, room, nil))(t)
	dev := must(ferry.Alloc[byte](g, room))(t)
	defer closeAll(t, s, in, out, dev, g)
	type row struct {
		count, size, step int
		call              string // of the driver
	}
	rows := []row{
		{1, 100, 128, "cuMemcpyHtoDAsync"},
		{3, 4096, 5000, "cuMemcpyBatchAsync"},
		{8, 4096, 4096, "cuLaunchKernel"},
		{199, 256, 1000, "cuLaunchKernel"},
		{200, 257, 1001, "cuLaunchKernel"},
		{201, 13, 29, "cuLaunchKernel"},
		{1000, 4096, 4100, "cuLaunchKernel"},
		{64, 64 << 10, 64 << 10, "cuLaunchKernel"},
		{9, 600 << 10, 700 << 10, "cuMemcpyBatchAsync"},
	}
	if sample.Race() {
		rows = sample.OfEach(t, rows, func(r row) string { return r.call }, len(rows))
	}
	for _, c := range rows {
		t.Run(fmt.Sprintf("count=%d/bytes=%d", c.count, c.size), func(t *testing.T) {
			clear(d.paths)
			fillRandom(in.Slice())
			clear(out.Slice())
			check(t, ferry.Fill(s, dev, 0xa5))
			want := bytes.Repeat([]byte{0}, room)
			at := rand.Perm(c.count)
			var up, down []ferry.Pair[byte]
			for i, j := range at {
				from, to := c.step*i, c.step*j
				up = append(up, ferry.Pair[byte]{Dst: dev.Range(to, to+c.size), Src: in.Range(from, from+c.size)})
				down = append(down, ferry.Pair[byte]{Dst: out.Range(to+1, to+c.size+1), Src: dev.Range(to, to+c.size)})
				copy(want[to+1:], in.Slice()[from:from+c.size])
			}
			check(t, ferry.CopyAll(s, up))
			if d.paths[c.call] == 0 || len(d.paths) != 1 {
				t.Errorf("the copies were made by %v, want %s", d.paths, c.call)
			}
			if c.step > c.size {
				check(t, ferry.CopyAll(s, down))
				wantBytes(t, out.Slice(), want)
			}
			got := make([]byte, room)
			check(t, ferry.Copy(s, ferry.Pageable(got), dev))
			whole := bytes.Repeat([]byte{0xa5}, room)
			for i, j := range at {
				copy(whole[c.step*j:], in.Slice()[c.step*i:c.step*i+c.size])
			}
			wantBytes(t, got, whole)
		})
	}
}

// TestCopyAllInFlight: Slice waits for copies of CopyAll that use the buffer, not for others.
func TestCopyAllInFlight(t *testing.T) {
	g := openTest(t)
	x := newBatchFixture(t, g)
	open := gate(t, x.stream)
	var pairs []ferry.Pair[float32]
	for i := range 20 {
		pairs = append(pairs, ferry.Pair[float32]{Dst: x.out.Range(i, i+1), Src: x.vec.Range(i, i+1)})
	}
	check(t, ferry.CopyAll(x.stream, pairs))
	_ = x.in.Slice() // not in flight: must return although the gate is shut
	waits(t, "Slice", open, func() { _ = x.out.Slice() })
	check(t, ferry.CopyAll(x.stream, []ferry.Pair[float32]{}))
}

// TestCopyAllRefused: the error says which pair is bad, and nothing is queued.
func TestCopyAllRefused(t *testing.T) {
	x := newBatchFixture(t, openTest(t))
	closed := must(ferry.Alloc[float32](must(ferry.Open("soft"))(t), 8))(t)
	closeAll(t, closed)
	good := ferry.Pair[float32]{Dst: x.out.Range(0, 5), Src: x.vec.Range(0, 5)}
	for _, c := range []struct {
		bad  ferry.Pair[float32]
		want string
	}{
		{ferry.Pair[float32]{Dst: x.vec.Range(0, 5), Src: x.in}, "has 5 elements"},
		{ferry.Pair[float32]{Dst: x.vec.Range(0, 5), Src: ferry.Pageable(make([]float32, 6))}, "has 5 elements"},
		{ferry.Pair[float32]{Dst: ferry.Pageable([]float32{}), Src: x.vec}, "has 0 elements"},
		{ferry.Pair[float32]{Dst: ferry.Pageable(make([]float32, 9)).Range(3, 10), Src: x.vec.Range(0, 7)}, "range [3:10]"},
		{ferry.Pair[float32]{Dst: x.vec.Range(0, 5), Src: x.vec.Range(2, 7)}, "overlap"},
		{ferry.Pair[float32]{Src: x.vec}, "no buffer"},
		{ferry.Pair[float32]{Dst: x.vec.Range(5, 3), Src: x.in}, "range [5:3]"},
		{ferry.Pair[float32]{Dst: closed, Src: x.in.Range(0, 8)}, "closed"},
	} {
		clear(x.out.Slice())
		check(t, ferry.Fill(x.stream, x.vec, 3))
		err := ferry.CopyAll(x.stream, []ferry.Pair[float32]{good, c.bad})
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "copy 2 of 2") {
			t.Errorf("got error %v, want %q in it", err, c.want)
		}
		if x.out.Slice()[0] != 0 {
			t.Errorf("%s: the other pair was copied", c.want)
		}
		check(t, x.stream.Wait(context.Background()))
	}
	if err := ferry.CopyAll(nil, []ferry.Pair[float32]{good}); err == nil {
		t.Error("CopyAll on a nil stream returns no error")
	}
}

// TestCopyAllCaptured captures CopyAll in a graph.
func TestCopyAllCaptured(t *testing.T) {
	x := newBatchFixture(t, openTest(t))
	var pairs []ferry.Pair[float32]
	for i := range 300 {
		pairs = append(pairs, ferry.Pair[float32]{Dst: x.vec.Range(i, i+1), Src: x.in.Range(i, i+1)})
	}
	graph := must(x.stream.Capture(func(s *ferry.Stream) error {
		if err := ferry.CopyAll(s, pairs); err != nil {
			return err
		}
		return ferry.Copy(s, x.out, x.vec)
	}))(t)
	defer closeAll(t, graph)
	for round := range 2 {
		for i := range x.in.Slice() {
			x.in.Slice()[i] = float32(i * (round + 1))
		}
		check(t, graph.Launch(x.stream))
		for i, got := range x.out.Slice()[:300] {
			if want := float32(i * (round + 1)); got != want {
				t.Fatalf("round %d: element %d is %v, want %v", round, i, got, want)
			}
		}
	}
}

// TestCopyAllBatch: a batch makes the copies of CopyAll at each Submit, of few and of many
// ranges and beside other operations. Other bytes do not change.
func TestCopyAllBatch(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	const n = 256 << 10
	in, out := must(ferry.AllocHost[byte](g, n, nil))(t), must(ferry.AllocHost[byte](g, n, nil))(t)
	device := must(ferry.Alloc[byte](g, n))(t)
	defer closeAll(t, in, out, device, s)
	for _, c := range []struct{ count, size, step int }{{1, 100, 128}, {3, 4096, 5000}, {200, 257, 1001}} {
		var up, down []ferry.Pair[byte]
		for i, j := range rand.Perm(c.count) {
			up = append(up, ferry.Pair[byte]{Dst: device.Range(c.step*j, c.step*j+c.size), Src: in.Range(c.step*i, c.step*i+c.size)})
			down = append(down, ferry.Pair[byte]{Dst: out.Range(c.step*i+1, c.step*i+1+c.size), Src: device.Range(c.step*j, c.step*j+c.size)})
		}
		var b ferry.Batch
		check(t, ferry.Fill(&b, device, 0xa5))
		check(t, ferry.CopyAll(&b, up))
		check(t, ferry.CopyAll(&b, down))
		if b.Len() != 3 {
			t.Errorf("the batch has %d operations, want 3", b.Len())
		}
		clear(up) // the batch has them
		for round := range 3 {
			fillRandom(in.Slice())
			fillRandom(out.Slice())
			want := bytes.Clone(out.Slice())
			for i := range c.count {
				copy(want[c.step*i+1:], in.Slice()[c.step*i:c.step*i+c.size])
			}
			open := gate(t, s)
			check(t, s.Submit(&b))
			waits(t, "ReadSlice", open, func() { out.ReadSlice() })
			if !bytes.Equal(out.Slice(), want) {
				t.Errorf("%+v, submission %d: the bytes differ", c, round)
			}
		}
		b.Reset()
		clear(out.Slice())
		check(t, s.Submit(&b))
		wantBytes(t, out.Slice(), make([]byte, n))
	}
}

// TestCopyAllBatchRefused: a bad pair is refused when it is added, or by Submit. Neither queues
// anything, and the operations that were added before work.
func TestCopyAllBatchRefused(t *testing.T) {
	x := newBatchFixture(t, openTest(t))
	closed := must(ferry.Alloc[float32](must(ferry.Open("soft"))(t), 8))(t)
	closeAll(t, closed)
	good := ferry.Pair[float32]{Dst: x.out.Range(0, 5), Src: x.vec.Range(0, 5)}
	var none *ferry.Device[float32]
	for _, c := range []struct {
		bad   ferry.Pair[float32]
		is    error
		parts []string
		early bool // CopyAll refuses it
	}{
		{ferry.Pair[float32]{Dst: x.vec, Src: ferry.Pageable(make([]float32, batchFloats))}, cu.ErrorInvalidValue, []string{"copy 2 of 2", "pageable memory"}, true},
		{ferry.Pair[float32]{Dst: none, Src: x.vec}, cu.ErrorInvalidValue, []string{"copy 2 of 2", "no buffer given"}, true},
		{ferry.Pair[float32]{Dst: x.vec.Range(5, 3), Src: x.in}, cu.ErrorInvalidValue, []string{"copy 2 of 2", "range [5:3]"}, true},
		{ferry.Pair[float32]{Dst: x.vec.Range(20, 25), Src: x.in}, cu.ErrorInvalidValue, []string{"operation 2 of 2", "copy 2 of 2", "has 5 elements"}, false},
		{ferry.Pair[float32]{Dst: x.vec.Range(20, 25), Src: x.vec.Range(22, 27)}, cu.ErrorInvalidValue, []string{"operation 2 of 2", "copy 2 of 2", "overlap"}, false},
		{ferry.Pair[float32]{Dst: closed, Src: x.in.Range(0, 8)}, ferry.ErrClosed, []string{"operation 2 of 2", "copy 2 of 2"}, false},
	} {
		clear(x.out.Slice())
		check(t, ferry.Fill(x.stream, x.vec, 3))
		var b ferry.Batch
		check(t, ferry.Copy(&b, x.out.Range(10, 15), x.vec.Range(10, 15)))
		err := ferry.CopyAll(&b, []ferry.Pair[float32]{good, c.bad})
		if (err != nil) != c.early {
			t.Errorf("%v: CopyAll returns %v", c.parts, err)
		}
		if err == nil {
			err = x.stream.Submit(&b)
		}
		wantError(t, err, c.is, c.parts...)
		if out := x.out.Slice(); out[0] != 0 || out[10] != 0 {
			t.Errorf("%v: another pair or operation was queued", c.parts)
		}
		if c.early {
			if b.Len() != 1 {
				t.Errorf("%v: the batch has %d operations, want 1", c.parts, b.Len())
			}
			check(t, ferry.CopyAll(&b, []ferry.Pair[float32]{good})) // where the refused pairs were
			check(t, x.stream.Submit(&b))
			if out := x.out.Slice(); out[0] != 3 || out[4] != 3 || out[5] != 0 || out[10] != 3 {
				t.Errorf("%v: the good operations copied %v", c.parts, out[:16])
			}
		}
		check(t, x.stream.Wait(context.Background()))
	}
}

// TestCopyAllBatchClosed: a batch that was submitted before notices that a buffer was closed.
func TestCopyAllBatchClosed(t *testing.T) {
	g := openTest(t)
	x := newBatchFixture(t, g)
	extra := must(ferry.AllocHost[float32](g, 8, nil))(t)
	var b ferry.Batch
	check(t, ferry.Copy(&b, x.out.Range(0, 4), x.vec.Range(0, 4)))
	check(t, ferry.CopyAll(&b, []ferry.Pair[float32]{{Dst: x.vec.Range(0, 8), Src: x.in.Range(0, 8)}, {Dst: x.vec.Range(8, 16), Src: extra}}))
	for range 2 {
		check(t, x.stream.Submit(&b))
	}
	closeAll(t, extra) // waits for the copies
	clear(x.out.Slice())
	check(t, ferry.Fill(x.stream, x.vec, 5))
	for range 2 {
		wantError(t, x.stream.Submit(&b), ferry.ErrClosed, "operation 2 of 2", "copy 2 of 2", "page-locked buffer")
	}
	if x.out.Slice()[0] != 0 {
		t.Error("the operation before was queued")
	}
}

// TestCopyAllTwoGPUs: pairs of two GPUs of a driver are copied, on a stream and in a batch.
func TestCopyAllTwoGPUs(t *testing.T) {
	onTwoGPUs(t, func(t *testing.T, a, b *ferry.GPU) {
		s := must(ferry.NewStream(a, nil))(t)
		const n = 10_000
		near, far := must(ferry.Alloc[byte](a, n))(t), must(ferry.Alloc[byte](b, n))(t)
		host := must(ferry.AllocHost[byte](b, n, nil))(t)
		defer closeAll(t, near, far, host, s)
		for _, count := range []int{1, 20} { // by the driver, and as many as a kernel would copy
			var there, back, out []ferry.Pair[byte]
			for i := range count {
				from, to := n/count*i, n/count*i+n/count-3
				there = append(there, ferry.Pair[byte]{Dst: near.Range(from, to), Src: host.Range(from, to)})
				back = append(back, ferry.Pair[byte]{Dst: far.Range(from, to), Src: near.Range(from, to)})
				out = append(out, ferry.Pair[byte]{Dst: host.Range(from+1, to+1), Src: far.Range(from, to)})
			}
			var batch ferry.Batch
			for _, pairs := range [][]ferry.Pair[byte]{there, back, out} {
				check(t, ferry.CopyAll(&batch, pairs))
			}
			for name, queue := range map[string]func() error{
				"stream": func() error {
					return errors.Join(ferry.CopyAll(s, there), ferry.CopyAll(s, back), ferry.CopyAll(s, out))
				},
				"batch":       func() error { return s.Submit(&batch) },
				"batch again": func() error { return s.Submit(&batch) },
			} {
				fillRandom(host.Slice())
				want := bytes.Clone(host.Slice())
				for i := range count {
					from, to := n/count*i, n/count*i+n/count-3
					copy(want[from+1:], host.Slice()[from:to])
				}
				check(t, queue())
				if !bytes.Equal(host.Slice(), want) {
					t.Errorf("%d pairs on a %s: the bytes differ", count, name)
				}
			}
		}
	})
}

// TestCopyAllByCPU: without unified addressing the CPU copies between host buffers, which
// CopyAll refuses on a stream and on a batch.
func TestCopyAllByCPU(t *testing.T) {
	d := newFake()
	d.Attributes[cu.DeviceAttributeUnifiedAddressing] = 0
	g := openDriver(t, d)
	s := must(ferry.NewStream(g, nil))(t)
	a, b := must(ferry.AllocHost[byte](g, 64, nil))(t), must(ferry.AllocHost[byte](g, 64, nil))(t)
	defer closeAll(t, a, b, s)
	pairs := []ferry.Pair[byte]{{Dst: a, Src: b}}
	wantError(t, ferry.CopyAll(s, pairs), cu.ErrorInvalidValue, "copy 1 of 1", "use Copy")
	batch := new(ferry.Batch)
	check(t, ferry.CopyAll(batch, pairs))
	wantError(t, s.Submit(batch), cu.ErrorInvalidValue, "copy 1 of 1", "use Copy")
}
