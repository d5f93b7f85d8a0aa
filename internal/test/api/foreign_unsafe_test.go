package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/internal/test/sample"
	"github.com/ferrygpu/ferry/pipeline"
	"github.com/ferrygpu/ferry/softgpu"
)

// foreignKinds are ways in which another library can make memory that the driver knows and
// Ferry does not. free undoes make.
var foreignKinds = []struct {
	name  string
	needs cu.DeviceAttribute
	make  func(t *testing.T, g *ferry.GPU, n int) (memory []byte, free func() error)
}{
	{"page-locked", 0, func(t *testing.T, g *ferry.GPU, n int) ([]byte, func() error) {
		p := must(g.Driver().MemHostAlloc(g.CUContext(), uintptr(n), 0))(t)
		return unsafe.Slice((*byte)(p), n), func() error { return g.Driver().MemFreeHost(g.CUContext(), p) }
	}},
	{"registered", cu.DeviceAttributeHostRegisterSupported, func(t *testing.T, g *ferry.GPU, n int) ([]byte, func() error) {
		memory := make([]byte, n+64)[32 : 32+n]
		p := unsafe.Pointer(&memory[0])
		check(t, g.Driver().MemHostRegister(g.CUContext(), p, uintptr(n), 0))
		return memory, func() error { return g.Driver().MemHostUnregister(g.CUContext(), p) }
	}},
	{"managed", cu.DeviceAttributeConcurrentManagedAccess, func(t *testing.T, g *ferry.GPU, n int) ([]byte, func() error) {
		p := must(g.Driver().MemAllocManaged(g.CUContext(), uintptr(n), cu.MemAttachGlobal))(t)
		return unsafe.Slice((*byte)(hostPointer(p)), n), func() error { return g.Driver().MemFree(g.CUContext(), p) }
	}},
}

// foreignWays are the functions of Ferry that copy a pageable slice to a device buffer of the
// same length and back.
var foreignWays = []struct {
	name    string
	in, out func(ctx context.Context, s *ferry.Stream, d *ferry.Device[byte], slice []byte) error
}{
	{"Copy", func(_ context.Context, s *ferry.Stream, d *ferry.Device[byte], slice []byte) error {
		return ferry.Copy(s, d, ferry.Pageable(slice))
	}, func(_ context.Context, s *ferry.Stream, d *ferry.Device[byte], slice []byte) error {
		return ferry.Copy(s, ferry.Pageable(slice), d)
	}},
	{"CopyContext", func(ctx context.Context, s *ferry.Stream, d *ferry.Device[byte], slice []byte) error {
		return ferry.CopyContext(ctx, s, d, ferry.Pageable(slice))
	}, func(ctx context.Context, s *ferry.Stream, d *ferry.Device[byte], slice []byte) error {
		return ferry.CopyContext(ctx, s, ferry.Pageable(slice), d)
	}},
	{"CopyAll of 1", copyAllIn(1), copyAllOut(1)},
	{"CopyAll of 3", copyAllIn(3), copyAllOut(3)},
	{"CopyAll of 40", copyAllIn(40), copyAllOut(40)},
	{"CopyRect", func(_ context.Context, s *ferry.Stream, d *ferry.Device[byte], slice []byte) error {
		return inRows(d, slice, func(to, from ferry.Rect[byte]) error { return ferry.CopyRect(s, to, from) })
	}, func(_ context.Context, s *ferry.Stream, d *ferry.Device[byte], slice []byte) error {
		return inRows(d, slice, func(to, from ferry.Rect[byte]) error { return ferry.CopyRect(s, from, to) })
	}},
	{"CopyFrom and CopyTo", func(ctx context.Context, s *ferry.Stream, d *ferry.Device[byte], slice []byte) error {
		_, err := ferry.CopyFrom(ctx, s, d, bytes.NewReader(slice))
		return err
	}, func(ctx context.Context, s *ferry.Stream, d *ferry.Device[byte], slice []byte) error {
		_, err := ferry.CopyTo(ctx, s, &sliceWriter{slice}, d)
		return err
	}},
}

// sliceWriter writes to a slice.
type sliceWriter struct{ rest []byte }

func (w *sliceWriter) Write(p []byte) (int, error) {
	n := copy(w.rest, p)
	w.rest = w.rest[n:]
	return n, nil
}

func copyAllIn(parts int) func(context.Context, *ferry.Stream, *ferry.Device[byte], []byte) error {
	return func(_ context.Context, s *ferry.Stream, d *ferry.Device[byte], slice []byte) error {
		return ferry.CopyAll(s, foreignPairs(d, slice, parts, true))
	}
}

func copyAllOut(parts int) func(context.Context, *ferry.Stream, *ferry.Device[byte], []byte) error {
	return func(_ context.Context, s *ferry.Stream, d *ferry.Device[byte], slice []byte) error {
		return ferry.CopyAll(s, foreignPairs(d, slice, parts, false))
	}
}

