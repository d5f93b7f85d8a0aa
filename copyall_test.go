package ferry_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
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
	g := openTest(t)
	d := &pathDriver{Driver: g.Driver(), paths: map[string]int{}}
	g = must(ferry.OpenDriver(d, 0))(t)
	s := must(ferry.NewStream(g, nil))(t)
	const room = 8 << 20
	in, out := must(ferry.AllocHost[byte](g, room, nil))(t), must(ferry.AllocHost[byte](g, room, nil))(t)
	dev := must(ferry.Alloc[byte](g, room))(t)
	defer closeAll(t, s, in, out, dev, g)
	for _, c := range []struct {
		count, size, step int
		call              string // of the driver
	}{
		{1, 100, 128, "cuMemcpyHtoDAsync"},
		{3, 4096, 5000, "cuMemcpyBatchAsync"},
		{8, 4096, 4096, "cuLaunchKernel"},
		{199, 256, 1000, "cuLaunchKernel"},
		{200, 257, 1001, "cuLaunchKernel"},
		{201, 13, 29, "cuLaunchKernel"},
		{1000, 4096, 4100, "cuLaunchKernel"},
		{64, 64 << 10, 64 << 10, "cuLaunchKernel"},
		{9, 600 << 10, 700 << 10, "cuMemcpyBatchAsync"},
	} {
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
		{ferry.Pair[float32]{Dst: x.vec, Src: ferry.Pageable(make([]float32, batchFloats))}, "pageable memory"},
		{ferry.Pair[float32]{Dst: x.vec.Range(0, 5), Src: x.in}, "has 5 elements"},
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
