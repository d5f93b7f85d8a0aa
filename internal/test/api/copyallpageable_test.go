package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/softgpu"
)

// onSchedules runs a test on the device to test, on software GPUs under every schedule, and
// on one without unified addressing. Race builds leave the last out.
func onSchedules(t *testing.T, test func(*testing.T, *ferry.GPU)) {
	t.Run("device=test", func(t *testing.T) { test(t, openTest(t)) })
	for _, schedule := range sample.Of(t, []softgpu.Schedule{softgpu.Eager, softgpu.Lazy, softgpu.Random}, 1) {
		t.Run(fmt.Sprint("device=soft:h200/schedule=", schedule), func(t *testing.T) { test(t, openSoft(t, "h200", schedule)) })
	}
	if sample.Race() {
		return
	}
	t.Run("device=soft:fermi-c2050", func(t *testing.T) { test(t, openSoft(t, "fermi-c2050", softgpu.Lazy)) })
}

// TestCopyAllPageableKinds copies between pageable and every kind of memory, and between
// page-locked and device memory, in one call. When it returns, pageable sources may be
// changed and pageable destinations are written. No other bytes change.
func TestCopyAllPageableKinds(t *testing.T) { onSchedules(t, testCopyAllKinds) }

func testCopyAllKinds(t *testing.T, g *ferry.GPU) {
	s := must(ferry.NewStream(g, nil))(t)
	defer closeAll(t, s)
	type side struct {
		bytesMemory
		want []byte
	}
	var pairs []ferry.Pair[byte]
	var all []side
	for i, n := range []int{0, 1, 257, 5003, 300_001, 3<<20 + 5} {
		for _, from := range kindsOf(g) {
			for _, to := range kindsOf(g) {
				pageable := from.name == "pageable" || to.name == "pageable"
				if !pageable && (from.name != "host" || to.name != "device") || n > 1<<20 && (from.name != "device" && to.name != "device") {
					continue
				}
				room := n + 2 + i
				src, dst := must(from.make(g, room))(t), must(to.make(g, room))(t)
				data, want := make([]byte, room), make([]byte, room)
				fillRandom(data)
				fillRandom(want)
				src.set(t, s, data)
				dst.set(t, s, want)
				copy(want[1:], data[i:i+n])
				pairs = append(pairs, ferry.Pair[byte]{Dst: dst.part(1, 1+n), Src: src.part(i, i+n)})
				all = append(all, side{src, data}, side{dst, want})
			}
		}
	}
	check(t, ferry.CopyAll(s, pairs))
	for i := 0; i < len(all); i += 2 {
		p := pairs[i/2]
		if dst, ok := p.Dst.(*ferry.PageableSlice[byte]); ok && !bytes.Equal(dst.Slice(), all[i+1].want[1:1+dst.Len()]) {
			t.Errorf("%v from %v: not written when CopyAll returns", p.Dst, p.Src)
		}
		if src, ok := p.Src.(*ferry.PageableSlice[byte]); ok {
			clear(src.Slice())
			clear(all[i].want[all[i].Len()-2-src.Len() : all[i].Len()-2])
		}
	}
	for i, x := range all {
		if !bytes.Equal(x.get(t, s), x.want) {
			t.Errorf("%v, %v: the bytes of side %d differ", pairs[i/2].Dst, pairs[i/2].Src, i%2)
		}
		check(t, x.close())
	}
}

// TestCopyAllPageableMany copies many slices of odd sizes to odd places on the device, and
// back. Some are larger than a slot of the staging ring. It checks that there are far fewer
// calls of the driver than slices.
func TestCopyAllPageableMany(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeUnifiedAddressing)
	onSchedules(t, func(t *testing.T, g *ferry.GPU) {
		d := &countingDriver{Driver: g.Driver()}
		g = openDriver(t, d)
		sizes := []float64{300, 20_000, 9 << 20}
		if sample.Race() {
			sizes = sizes[:2] // the detector sees each word of 24 MiB: two minutes
		}
		for _, most := range sizes {
			d.calls.Store(0)
			slices := testCopyAllMany(t, g, most)
			if most == 300 && g.Profile() == "h200" && d.calls.Load() > int64(slices/20) {
				t.Errorf("%d calls of the driver copied %d slices there and back", d.calls.Load(), slices)
			}
		}
	})
}

