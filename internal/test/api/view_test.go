package api

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu"
)

// viewKinds are kinds of memory whose address is a multiple of any alignment, as views need it.
func viewKinds(g *ferry.GPU) []bytesKind {
	kinds := kindsOf(g)
	for i, k := range kinds {
		if k.name == "registered" || k.name == "registered mapped" {
			kinds[i].make = func(g *ferry.GPU, n int) (bytesMemory, error) {
				h, err := ferry.Register(g, asBytes(make([]uint64, (n+7)/8))[:n], &ferry.RegisterOptions{Mapped: k.name != "registered"})
				return hostBytes(h), err
			}
		}
	}
	return kinds
}

// asUint32 are bytes as numbers of 32 bits, in the order of the machine.
func asUint32(b []byte) (all []uint32) {
	for ; len(b) >= 4; b = b[4:] {
		all = append(all, binary.NativeEndian.Uint32(b))
	}
	return all
}

// TestView: a view has the bytes of its memory, whatever the kind. It is used as a range is, by
// copies, fills, readers and writers, and the host. A view of a range, a range of a view, and a view
// of a view begin where they should.
func TestView(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	for _, kind := range viewKinds(g) {
		t.Run(kind.name, func(t *testing.T) { testView(t, g, s, kind) })
	}
	closeAll(t, s)
}

func testView(t *testing.T, g *ferry.GPU, s *ferry.Stream, kind bytesKind) {
	const n = 4096
	m := must(kind.make(g, n))(t)
	want := make([]byte, n)
	fillRandom(want)
	m.set(t, s, want)
	check(t, s.Wait(t.Context()))
	view := ferry.View[uint32](m.Memory)
	if view.Len() != n/4 || view.Size() != n {
		t.Fatalf("%d elements, %d bytes, want %d and %d", view.Len(), view.Size(), n/4, n)
	}
	same := func(what string, got []uint32, want []byte) {
		t.Helper()
		wantBytes(t, asBytes(got), want)
		if t.Failed() {
			t.Fatal(what)
		}
	}
	same("the view", must(ferry.Download(view))(t), want)
	same("a range of the view", must(ferry.Download(view.Range(3, 99)))(t), want[12:396])
	same("a view of a range", must(ferry.Download(ferry.View[uint32](m.part(8, 48))))(t), want[8:48])
	wide := ferry.View[[3]uint64](m.part(16, 16+24*20))
	wantBytes(t, asBytes(must(ferry.Download(wide.Range(2, 20)))(t)), want[16+48:16+480])
	same("a view of a range of a view", must(ferry.Download(ferry.View[uint32](wide.Range(1, 3))))(t), want[16+24:16+72])

	device := must(ferry.Alloc[uint32](g, n/4))(t)
	fillRandom(want)
	check(t, ferry.Copy(s, device, ferry.Pageable(asUint32(want))))
	check(t, ferry.Copy(s, view, device))
	check(t, s.Wait(t.Context()))
	wantBytes(t, m.get(t, s), want)
	check(t, ferry.CopyAll(s, []ferry.Pair[uint32]{{Dst: view.Range(0, 5), Src: device.Range(100, 105)}, {Dst: view.Range(10, 15), Src: device.Range(200, 205)}}))
	copy(want, want[400:420])
	copy(want[40:60], want[800:820])
	check(t, s.Wait(t.Context()))
	wantBytes(t, m.get(t, s), want)
	rect := func(m ferry.Memory[uint32]) ferry.Rect[uint32] {
		return ferry.Rect[uint32]{Memory: m, Width: 3, Height: 4, Pitch: 8}
	}
	check(t, ferry.Fill(s, device, 7))
	check(t, ferry.CopyRect(s, rect(view), rect(device)))
	for y := range 4 {
		copy(want[y*32:], asBytes([]uint32{7, 7, 7}))
	}
	check(t, s.Wait(t.Context()))
	wantBytes(t, m.get(t, s), want)
	if kind.name != "pageable" && view.Pointer() != 0 {
		check(t, ferry.Fill(s, view.Range(4, 8), 0x01020304))
		copy(want[16:], asBytes([]uint32{0x01020304, 0x01020304, 0x01020304, 0x01020304}))
		check(t, s.Wait(t.Context()))
		wantBytes(t, m.get(t, s), want)
	}
	fillRandom(want)
	must(ferry.CopyFrom(t.Context(), s, view, bytes.NewReader(want)))(t)
	check(t, s.Wait(t.Context()))
	var out bytes.Buffer
	must(ferry.CopyTo(t.Context(), s, &out, view.Range(1, n/4)))(t)
	wantBytes(t, out.Bytes(), want[4:])
	testViewOnHost(t, m, view, want)
	closeAll(t, device)
	check(t, m.close())
	if kind.name != "pageable" {
		wantError(t, ferry.Copy(s, view, view), ferry.ErrClosed)
		wantError(t, view.Wait(t.Context()), ferry.ErrClosed)
	}
}

