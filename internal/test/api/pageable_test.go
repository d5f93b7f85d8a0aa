package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/softgpu"
)

// stagedSizes are on both sides of the sizes at which copies of pageable memory change their
// path.
var stagedSizes = []int{1, 4096, 16 << 10, 16<<10 + 1, 300_001, 2 << 20, 2<<20 + 1, 4<<20 + 1, 9<<20 + 7}

// TestStagedCopies: pageable memory of every size arrives on the device and comes back, under
// every schedule.
func TestStagedCopies(t *testing.T) {
	schedules := []softgpu.Schedule{softgpu.Eager, softgpu.Lazy, softgpu.Random}
	if sample.Race() {
		schedules = nil
	}
	for _, schedule := range schedules {
		testStagedCopies(t, openSoft(t, "h200", schedule))
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
	occupants := []func() error{
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
	}
	if sample.Race() {
		occupants = slices.Delete(occupants, 1, 2)
	}
	for _, occupy := range occupants {
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
	gputest.NeedsH200(t, "its times and sizes")
	sample.SkipRace(t)
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

// failingCopies makes as many copies to the device as left says, and refuses the next.
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
	schedules := []string{"eager", "lazy", "random:1", "random:2"}
	if sample.Race() {
		schedules = sample.Of(t, schedules, 1)
	}
	for _, text := range schedules {
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
		for _, n := range []int{1 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 8 << 20} {
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

// numbers returns a slice of from, from+1, ...
func numbers(n int, from float32) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = from + float32(i)
	}
	return s
}

// TestLaunchPageable: where kernels have access to pageable memory, a slice is an argument
// of a launch, whole, in part, in a batch, and as a slice of a buffer's memory.
func TestLaunchPageable(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the software GPU finds ordinary memory only on Linux")
	}
	const n = 3001
	for _, schedule := range []softgpu.Schedule{softgpu.Eager, softgpu.Lazy, softgpu.Random} {
		g := openSoft(t, "gh200", schedule)
		s := must(ferry.NewStream(g, nil))(t)
		m, k := load(t, g, "increment")
		defer closeAll(t, m, s)
		words := numbers(n, 1)
		all := ferry.Pageable(words)
		check(t, s.Launch(k, ferry.Cover(n, 256), all, uint64(n)))
		check(t, s.Launch(k, ferry.Cover(10, 256), all.Range(100, 110), uint64(10)))
		check(t, s.Launch(k, ferry.Cover(1, 256), all.Range(5, 5), uint64(0)))
		var b ferry.Batch
		check(t, b.Launch(k, ferry.Cover(n, 256), all, uint64(n)))
		for range 2 {
			check(t, s.Submit(&b))
		}
		check(t, s.Wait(t.Context()))
		for i, got := range words {
			want := float32(i + 4)
			if i >= 100 && i < 110 {
				want++
			}
			if got != want {
				t.Fatalf("%v: element %d is %v, want %v", schedule, i, got, want)
			}
		}
	}
}

// TestLaunchPageableOfBuffer: a slice of registered memory is in flight on its buffer.
func TestLaunchPageableOfBuffer(t *testing.T) {
	g := openSoft(t, "gh200", softgpu.Eager)
	s := must(ferry.NewStream(g, nil))(t)
	m, k := load(t, g, "increment")
	words := numbers(4096, 1)
	for name, part := range map[string][]float32{"all": words, "across its edge": words[:4000]} {
		h := must(ferry.Register(g, part[:3000], nil))(t)
		open := gate(t, s)
		check(t, s.Launch(k, ferry.Cover(len(part), 256), ferry.Pageable(part), uint64(len(part))))
		waits(t, name+": Slice", open, func() { h.Slice() })
		closeAll(t, h)
	}
	check(t, s.Wait(t.Context()))
	if words[2999] != 3002 {
		t.Errorf("element 2999 is %v", words[2999])
	}
	closeAll(t, m, s)
}

// TestLaunchPageableKeepsSlice: a slice stays alive until the launch that uses it is done,
// and not longer.
func TestLaunchPageableKeepsSlice(t *testing.T) {
	g := openSoft(t, "gh200", softgpu.Eager)
	s := must(ferry.NewStream(g, nil))(t)
	m, k := load(t, g, "increment")
	open := gate(t, s)
	pointer := func() weak.Pointer[float32] {
		words := numbers(1<<16, 1)
		check(t, s.Launch(k, ferry.Cover(len(words), 256), ferry.Pageable(words), uint64(len(words))))
		return weak.Make(&words[0])
	}()
	check(t, ferry.Fill(s, must(ferry.Alloc[byte](g, 8))(t), 0)) // the stream's own memory has other arguments now
	for range 5 {
		runtime.GC()
	}
	if pointer.Value() == nil {
		t.Error("the slice was collected while the launch was in flight")
	}
	open()
	check(t, s.Wait(t.Context()))
	eventually(t, "collected", func() bool { runtime.GC(); return pointer.Value() == nil })
	closeAll(t, m, s)
}

// TestLaunchPageableRefused: an error says why a kernel cannot use a slice.
func TestLaunchPageableRefused(t *testing.T) {
	gputest.NeedsH200(t, "kernels that cannot use ordinary memory")
	for name, part := range map[string]string{"h200": "CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS is 0", "gh200": "a graph cannot keep"} {
		g := openSoft(t, name, softgpu.Eager)
		s := must(ferry.NewStream(g, nil))(t)
		m, k := load(t, g, "increment")
		launch := func(s *ferry.Stream) error {
			return s.Launch(k, ferry.Cover(8, 8), ferry.Pageable(make([]float32, 8)), uint64(8))
		}
		if name == "h200" {
			wantError(t, launch(s), cu.ErrorInvalidValue, part, "parameter 0", "Register")
		} else {
			_, err := s.Capture(launch)
			wantError(t, err, cu.ErrorStreamCaptureUnsupported, part, "parameter 0", "Register")
		}
		closeAll(t, m, s)
	}
}

// TestSmallCopyByKernel: a small copy does not wait behind a large one of another stream, in
// either direction, and its bytes are right.
func TestSmallCopyByKernel(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeUnifiedAddressing)
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
		fillRandom(a.Slice())
		check(t, ferry.Copy(urgent, d, a))
		clear(b.Slice())
		check(t, g.Wait(context.Background()))
		check(t, copies[0]())
		check(t, copies[1]())
		check(t, urgent.Wait(context.Background()))
		done, err := bulk.Done()
		check(t, err)
		if done && g.Emulated() { // hardware may have finished by now
			t.Errorf("%s: the large copy is done when the small one is", name)
		}
		check(t, ferry.Copy(urgent, b, d))
		wantBytes(t, b.Slice(), a.Slice())
		check(t, bulk.Wait(context.Background()))
	}
}