// testCopyAllMany copies slices of up to most bytes, and returns how many.
func testCopyAllMany(t *testing.T, g *ferry.GPU, most float64) (count int) {
	t.Helper()
	s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	luck := rand.New(rand.NewPCG(uint64(most), 3))
	var want, back [][]byte
	room := 0
	bytesInAll := sample.Count(12, 24) << 20
	if sample.Race() {
		bytesInAll = 2 << 20
	}
	for total := 0; total < bytesInAll && len(want) < 500; {
		b := make([]byte, int(math.Pow(most, luck.Float64()))-1)
		fillRandom(b)
		want, back = append(want, b), append(back, make([]byte, len(b)))
		total += len(b)
		room += len(b) + 200
	}
	device := must(ferry.Alloc[byte](g, room))(t)
	defer closeAll(t, device, s)
	check(t, ferry.Fill(s, device, 0xa5))
	whole := bytes.Repeat([]byte{0xa5}, room)
	var up, down []ferry.Pair[byte]
	at := 0
	for _, i := range luck.Perm(len(want)) {
		at += luck.IntN(200)
		n := len(want[i])
		copy(whole[at:], want[i])
		up = append(up, ferry.Pair[byte]{Dst: device.Range(at, at+n), Src: ferry.Pageable(bytes.Clone(want[i]))})
		down = append(down, ferry.Pair[byte]{Dst: ferry.Pageable(back[i]), Src: device.Range(at, at+n)})
		at += n
	}
	check(t, ferry.CopyAll(s, up))
	for _, p := range up {
		clear(p.Src.(*ferry.PageableSlice[byte]).Slice())
	}
	check(t, ferry.CopyAll(s, down))
	for i := range want {
		if !bytes.Equal(back[i], want[i]) {
			t.Fatalf("slices of up to %v bytes: slice %d of %d bytes differs", most, i, len(want[i]))
		}
	}
	wantBytes(t, must(ferry.Download(device))(t), whole)
	return len(want)
}

// countingDriver counts calls that queue something.
type countingDriver struct {
	cu.Driver
	calls atomic.Int64
}

func (d *countingDriver) Unwrap() cu.Driver { return d.Driver }

func (d *countingDriver) MemcpyHtoDAsync(ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, s cu.Stream) error {
	d.calls.Add(1)
	return d.Driver.MemcpyHtoDAsync(ctx, dst, src, n, s)
}

func (d *countingDriver) MemcpyDtoHAsync(ctx cu.Context, dst cu.HostPtr, src cu.DevicePtr, n uintptr, s cu.Stream) error {
	d.calls.Add(1)
	return d.Driver.MemcpyDtoHAsync(ctx, dst, src, n, s)
}

func (d *countingDriver) Submit(ctx cu.Context, b *cu.Batch) (int, error) {
	d.calls.Add(int64(b.Len()))
	return d.Driver.Submit(ctx, b)
}