// testViewOnHost reads and writes the memory of a view on the host.
func testViewOnHost(t *testing.T, m bytesMemory, view *ferry.MemoryView[uint32], want []byte) {
	t.Helper()
	if m.slice == nil {
		wantError(t, sliceError(view.Slice), cu.ErrorInvalidValue, "host access", "device memory", "Download")
		wantError(t, sliceError(view.ReadSlice), cu.ErrorInvalidValue, "device memory")
		_, err := view.SliceContext(t.Context())
		wantError(t, err, cu.ErrorInvalidValue, "device memory")
		return
	}
	wantBytes(t, asBytes(view.ReadSlice()), want)
	wantBytes(t, asBytes(must(view.Range(1, 9).ReadSliceContext(t.Context()))(t)), want[4:36])
	view.Slice()[5] = 0x0a0b0c0d
	must(view.SliceContext(t.Context()))(t)[6] = 1
	copy(want[20:], asBytes([]uint32{0x0a0b0c0d, 1}))
	wantBytes(t, m.slice(), want)
}

// TestViewTracked: an operation on a view is in flight on its buffer, and one on the buffer on its
// view. Close of the buffer waits for a kernel that uses a view.
func TestViewTracked(t *testing.T) {
	g := openSoft(t, "h200", softgpu.Lazy)
	s := must(ferry.NewStream(g, nil))(t)
	module, add := load(t, g, "vector_add")
	const n = 1000
	frame, device := must(ferry.AllocHost[byte](g, 4*n, &ferry.HostOptions{Mapped: true}))(t), must(ferry.Alloc[byte](g, 4*n))(t)
	pixels, there := ferry.View[float32](frame), ferry.View[float32](device)
	for i := range pixels.Slice() {
		pixels.Slice()[i] = float32(i)
	}
	open := gate(t, s)
	check(t, ferry.Copy(s, there, pixels))
	check(t, s.Launch(add, ferry.Cover(n, 256), there, there, pixels, uint64(n)))
	waits(t, "Slice of the buffer", open, func() { frame.Slice() })
	for i, got := range pixels.ReadSlice() {
		if got != 2*float32(i) {
			t.Fatalf("element %d is %v, want %v", i, got, 2*float32(i))
		}
	}
	open = gate(t, s)
	check(t, ferry.Copy(s, frame, device))
	waits(t, "ReadSlice of the view", open, func() { pixels.ReadSlice() })
	open = gate(t, s)
	check(t, s.Launch(add, ferry.Cover(n, 256), there, there, there, uint64(n)))
	waits(t, "Close of the buffer", open, func() { check(t, device.Close()) })
	wantError(t, s.Launch(add, ferry.Cover(n, 256), there, there, there, uint64(n)), ferry.ErrClosed)
	closeAll(t, frame, module, s)
}

// TestViewRefused: every use of a view is an error if the sizes or the addresses do not fit, or if
// the type cannot be in a buffer. The error has both sizes.
func TestViewRefused(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	d := must(ferry.Alloc[byte](g, 1000))(t)
	type flag struct{ On bool }
	var none *ferry.Device[byte]
	try := func(what string, wait error, parts ...string) {
		t.Helper()
		wantError(t, wait, cu.ErrorInvalidValue, parts...)
		if t.Failed() {
			t.Fatal(what)
		}
	}
	ctx := t.Context()
	try("size", ferry.View[[3]uint32](d).Wait(ctx), "1000 bytes", "no multiple of 12", "[3]uint32")
	try("one more byte", ferry.View[uint16](d.Range(0, 3)).Wait(ctx), "3 bytes", "no multiple of 2")
	try("address", ferry.View[uint64](d.Range(4, 12)).Wait(ctx), "alignment, 8")
	try("bool", ferry.View[bool](d).Wait(ctx), "bool", "uint8")
	try("bool in a struct", ferry.View[flag](d).Wait(ctx), ".On is bool")
	try("pointer", ferry.View[*int](d).Wait(ctx), "Go pointers")
	try("no bytes", ferry.View[struct{}](d).Wait(ctx), "which have no bytes")
	try("nil", ferry.View[uint16](none).Wait(ctx), "no buffer (nil)")
	try("nil interface", ferry.View[uint16](ferry.Memory[byte](nil)).Wait(ctx), "no buffer (nil)")
	try("range of the buffer", ferry.View[uint16](d.Range(0, 1001)).Wait(ctx), "range [0:1001]")
	try("range of the view", ferry.View[uint16](d).Range(0, 501).Wait(ctx), "range [0:501]", "elements 0 to 500")
	try("pageable bool", sliceError(ferry.View[bool](ferry.Pageable(make([]byte, 8))).Slice), "bool")
	try("pageable pointers", sliceError(ferry.View[uint64](ferry.Pageable(make([]*int, 8))).Slice), "Go pointers")
	bad := ferry.View[[3]uint32](d)
	try("copy", ferry.Copy(s, bad, bad), "no multiple of 12")
	try("fill", ferry.Fill(s, bad, [3]uint32{}), "no multiple of 12")
	if bad.Len() != 0 || bad.Size() != 0 {
		t.Errorf("a view that is not valid has %d elements, %d bytes", bad.Len(), bad.Size())
	}
	empty := ferry.View[[3]uint32](d.Range(7, 7))
	check(t, empty.Wait(ctx))
	if empty.Len() != 0 || empty.Size() != 0 {
		t.Errorf("an empty view has %d elements, %d bytes", empty.Len(), empty.Size())
	}
	closeAll(t, d, s)
}