// errorOnceDriver returns an error from StreamQuery, once.
type errorOnceDriver struct {
	cu.Driver
	err error
}

func (d *errorOnceDriver) Unwrap() cu.Driver { return d.Driver }

func (d *errorOnceDriver) StreamQuery(ctx cu.Context, s cu.Stream) error {
	if err := d.err; err != nil {
		d.err = nil
		return err
	}
	return d.Driver.StreamQuery(ctx, s)
}

// TestSmallCopyKeepsPanic: the query of the large copy's stream may return the panic of a host
// function, which the driver reports once. Wait of that stream returns it nevertheless.
func TestSmallCopyKeepsPanic(t *testing.T) {
	d := &errorOnceDriver{Driver: openTest(t).Driver()}
	g := must(ferry.OpenDriver(d, 0))(t)
	bulk, urgent := must(ferry.NewStream(g, nil))(t), must(ferry.NewStream(g, nil))(t)
	host, dev := must(ferry.AllocHost[byte](g, 8<<20, nil))(t), must(ferry.Alloc[byte](g, 8<<20))(t)
	small := must(ferry.Alloc[byte](g, 100))(t)
	defer closeAll(t, bulk, urgent, host, dev, small, g)
	check(t, ferry.Copy(bulk, dev, host))
	d.err = &cu.HostPanic{Value: "planted"}
	check(t, ferry.Copy(urgent, small, host.Range(0, 100)))
	if d.err != nil {
		t.Fatal("the stream was not queried")
	}
	err := bulk.Wait(context.Background())
	if p, ok := errors.AsType[*cu.HostPanic](err); !ok || p.Value != "planted" {
		t.Errorf("Wait returns %v, want the panic", err)
	}
}