// TestCopyAllPageableBlocked: on a blocked stream, CopyAll of pageable sources returns when
// it has read them, and with a pageable destination it waits for the stream. Page-locked
// pairs are in flight.
func TestCopyAllPageableBlocked(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	const n, count = 10_000, 20
	device := must(ferry.Alloc[byte](g, n*count))(t)
	host := must(ferry.AllocHost[byte](g, n, nil))(t)
	fillRandom(host.Slice())
	src, dst := make([]byte, n*count), make([]byte, n*count)
	fillRandom(src)
	want := bytes.Clone(src)
	copy(want, host.Slice())
	up := []ferry.Pair[byte]{{Dst: device.Range(0, n), Src: host}}
	var down []ferry.Pair[byte]
	for i := range count {
		if i > 0 {
			up = append(up, ferry.Pair[byte]{Dst: device.Range(i*n, (i+1)*n), Src: ferry.Pageable(src[i*n : (i+1)*n])})
		}
		down = append(down, ferry.Pair[byte]{Dst: ferry.Pageable(dst[i*n : (i+1)*n]), Src: device.Range(i*n, (i+1)*n)})
	}
	open := gate(t, s)
	check(t, ferry.CopyAll(s, up)) // returns although the gate is shut
	clear(src)
	waits(t, "CopyAll to pageable memory", open, func() { check(t, ferry.CopyAll(s, down)) })
	wantBytes(t, dst, want)
	open = gate(t, s)
	check(t, ferry.CopyAll(s, up))
	waits(t, "Slice", open, func() { host.Slice() })
	closeAll(t, device, host, s)
}

// TestCopyAllPageableRefused: a bad pair beside pageable ones is refused by its number, and
// nothing is copied. So is pageable memory on a batch and in a capture. Empty slices are
// not refused.
func TestCopyAllPageableRefused(t *testing.T) {
	x := newBatchFixture(t, openTest(t))
	ones := make([]float32, batchFloats)
	for i := range ones {
		ones[i] = 1
	}
	good := ferry.Pair[float32]{Dst: x.vec, Src: ferry.Pageable(ones)}
	check(t, ferry.Fill(x.stream, x.vec, 3))
	unchanged := func(what string) {
		t.Helper()
		if got := must(ferry.Download(x.vec))(t); got[0] != 3 || got[batchFloats-1] != 3 {
			t.Errorf("%s: the other pair was copied", what)
		}
	}
	for _, bad := range []ferry.Pair[float32]{
		{Dst: x.out.Range(0, 5), Src: ferry.Pageable(make([]float32, 4))},
		{Dst: x.out.Range(0, 5), Src: ferry.Pageable(make([]float32, 4)).Range(0, 5)},
		{Dst: ferry.Pageable(make([]float32, 5))},
	} {
		wantError(t, ferry.CopyAll(x.stream, []ferry.Pair[float32]{good, bad}), cu.ErrorInvalidValue, "copy 2 of 2")
		unchanged("a bad pair")
	}
	var b ferry.Batch
	wantError(t, ferry.CopyAll(&b, []ferry.Pair[float32]{{Dst: x.out, Src: x.vec}, good}), cu.ErrorInvalidValue, "copy 2 of 2", "a batch cannot keep pageable memory", "CopyAll on a Stream")
	graph := must(x.stream.Capture(func(s *ferry.Stream) error {
		wantError(t, ferry.CopyAll(s, []ferry.Pair[float32]{{Dst: x.out, Src: x.vec}, good}), cu.ErrorInvalidValue, "copy 2 of 2", "cannot keep pageable memory")
		return ferry.CopyAll(s, []ferry.Pair[float32]{{Dst: ferry.Pageable([]float32{}), Src: x.vec.Range(0, 0)}})
	}))(t)
	closeAll(t, graph)
	unchanged("a capture")

	for _, none := range [][]float32{nil, {}} {
		empty := []ferry.Pair[float32]{
			{Dst: x.vec.Range(1, 1), Src: ferry.Pageable(none)}, {Dst: ferry.Pageable(none), Src: x.vec.Range(1, 1)},
			{Dst: ferry.Pageable(none), Src: ferry.Pageable(none)}, {Dst: ferry.Pageable(none), Src: x.out.Range(1, 1)},
		}
		check(t, ferry.CopyAll(x.stream, empty))
		check(t, ferry.CopyAll(x.stream, append(empty, good)))
		b.Reset()
		check(t, ferry.CopyAll(&b, empty))
		check(t, x.stream.Submit(&b))
		if got := must(ferry.Download(x.vec))(t); got[0] != 1 || got[batchFloats-1] != 1 {
			t.Error("the pair beside empty ones was not copied")
		}
	}
}

