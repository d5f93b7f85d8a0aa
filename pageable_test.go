package ferry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// stagedSizes are on both sides of the sizes at which copies of pageable memory change their
// path.
var stagedSizes = []int{1, 4096, 16 << 10, 16<<10 + 1, 300_001, 2 << 20, 2<<20 + 1, 4<<20 + 1, 9<<20 + 7}

// TestStagedCopies: pageable memory of every size arrives on the device and comes back, under
// every schedule.
func TestStagedCopies(t *testing.T) {
	for _, schedule := range []softgpu.Schedule{softgpu.Eager, softgpu.Lazy, softgpu.Random} {
		g := openSoft(t, "h200", schedule)
		testStagedCopies(t, g)
	}
	testStagedCopies(t, openTest(t))
}

func testStagedCopies(t *testing.T, g *ferry.GPU) {
	t.Helper()
	s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	device := must(ferry.Alloc[byte](g, stagedSizes[len(stagedSizes)-1]))(t)
	for _, n := range stagedSizes {
		want, got := make([]byte, n), make([]byte, n)
		fillRandom(want)
		src := bytes.Clone(want)
		check(t, ferry.Fill(s, device, byte(0xee)))
		check(t, ferry.Copy(s, device.Range(0, n), ferry.Pageable(src)))
		clear(src) // Copy has returned, so it has been read
		check(t, ferry.Copy(s, ferry.Pageable(got), device.Range(0, n)))
		if !bytes.Equal(got, want) {
			t.Errorf("%v, %d bytes: the bytes differ", g, n)
		}
	}
	closeAll(t, device, s)
}

// TestStagedBesideBlockedStream: copies on a blocked stream have slots of the staging ring. One
// copy to the device has half of them, many copies have all, and one from the device has all.
// Copies on other streams work nevertheless.
func TestStagedBesideBlockedStream(t *testing.T) {
	g := openTest(t)
	blocked, s := must(ferry.NewStream(g, nil))(t), must(ferry.NewStream(g, nil))(t)
	const n = 72 << 20 // more than the slots have room for
	device, other := must(ferry.Alloc[byte](g, n))(t), must(ferry.Alloc[byte](g, n))(t)
	want, all, got := make([]byte, n), make([]byte, n), make([]byte, n)
	fillRandom(want)
	for _, occupy := range []func() error{
		func() error { return ferry.Copy(blocked, device, ferry.Pageable(want)) },
		func() error {
			for off := 0; off < n; off += 1 << 20 { // each has a slot until its stream advances
				if err := ferry.Copy(blocked, device.Range(off, off+1<<20), ferry.Pageable(want[off:off+1<<20])); err != nil {
					return err
				}
			}
			return nil
		},
		func() error { return ferry.Copy(blocked, ferry.Pageable(all), device) },
	} {
		check(t, ferry.Copy(s, ferry.Pageable(got), device)) // allocates all slots
		check(t, g.Wait(context.Background()))               // frees them
		clear(got)
		open := gate(t, blocked)
		done := make(chan error, 1)
		go func() { done <- occupy() }()
		time.Sleep(20 * time.Millisecond) // by then it has its slots, and waits
		copied := make(chan error, 1)
		go func() {
			copied <- errors.Join(ferry.Copy(s, other, ferry.Pageable(want)), ferry.Copy(s, ferry.Pageable(got), other))
		}()
		select {
		case err := <-copied:
			check(t, err)
		case <-time.After(timeout):
			t.Fatal("a copy waits for the blocked stream")
		}
		if !bytes.Equal(got, want) {
			t.Error("the bytes of the other stream differ")
		}
		open()
		check(t, <-done)
	}
	if !bytes.Equal(all, want) {
		t.Error("the bytes of the blocked stream differ")
	}
	closeAll(t, device, other, blocked, s)
}

// TestStagedInBlockedStream: copies on a blocked stream do not overwrite the slots of copies
// before them, although the stream had completed all work before it was blocked.
func TestStagedInBlockedStream(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	const n, copies = 3 << 20, 2 // few enough that all get slots
	device := must(ferry.Alloc[byte](g, copies*n))(t)
	want, got := make([]byte, copies*n), make([]byte, copies*n)
	check(t, ferry.Copy(s, device, ferry.Pageable(want)))
	check(t, s.Wait(t.Context()))
	fillRandom(want)
	open := gate(t, s)
	for i := 0; i < len(want); i += n {
		check(t, ferry.Copy(s, device.Range(i, i+n), ferry.Pageable(want[i:i+n])))
	}
	open()
	check(t, ferry.Copy(s, ferry.Pageable(got), device))
	if !bytes.Equal(got, want) {
		t.Error("the bytes differ")
	}
	closeAll(t, device, s)
}

