package ferry_test

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
)

// wayDriver counts in which way copies are made.
type wayDriver struct {
	cu.Driver
	ways map[string]int
}

func (d *wayDriver) Unwrap() cu.Driver { return d.Driver }

func (d *wayDriver) Submit(ctx cu.Context, b *cu.Batch) (int, error) {
	for _, c := range b.Calls() {
		d.ways[c.Op.String()]++
	}
	return d.Driver.Submit(ctx, b)
}

func (d *wayDriver) MemcpyBatchAsync(ctx cu.Context, dsts, srcs []cu.DevicePtr, sizes []uintptr, stream cu.Stream) error {
	d.ways["cuMemcpyBatchAsync"] += len(dsts)
	return d.Driver.MemcpyBatchAsync(ctx, dsts, srcs, sizes, stream)
}

// TestCopyAll copies ranges of every number and size, to the device and back, at
// odd addresses too, and looks at all bytes around them.
func TestCopyAll(t *testing.T) {
	g := openTest(t)
	d := &wayDriver{Driver: g.Driver(), ways: map[string]int{}}
	g = must(ferry.OpenDriver(d, 0))(t)
	s := must(ferry.NewStream(g, nil))(t)
	const room = 8 << 20
	in, out := must(ferry.AllocHost[byte](g, room, nil))(t), must(ferry.AllocHost[byte](g, room, nil))(t)
	dev := must(ferry.Alloc[byte](g, room))(t)
	defer closeAll(t, s, in, out, dev, g)
	for _, c := range []struct {
		count, size, step int
		way               string
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
			clear(d.ways)
			random(in.Slice())
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
			if d.ways[c.way] == 0 || len(d.ways) != 1 {
				t.Errorf("made by %v, want %s", d.ways, c.way)
			}
			if c.step > c.size {
				check(t, ferry.CopyAll(s, down))
				same(t, out.Slice(), want)
			}
			got := make([]byte, room)
			check(t, ferry.Copy(s, ferry.Pageable(got), dev))
			whole := bytes.Repeat([]byte{0xa5}, room)
			for i, j := range at {
				copy(whole[c.step*j:], in.Slice()[c.step*i:c.step*i+c.size])
			}
			same(t, got, whole)
		})
	}
}

func same(t *testing.T, got, want []byte) {
	t.Helper()
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("byte %d is %#x, want %#x", i, got[i], want[i])
		}
	}
}

// TestCopyAllHolds: all buffers are in flight, each once.
func TestCopyAllHolds(t *testing.T) {
	g := openTest(t)
	x := newSteps(t, g)
	open := gate(t, x.stream)
	var pairs []ferry.Pair[float32]
	for i := range 20 {
		pairs = append(pairs, ferry.Pair[float32]{Dst: x.out.Range(i, i+1), Src: x.vec.Range(i, i+1)})
	}
	check(t, ferry.CopyAll(x.stream, pairs))
	_ = x.in.Slice() // not among them
	waits(t, "Slice", open, func() { _ = x.out.Slice() })
	check(t, ferry.CopyAll(x.stream, []ferry.Pair[float32]{}))
}

// TestCopyAllRefuses: a bad pair is named, and nothing is queued.
func TestCopyAllRefuses(t *testing.T) {
	x := newSteps(t, openTest(t))
	closed := must(ferry.Alloc[float32](must(ferry.Open("soft"))(t), 8))(t)
	closeAll(t, closed)
	good := ferry.Pair[float32]{Dst: x.out.Range(0, 5), Src: x.vec.Range(0, 5)}
	for _, c := range []struct {
		bad  ferry.Pair[float32]
		want string
	}{
		{ferry.Pair[float32]{Dst: x.vec, Src: ferry.Pageable(make([]float32, stepFloats))}, "pageable memory"},
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
			t.Errorf("error %v, want one with %q", err, c.want)
		}
		if x.out.Slice()[0] != 0 {
			t.Errorf("%s: the good copy was made", c.want)
		}
		check(t, x.stream.Wait(context.Background()))
	}
	if err := ferry.CopyAll(nil, []ferry.Pair[float32]{good}); err == nil {
		t.Error("no stream: no error")
	}
}

// TestCopyAllCaptured records the kernel in a graph.
func TestCopyAllCaptured(t *testing.T) {
	x := newSteps(t, openTest(t))
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

// TestSmallCopyOvertakes: a small copy does not wait behind a large one of another
// stream, in either direction, and its bytes are right.
func TestSmallCopyOvertakes(t *testing.T) {
	g := openTest(t)
	const large, small = 256 << 20, 50 << 10
	bulk, urgent := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t), must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	host, dev := must(ferry.AllocHost[byte](g, large, nil))(t), must(ferry.Alloc[byte](g, large))(t)
	a, b := must(ferry.AllocHost[byte](g, small, nil))(t), must(ferry.AllocHost[byte](g, small, nil))(t)
	d := must(ferry.Alloc[byte](g, small))(t)
	defer closeAll(t, bulk, urgent, host, dev, a, b, d)
	for name, copies := range map[string][2]func() error{
		"to the device":   {func() error { return ferry.Copy(bulk, dev, host) }, func() error { return ferry.Copy(urgent, d, a) }},
		"from the device": {func() error { return ferry.Copy(bulk, host, dev) }, func() error { return ferry.Copy(urgent, b, d) }},
	} {
		random(a.Slice())
		check(t, ferry.Copy(urgent, d, a))
		clear(b.Slice())
		check(t, g.Wait(context.Background()))
		check(t, copies[0]())
		check(t, copies[1]())
		check(t, urgent.Wait(context.Background()))
		done, err := bulk.Done()
		check(t, err)
		if done && g.Emulated() { // hardware may be done when we look
			t.Errorf("%s: the large copy is done when the small one is", name)
		}
		check(t, ferry.Copy(urgent, b, d))
		same(t, b.Slice(), a.Slice())
		check(t, bulk.Wait(context.Background()))
	}
}

// onceDriver has something to tell of streams, once.
type onceDriver struct {
	cu.Driver
	err error
}

func (d *onceDriver) Unwrap() cu.Driver { return d.Driver }

func (d *onceDriver) StreamQuery(ctx cu.Context, s cu.Stream) error {
	if err := d.err; err != nil {
		d.err = nil
		return err
	}
	return d.Driver.StreamQuery(ctx, s)
}

// TestOvertakingLosesNoPanic: to look at the stream of a large copy may bring up a
// host function's panic, which the driver tells once. Wait must tell it all the same.
func TestOvertakingLosesNoPanic(t *testing.T) {
	d := &onceDriver{Driver: openTest(t).Driver()}
	g := must(ferry.OpenDriver(d, 0))(t)
	bulk, urgent := must(ferry.NewStream(g, nil))(t), must(ferry.NewStream(g, nil))(t)
	host, dev := must(ferry.AllocHost[byte](g, 8<<20, nil))(t), must(ferry.Alloc[byte](g, 8<<20))(t)
	small := must(ferry.Alloc[byte](g, 100))(t)
	defer closeAll(t, bulk, urgent, host, dev, small, g)
	check(t, ferry.Copy(bulk, dev, host))
	d.err = &cu.HostPanic{Value: "planted"}
	check(t, ferry.Copy(urgent, small, host.Range(0, 100)))
	if d.err != nil {
		t.Fatal("the stream was not looked at")
	}
	err := bulk.Wait(context.Background())
	if told, ok := errors.AsType[*cu.HostPanic](err); !ok || told.Value != "planted" {
		t.Errorf("Wait says %v, want the panic", err)
	}
}