// refusingCopies refuses the calls that copy to or from certain device addresses.
type refusingCopies struct {
	cu.Driver
	from, to cu.DevicePtr
	batches  bool // refuses cuMemcpyBatchAsync and kernels as well, where they would copy these
}

func (d *refusingCopies) Unwrap() cu.Driver { return d.Driver }

func (d *refusingCopies) refuses(p cu.DevicePtr) bool { return d.from <= p && p < d.to }

func (d *refusingCopies) Submit(ctx cu.Context, b *cu.Batch) (int, error) {
	for i, c := range b.Calls() {
		if d.refuses(c.Dst) || d.refuses(c.Src) || d.batches && c.Op == cu.OpLaunchKernel {
			return i, cu.ErrorNotMapped
		}
	}
	return d.Driver.Submit(ctx, b)
}

func (d *refusingCopies) MemcpyBatchAsync(ctx cu.Context, dsts, srcs []cu.DevicePtr, sizes []uintptr, stream cu.Stream) error {
	if d.batches {
		return cu.ErrorNotMapped
	}
	return d.Driver.MemcpyBatchAsync(ctx, dsts, srcs, sizes, stream)
}

// TestCopyAllPageableError: the error of a copy that the driver refuses in the middle names
// the pair, and where the driver refuses only the calls for many copies, single calls make
// them. The stream and the memory can be used afterwards.
func TestCopyAllPageableError(t *testing.T) {
	d := &refusingCopies{Driver: softDriver(t, "h200", 1, softgpu.Random), batches: true}
	g := must(ferry.OpenDriver(d, 0))(t)
	s := must(ferry.NewStream(g, nil))(t)
	const count, n = 40, 700_001
	device := must(ferry.Alloc[byte](g, count*n))(t)
	memory := make([]byte, count*n)
	fillRandom(memory)
	want := bytes.Clone(memory)
	for _, size := range []int{5000, n} {
		var up, down []ferry.Pair[byte]
		for i := range count {
			up = append(up, ferry.Pair[byte]{Dst: device.Range(i*n, i*n+size), Src: ferry.Pageable(memory[i*n : i*n+size])})
			down = append(down, ferry.Pair[byte]{Dst: up[i].Src, Src: up[i].Dst})
		}
		d.from, d.to = device.Pointer()+30*n, device.Pointer()+31*n
		for name, pairs := range map[string][]ferry.Pair[byte]{"in": up, "out": down} {
			err := ferry.CopyAll(s, pairs)
			wantError(t, err, cu.ErrorNotMapped, "copy 31 of 40", "a pageable slice", "device buffer", "stream 1")
			if t.Failed() {
				t.Fatal(name)
			}
		}
		d.from, d.to = 0, 0
		copy(memory, want)
		check(t, ferry.CopyAll(s, up))
		clear(memory)
		check(t, ferry.CopyAll(s, down))
		for i := range count {
			if at := i * n; !bytes.Equal(memory[at:at+size], want[at:at+size]) {
				t.Fatalf("slice %d of %d bytes differs", i, size)
			}
		}
		closeAll(t, must(ferry.Register(g, memory, nil))(t)) // waits for ever if the memory is still held
		copy(memory, want)
	}
	closeAll(t, device, s, g)
}