// TestStagedTime: on the software GPU a staged copy takes at most 15 % longer than one of
// page-locked memory, and the same time in each run.
func TestStagedTime(t *testing.T) {
	const n = 64 << 20
	memory := make([]byte, n)
	run := func() (first, in, out time.Duration) {
		g := openTimed(t, "h200")
		s := must(ferry.NewStream(g, nil))(t)
		device := must(ferry.Alloc[byte](g, n))(t)
		took := func(dst, src ferry.Memory[byte]) time.Duration {
			begin := g.Now()
			check(t, ferry.Copy(s, dst, src))
			check(t, s.Wait(context.Background()))
			return g.Now() - begin
		}
		first = took(device, ferry.Pageable(memory))
		for range 2 {
			in = took(device, ferry.Pageable(memory))
			out = took(ferry.Pageable(memory), device)
		}
		closeAll(t, device, s)
		return first, in, out
	}
	first, in, out := run()
	const link = 1212 * time.Microsecond // of page-locked memory
	for name, took := range map[string]time.Duration{"in": in, "out": out} {
		if took < link || took > link*115/100 {
			t.Errorf("%s takes %v, page-locked memory %v", name, took, link)
		}
	}
	if first <= in {
		t.Errorf("the first copy, which allocates slots, takes %v, a later one %v", first, in)
	}
	if f, i, o := run(); f != first || i != in || o != out {
		t.Errorf("the times are %v, %v, %v in the first run and %v, %v, %v in the second", first, in, out, f, i, o)
	}
}

// TestStagedError: the error of a copy that fails in the middle says at which byte.
func TestStagedError(t *testing.T) {
	d := &failingCopies{Driver: softDriver(t, "h200", 1, softgpu.Eager), left: 2}
	g := must(ferry.OpenDriver(d, 0))(t)
	s := must(ferry.NewStream(g, nil))(t)
	device := must(ferry.Alloc[byte](g, 8<<20))(t)
	err := ferry.Copy(s, device, ferry.Pageable(make([]byte, 8<<20)))
	wantError(t, err, cu.ErrorNotMapped, "copy 8.0 MiB", "byte 2097152")
	if err != nil && !strings.Contains(err.Error(), "pageable slice") {
		t.Error(err)
	}
	closeAll(t, device, s, g)
}

// failingCopies makes so many copies to the device and refuses the next.
type failingCopies struct {
	cu.Driver
	left int
}

func (d *failingCopies) Unwrap() cu.Driver { return d.Driver }

func (d *failingCopies) MemcpyHtoDAsync(ctx cu.Context, dst cu.DevicePtr, src cu.HostPtr, n uintptr, s cu.Stream) error {
	if d.left--; d.left < 0 {
		return cu.ErrorNotMapped
	}
	return d.Driver.MemcpyHtoDAsync(ctx, dst, src, n, s)
}