// foreignPairs divides a copy into pairs.
func foreignPairs(d *ferry.Device[byte], slice []byte, parts int, in bool) (pairs []ferry.Pair[byte]) {
	for i := range parts {
		from, to := len(slice)*i/parts, len(slice)*(i+1)/parts
		p := ferry.Pair[byte]{Dst: d.Range(from, to), Src: ferry.Pageable(slice[from:to])}
		if !in {
			p.Dst, p.Src = p.Src, p.Dst
		}
		pairs = append(pairs, p)
	}
	return pairs
}

// inRows calls f with rectangles that have gaps, and then for the bytes in the gaps.
func inRows(d *ferry.Device[byte], slice []byte, f func(device, host ferry.Rect[byte]) error) error {
	const width, pitch = 48, 64
	rect := func(m ferry.Memory[byte], width, height int) ferry.Rect[byte] {
		return ferry.Rect[byte]{Memory: m, Width: width, Height: height, Pitch: pitch}
	}
	height, n := len(slice)/pitch, len(slice)
	if height == 0 {
		return f(rect(d, n, 1), rect(ferry.Pageable(slice), n, 1))
	}
	rest := d.Range(height*pitch, n)
	return errors.Join(f(rect(d, width, height), rect(ferry.Pageable(slice), width, height)),
		f(rect(d.Range(width, n), pitch-width, height), rect(ferry.Pageable(slice[width:]), pitch-width, height)),
		f(rect(rest, rest.Len(), 1), rect(ferry.Pageable(slice[height*pitch:]), rest.Len(), 1)))
}

// foreignSizes are on both sides of the sizes at which copies change their path.
var foreignSizes = []int{1, 100, 1 << 10, 4 << 10, 16<<10 + 1, 64 << 10, 64<<10 + 1, 256 << 10, 1 << 20, 16 << 20}

// TestForeignMemory: a copy of a pageable slice keeps its promise also if another library has
// page-locked the memory: the source may change when the call has returned, and the
// destination is there. The driver copies such memory later.
func TestForeignMemory(t *testing.T) {
	schedules := []string{"eager", "lazy", "random:1"}
	if sample.Race() {
		schedules = sample.Of(t, schedules, 1)
	}
	for _, text := range schedules {
		testForeignMemory(t, text, openSoft(t, "h200", must(softgpu.ParseSchedule(text))(t)))
	}
	testForeignMemory(t, "any device", openTest(t))
}

func testForeignMemory(t *testing.T, name string, g *ferry.GPU) {
	t.Helper()
	s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
	for _, kind := range foreignKinds {
		if kind.needs != 0 && must(g.Attribute(kind.needs))(t) == 0 {
			continue
		}
		for _, n := range foreignSizes {
			if !sample.Full() && n > 1<<20 && name != "any device" || sample.Race() && n > 64<<10 { // the race detector takes 10 times as long
				continue
			}
			memory, free := kind.make(t, g, n)
			for i, way := range foreignWays {
				if i > 0 && n > 1<<20 {
					break
				}
				x := foreignCopy{t, fmt.Sprintf("%s, %s, %s memory of %d bytes", name, way.name, kind.name, n), g, s, memory}
				x.in(way.in)
				x.out(way.out)
			}
			check(t, free())
			if kind.name == "registered" { // ordinary memory again, at the same address
				x := foreignCopy{t, fmt.Sprintf("%s, memory of %d bytes that was registered", name, n), g, s, memory}
				x.in(foreignWays[0].in)
				x.out(foreignWays[0].out)
			}
		}
	}
	closeAll(t, s)
}

// foreignCopy is a copy of memory beside a stream that does not advance at first.
type foreignCopy struct {
	t      *testing.T
	what   string
	g      *ferry.GPU
	s      *ferry.Stream
	memory []byte
}

// behindGate calls f on a stream that goes on a little later, when f waits or has returned.
func (x *foreignCopy) behindGate(f func(ctx context.Context) error) {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.t.Context(), timeout)
	defer cancel()
	open := gateFor(x.t, x.s)
	time.AfterFunc(time.Millisecond, func() { open() })
	check(x.t, f(ctx))
}

// in copies to the device and changes the source when the call has returned.
func (x *foreignCopy) in(copyIn func(context.Context, *ferry.Stream, *ferry.Device[byte], []byte) error) {
	x.t.Helper()
	d := must(ferry.Alloc[byte](x.g, len(x.memory)))(x.t)
	fillRandom(x.memory)
	want := bytes.Clone(x.memory)
	x.behindGate(func(ctx context.Context) error {
		err := copyIn(ctx, x.s, d, x.memory)
		for i := range x.memory {
			x.memory[i] ^= 0xff
		}
		return err
	})
	check(x.t, x.s.Wait(x.t.Context()))
	if got := must(ferry.Download(d))(x.t); !bytes.Equal(got, want) {
		x.t.Errorf("%s: the device has bytes that were written to the source later", x.what)
	}
	closeAll(x.t, d)
}