// TestCopyAllPageableBusyRing: where a copy on a blocked stream has all slots of the staging
// ring, CopyAll on another stream copies nevertheless, in both directions.
func TestCopyAllPageableBusyRing(t *testing.T) {
	g := openTest(t)
	blocked, s := must(ferry.NewStream(g, nil))(t), must(ferry.NewStream(g, nil))(t)
	const n, count = 72 << 20, 60
	device, other := must(ferry.Alloc[byte](g, n))(t), must(ferry.Alloc[byte](g, n))(t)
	want, all, got := make([]byte, n), make([]byte, n), make([]byte, n)
	fillRandom(want)
	check(t, ferry.Copy(s, ferry.Pageable(got), device)) // allocates all slots
	check(t, g.Wait(context.Background()))
	clear(got)
	open := gate(t, blocked)
	done := make(chan error, 1)
	go func() { done <- ferry.Copy(blocked, ferry.Pageable(all), device) }()
	time.Sleep(shortWait) // by then it has all slots, and waits
	var up, down []ferry.Pair[byte]
	for i := range count {
		from, to := i*(n/count), (i+1)*(n/count)
		up = append(up, ferry.Pair[byte]{Dst: other.Range(from, to), Src: ferry.Pageable(want[from:to])})
		down = append(down, ferry.Pair[byte]{Dst: ferry.Pageable(got[from:to]), Src: other.Range(from, to)})
	}
	copied := make(chan error, 1)
	go func() { copied <- errors.Join(ferry.CopyAll(s, up), ferry.CopyAll(s, down)) }()
	select {
	case err := <-copied:
		check(t, err)
	case <-time.After(timeout):
		t.Fatal("CopyAll waits for the blocked stream")
	}
	if to := n / count * count; !bytes.Equal(got[:to], want[:to]) {
		t.Error("the bytes differ")
	}
	open()
	check(t, <-done)
	closeAll(t, device, other, blocked, s)
}

// TestCopyAllPageableOfBuffer: a pageable slice of page-locked or registered memory is a
// range of that buffer: CopyAll does not wait, and the copy is in flight on the buffer.
func TestCopyAllPageableOfBuffer(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	host, device := must(ferry.AllocHost[byte](g, 10_000, nil))(t), must(ferry.Alloc[byte](g, 10_000))(t)
	fillRandom(host.Slice())
	want := bytes.Clone(host.Slice()[1:5000])
	open := gate(t, s)
	check(t, ferry.CopyAll(s, []ferry.Pair[byte]{{Dst: device.Range(0, 4999), Src: ferry.Pageable(host.ReadSlice()[1:5000])}}))
	waits(t, "Slice of memory that was copied as a pageable slice", open, func() { host.Slice() })
	if got := must(ferry.Download(device))(t); !bytes.Equal(got[:4999], want) {
		t.Error("the bytes differ")
	}
	if n, err := g.Attribute(cu.DeviceAttributeHostRegisterSupported); err == nil && n == 0 {
		t.Skip("the device cannot register memory")
	}
	memory, back := make([]byte, 10_000), make([]byte, 6000)
	fillRandom(memory)
	registered := must(ferry.Register(g, memory[2000:8000], nil))(t)
	across := memory[1000:7000] // partly in the buffer
	check(t, ferry.CopyAll(s, []ferry.Pair[byte]{{Dst: device.Range(0, 6000), Src: ferry.Pageable(across)}}))
	check(t, ferry.CopyAll(s, []ferry.Pair[byte]{{Dst: ferry.Pageable(back), Src: device.Range(0, 6000)}}))
	wantBytes(t, back, across)
	closeAll(t, registered, host, device, s)
}