// TestPageableSliceOfBuffer: a pageable slice of page-locked memory is in flight like the
// buffer. Of a slice that lies partly in a buffer, that part is.
func TestPageableSliceOfBuffer(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	memory := make([]byte, 10000)
	kinds := map[string]*ferry.Host[byte]{"page-locked": must(ferry.AllocHost[byte](g, 4096, nil))(t)}
	if n, err := g.Attribute(cu.DeviceAttributeHostRegisterSupported); err == nil && n != 0 {
		kinds["registered"] = must(ferry.Register(g, memory[2000:8000], nil))(t)
	}
	device := must(ferry.Alloc[byte](g, 4096))(t)
	for name, host := range kinds {
		part := host.Slice()[96:4096]
		fillRandom(part)
		want := bytes.Clone(part)
		open := gate(t, s)
		check(t, ferry.Copy(s, device.Range(0, 4000), ferry.Pageable(part)))
		waits(t, "Slice of "+name+" memory copied as a pageable slice", open, func() { host.Slice() })
		clear(part)
		check(t, ferry.Copy(s, ferry.Pageable(part), device.Range(0, 4000)))
		if host.Slice(); !bytes.Equal(part, want) {
			t.Errorf("%s: the bytes differ", name)
		}
	}
	if kinds["registered"] != nil {
		for _, across := range [][]byte{memory[1999:2001], memory[7999:8001], memory[1000:5000]} {
			fillRandom(across)
			want, got := bytes.Clone(across), make([]byte, len(across))
			open := gate(t, s)
			waits(t, "a copy of a slice that lies partly in a buffer", open, func() {
				check(t, ferry.Copy(s, device.Range(0, len(across)), ferry.Pageable(across)))
				kinds["registered"].Slice()
			})
			clear(across)
			check(t, ferry.Copy(s, ferry.Pageable(got), device.Range(0, len(across))))
			check(t, ferry.Copy(s, ferry.Pageable(across), device.Range(0, len(across))))
			kinds["registered"].Slice()
			if !bytes.Equal(got, want) || !bytes.Equal(across, want) {
				t.Errorf("%d bytes, partly in a buffer: the bytes differ", len(across))
			}
		}
		check(t, ferry.Copy(s, device.Range(0, 2000), ferry.Pageable(memory[:2000])))
		check(t, ferry.Copy(s, device.Range(0, 2000), ferry.Pageable(memory[8000:])))
		closeAll(t, kinds["registered"])
		check(t, ferry.Copy(s, device.Range(0, 4000), ferry.Pageable(memory[1000:5000])))
	}
	closeAll(t, kinds["page-locked"], device, s)
}

// Copy of pageable memory does not order other streams: an event does, and so does the
// wait of Upload. This holds for every path that Copy takes, and under every schedule.
func TestPageableCopyAndOtherStream(t *testing.T) {
	for _, text := range []string{"eager", "lazy", "random:1", "random:2"} {
		g := openSoft(t, "h200", must(softgpu.ParseSchedule(text))(t))
		s, other := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t), must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
		e := must(ferry.NewEvent(g, nil))(t)
		for _, n := range []int{100, 4 << 10, 65 << 10, 300 << 10, 1 << 20, 3 << 20, 20 << 20} {
			src := bytes.Repeat([]byte{7}, n)
			device, there := must(ferry.Alloc[byte](g, n))(t), must(ferry.AllocHost[byte](g, n, nil))(t)
			check(t, ferry.Copy(s, device, ferry.Pageable(src)))
			clear(src)
			check(t, s.Record(e))
			check(t, other.WaitEvent(e))
			check(t, ferry.Copy(other, there, device))
			if got := bytes.Count(there.Slice(), []byte{7}); got != n {
				t.Errorf("%s: %d of %d bytes were there for a stream that waited for the event", text, got, n)
			}
			up := must(ferry.Upload(g, bytes.Repeat([]byte{9}, n)))(t)
			check(t, ferry.Copy(other, there, up))
			if got := bytes.Count(there.Slice(), []byte{9}); got != n {
				t.Errorf("%s: %d of %d bytes were there after Upload", text, got, n)
			}
			check(t, errors.Join(up.Close(), device.Close(), there.Close()))
		}
	}
}

// BenchmarkPageable measures copies of small pageable slices. With driver=none, which does
// nothing, all of the time is Ferry's own.
func BenchmarkPageable(b *testing.B) {
	for _, name := range []string{"none", "real"} {
		for _, n := range []int{1 << 10, 4 << 10, 16 << 10, 64 << 10} {
			for _, way := range []string{"in", "out"} {
				b.Run(fmt.Sprintf("driver=%s/bytes=%d/way=%s", name, n, way), func(b *testing.B) {
					benchmarkPageable(b, name, n, way == "in")
				})
			}
		}
	}
}

func benchmarkPageable(b *testing.B, driver string, n int, in bool) {
	var g *ferry.GPU
	if driver == "none" {
		g = openDriver(b, newFake())
	} else {
		g = openTest(b)
	}
	c := newCallFixture(b, g, n)
	slice := ferry.Pageable(make([]byte, n))
	b.ReportAllocs()
	b.SetBytes(int64(n))
	every(b, c, func() error {
		if in {
			return ferry.Copy(c.stream, c.device, slice)
		}
		return ferry.Copy(c.stream, slice, c.device)
	})
}