// TestHostBytes: Bytes of a page-locked buffer is its memory, and of a range the range's.
func TestHostBytes(t *testing.T) {
	g := openTest(t)
	h := must(ferry.AllocHost[float32](g, 100, nil))(t)
	for i := range h.Slice() {
		h.Slice()[i] = float32(i)
	}
	wantBytes(t, h.Bytes().Slice(), asBytes(h.Slice()))
	wantBytes(t, h.Range(10, 20).Bytes().Slice(), asBytes(h.Slice())[40:80])
	copy(h.Bytes().Range(4, 8).Slice(), asBytes([]float32{math.Pi}))
	if got := h.Slice()[1]; got != math.Pi {
		t.Errorf("element 1 is %v, want %v", got, math.Pi)
	}
	check(t, h.Bytes().Close()) // of a part: does nothing
	if err := sliceError(h.Slice); err != nil || h.Bytes().Len() != 400 {
		t.Errorf("after Close of the bytes: %v, %d bytes, want 400", err, h.Bytes().Len())
	}
	wantError(t, h.Range(90, 101).Bytes().Wait(t.Context()), cu.ErrorInvalidValue, "range [90:101]")
	closeAll(t, h)
	wantError(t, sliceError(h.Bytes().Slice), ferry.ErrClosed)
}

// TestPitchedRect: Rect of a buffer of AllocPitched has its rows. Of other buffers and of ranges
// it is one row.
func TestPitchedRect(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	const width, height = 13, 9
	d, pitch, err := ferry.AllocPitched[float32](g, width, height)
	check(t, err)
	want := ferry.Rect[float32]{Memory: d, Width: width, Height: height, Pitch: pitch}
	if got := d.Rect(); got != want || pitch == width {
		t.Errorf("got %+v, want %+v", got, want)
	}
	image, back := make([]float32, width*height), make([]float32, width*height)
	fillRandom(asBytes(image))
	here := func(s []float32) ferry.Rect[float32] {
		return ferry.Rect[float32]{Memory: ferry.Pageable(s), Width: width, Height: height}
	}
	check(t, ferry.CopyRect(s, d.Rect(), here(image)))
	check(t, ferry.CopyRect(s, here(back), d.Rect()))
	wantBytes(t, asBytes(back), asBytes(image))
	rows := d.Range(pitch, 3*pitch)
	if got, want := rows.Rect(), (ferry.Rect[float32]{Memory: rows, Width: 2 * pitch, Height: 1}); got != want {
		t.Errorf("of a range: %+v, want %+v", got, want)
	}
	plain := must(ferry.Alloc[byte](g, 10))(t)
	if got, want := plain.Rect(), (ferry.Rect[byte]{Memory: plain, Width: 10, Height: 1}); got != want {
		t.Errorf("of Alloc: %+v, want %+v", got, want)
	}
	closeAll(t, d, plain, s)
}

// TestCover2D: the grid covers the elements along both axes.
func TestCover2D(t *testing.T) {
	for _, c := range [][6]int{{1, 1, 16, 16, 1, 1}, {16, 17, 16, 16, 1, 2}, {1920, 1080, 32, 8, 60, 135}, {0, 5, 4, 4, 1, 2}} {
		got := ferry.Cover2D(c[0], c[1], c[2], c[3])
		want := ferry.LaunchConfig{Grid: cu.Dim3{X: uint32(c[4]), Y: uint32(c[5]), Z: 1}, Block: cu.Dim3{X: uint32(c[2]), Y: uint32(c[3]), Z: 1}}
		if got != want {
			t.Errorf("%v: %v, want %v", c[:4], got, want)
		}
	}
}