// TestCopyAllPageableRegistering: goroutines copy the same slices in different orders, two
// of them together and one of them one by one, while others register them and close the
// registrations. No call waits for ever, and the bytes arrive.
func TestCopyAllPageableRegistering(t *testing.T) {
	g := openTest(t)
	if n, err := g.Attribute(cu.DeviceAttributeHostRegisterSupported); err == nil && n == 0 {
		t.Skip("the device cannot register memory")
	}
	const n, count = 16 << 10, 24
	memory := make([]byte, n*count)
	fillRandom(memory)
	rounds := 60
	if testing.Short() {
		rounds = 15
	}
	var all, copying sync.WaitGroup
	var stop atomic.Bool
	for i := range 3 {
		copying.Go(func() {
			s, err := ferry.NewStream(g, nil)
			device, failed := ferry.Alloc[byte](g, n*count)
			if err = errors.Join(err, failed); err != nil {
				t.Error(err)
				return
			}
			luck := rand.New(rand.NewPCG(1, uint64(i)))
			for range rounds {
				var up []ferry.Pair[byte]
				for _, k := range luck.Perm(count) {
					up = append(up, ferry.Pair[byte]{Dst: device.Range(k*n, (k+1)*n), Src: ferry.Pageable(memory[k*n : (k+1)*n])})
				}
				if i < 2 {
					err = ferry.CopyAll(s, up)
				} else {
					for _, p := range up {
						err = errors.Join(err, ferry.Copy(s, p.Dst, p.Src))
					}
				}
				if err != nil {
					t.Error(err)
					return
				}
				got, err := ferry.Download(device)
				if err != nil || !bytes.Equal(got, memory) {
					t.Errorf("the bytes differ, or %v", err)
				}
			}
			if err := errors.Join(device.Close(), s.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range 2 {
		all.Go(func() {
			luck := rand.New(rand.NewPCG(2, uint64(i)))
			for ; !stop.Load(); runtime.Gosched() { // all share one thread on js/wasm
				from := luck.IntN(n * count)
				h, err := ferry.Register(g, memory[from:min(len(memory), from+1+luck.IntN(4*n))], nil)
				if err == nil {
					err = h.Close()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { copying.Wait(); stop.Store(true); all.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(2 * timeout):
		t.Fatal("copies and registrations wait for each other")
	}
}

// TestCopyAllPageableTwoGPUs: pageable slices are copied to and from memory of both GPUs.
func TestCopyAllPageableTwoGPUs(t *testing.T) {
	onTwoGPUs(t, func(t *testing.T, a, b *ferry.GPU) {
		s := must(ferry.NewStream(a, nil))(t)
		const n, count = 5000, 20
		near, far := must(ferry.Alloc[byte](a, n*count))(t), must(ferry.Alloc[byte](b, n*count))(t)
		defer closeAll(t, near, far, s)
		want, got := make([]byte, 2*n*count), make([]byte, 2*n*count)
		fillRandom(want)
		var up, down []ferry.Pair[byte]
		for i := range 2 * count {
			device := []*ferry.Device[byte]{near, far}[i%2].Range(i/2*n, (i/2+1)*n)
			up = append(up, ferry.Pair[byte]{Dst: device, Src: ferry.Pageable(want[i*n : (i+1)*n])})
			down = append(down, ferry.Pair[byte]{Dst: ferry.Pageable(got[i*n : (i+1)*n]), Src: device})
		}
		check(t, errors.Join(ferry.CopyAll(s, up), ferry.CopyAll(s, down)))
		wantBytes(t, got, want)
	})
}

// TestCopyAllPageableClosed: a pair with a closed buffer is refused, and after that the
// memory of the other pairs is not held.
func TestCopyAllPageableClosed(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	device, closed := must(ferry.Alloc[byte](g, 5000))(t), must(ferry.Alloc[byte](g, 5000))(t)
	closeAll(t, closed)
	memory := make([]byte, 5000)
	err := ferry.CopyAll(s, []ferry.Pair[byte]{{Dst: device, Src: ferry.Pageable(memory)}, {Dst: closed, Src: ferry.Pageable(memory)}})
	wantError(t, err, ferry.ErrClosed, "copy 2 of 2")
	if strings.Contains(err.Error(), "copy to copy") {
		t.Error(err)
	}
	closeAll(t, must(ferry.Register(g, memory, nil))(t), device, s)
	wantError(t, ferry.CopyAll(s, []ferry.Pair[byte]{{Dst: device, Src: ferry.Pageable(memory)}}), ferry.ErrClosed, "stream 1")
}