// out copies from the device and looks at the destination when the call has returned.
func (x *foreignCopy) out(copyOut func(context.Context, *ferry.Stream, *ferry.Device[byte], []byte) error) {
	x.t.Helper()
	want := make([]byte, len(x.memory))
	fillRandom(want)
	d := must(ferry.Upload(x.g, want))(x.t)
	for i := range x.memory {
		x.memory[i] = want[i] ^ 0xff
	}
	x.behindGate(func(ctx context.Context) error {
		err := copyOut(ctx, x.s, d, x.memory)
		if !bytes.Equal(x.memory, want) {
			x.t.Errorf("%s: the destination has not all bytes when the call has returned", x.what)
		}
		return err
	})
	check(x.t, x.s.Wait(x.t.Context()))
	closeAll(x.t, d)
}

// TestForeignUpload: Upload and a pipeline, too, have read a slice when they return, and a
// pipeline has written its output.
func TestForeignUpload(t *testing.T) {
	for _, g := range []*ferry.GPU{openSoft(t, "h200", softgpu.Lazy), openTest(t)} {
		for _, kind := range foreignKinds {
			if kind.needs != 0 && must(g.Attribute(kind.needs))(t) == 0 {
				continue
			}
			for _, n := range []int{1 << 10, 64 << 10, 3 << 20} {
				memory, free := kind.make(t, g, n)
				output, freeOutput := kind.make(t, g, n)
				fillRandom(memory)
				want := bytes.Clone(memory)
				d := must(ferry.Upload(g, memory))(t)
				p := pipeline.Pipeline{GPU: g, In: []pipeline.End{ferry.Pageable(memory)}, Out: []pipeline.End{ferry.Pageable(output)}, InPlace: true,
					Step: func(*ferry.Stream, *pipeline.Chunk) error { return nil }}
				must(p.Run(t.Context()))(t)
				clear(memory)
				check(t, p.Close())
				if !bytes.Equal(output, want) {
					t.Errorf("%v, %s memory: the output of a pipeline of %d bytes differs", g, kind.name, n)
				}
				if got := must(ferry.Download(d))(t); !bytes.Equal(got, want) {
					t.Errorf("%v, %s memory: Upload of %d bytes differs", g, kind.name, n)
				}
				closeAll(t, d)
				check(t, errors.Join(free(), freeOutput()))
			}
		}
	}
}

// TestForeignEdge: the driver decides by the first byte of a slice whether its memory is
// page-locked. A slice that begins before a registration is copied as ordinary memory. One that
// leaves a registration is refused, and nothing is copied.
func TestForeignEdge(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeHostRegisterSupported)
	const n, from, to = 64 << 10, 20 << 10, 40 << 10
	for _, g := range []*ferry.GPU{openSoft(t, "h200", softgpu.Lazy), openTest(t)} {
		s := must(ferry.NewStream(g, &ferry.StreamOptions{NonBlocking: true}))(t)
		memory := make([]byte, n)
		p := unsafe.Pointer(&memory[from])
		check(t, g.Driver().MemHostRegister(g.CUContext(), p, to-from, 0))
		for _, r := range [][2]int{{0, n}, {from - 100, from + 100}, {from - 1, to}, {0, to}, {from, to}, {to - 100, to}, {to, n}} {
			x := foreignCopy{t, fmt.Sprintf("bytes %d to %d, registered are %d to %d", r[0], r[1], from, to), g, s, memory[r[0]:r[1]]}
			x.in(foreignWays[0].in)
			x.out(foreignWays[0].out)
		}
		d := must(ferry.Alloc[byte](g, 200))(t)
		before := slices.Clone(memory)
		wantError(t, ferry.Copy(s, d, ferry.Pageable(memory[to-100:to+100])), cu.ErrorInvalidValue)
		wantError(t, ferry.Copy(s, ferry.Pageable(memory[to-100:to+100]), d), cu.ErrorInvalidValue)
		check(t, s.Wait(t.Context()))
		if !bytes.Equal(memory, before) {
			t.Errorf("%v: a copy that was refused has changed the memory", g)
		}
		check(t, g.Driver().MemHostUnregister(g.CUContext(), p))
		closeAll(t, d, s)
	}
}

// asByteArrays is the memory of a slice, as arrays of one byte.
func asByteArrays[T any](s []T) [][1]byte {
	return unsafe.Slice((*[1]byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}

// asBytes is the memory of a slice.
func asBytes[T any](s []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}

// hostPointer is a device address that is a host address, too.
func hostPointer(p cu.DevicePtr) unsafe.Pointer {
	n := uintptr(p)
	return *(*unsafe.Pointer)(unsafe.Pointer(&n))
}

// deviceAddress is a host address as the device address that it is under unified addressing.
func deviceAddress(p cu.HostPtr) cu.DevicePtr { return cu.DevicePtr(uintptr(p)) }

// pointerTo is the host address of a slice. The caller keeps the slice alive.
func pointerTo(b []byte) cu.HostPtr { return unsafe.Pointer(unsafe.SliceData(b)) }
