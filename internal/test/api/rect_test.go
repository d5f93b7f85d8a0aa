package api

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/softgpu"
)

// layout is where a rectangle lies in memory, in elements.
type layout struct{ start, pitch, rows int }

// size returns how many elements of memory a rectangle needs, and some more.
func (l layout) size(w, h, d int) int {
	return l.start + (d-1)*l.pitch*l.rows + (h-1)*l.pitch + w + 5
}

func (l layout) rect(m bytesMemory, w, h, d int) ferry.Rect[byte] {
	return ferry.Rect[byte]{Memory: m.part(l.start, m.Len()), Width: w, Height: h, Depth: d, Pitch: l.pitch, Rows: l.rows}
}

// TestCopyRect copies rectangles, also with layers, between all kinds of memory. It compares
// every byte, also those around the rectangle.
func TestCopyRect(t *testing.T) {
	t.Run("device=test", func(t *testing.T) { testCopyRect(t, openTest(t)) })
	t.Run("device=soft:h200/schedule=lazy", func(t *testing.T) { testCopyRect(t, openSoft(t, "h200", softgpu.Lazy)) })
	t.Run("device=soft:fermi-c2050", func(t *testing.T) { testCopyRect(t, openSoft(t, "fermi-c2050", softgpu.Eager)) })
}

func testCopyRect(t *testing.T, g *ferry.GPU) {
	s := must(ferry.NewStream(g, nil))(t)
	defer closeAll(t, s)
	for _, from := range kindsOf(g) {
		for _, to := range kindsOf(g) {
			for _, shape := range [][3]int{{1, 1, 1}, {37, 11, 1}, {64, 3, 4}, {5, 1, 6}, {17, 1, 1}} {
				w, h, d := shape[0], shape[1], shape[2]
				a := layout{rand.IntN(9), w + rand.IntN(60), h + rand.IntN(3)}
				b := layout{rand.IntN(9), w + rand.IntN(60), h + rand.IntN(3)}
				if rand.IntN(4) == 0 {
					a.pitch, a.rows, b.pitch, b.rows = w, h, w, h
				}
				if err := copyRectOnce(t, g, s, from, to, a, b, w, h, d); err != nil {
					t.Errorf("%d x %d x %d bytes from %s %+v to %s %+v: %v", w, h, d, from.name, a, to.name, b, err)
				}
			}
		}
	}
}

func copyRectOnce(t *testing.T, g *ferry.GPU, s *ferry.Stream, from, to bytesKind, a, b layout, w, h, d int) error {
	src, err := from.make(g, a.size(w, h, d))
	if err != nil {
		return err
	}
	defer src.close()
	dst, err := to.make(g, b.size(w, h, d))
	if err != nil {
		return err
	}
	defer dst.close()
	data, want := make([]byte, src.Len()), make([]byte, dst.Len())
	fillRandom(data)
	fillRandom(want)
	src.set(t, s, data)
	dst.set(t, s, want)
	for z := range d {
		for y := range h {
			i, j := a.start+(z*a.rows+y)*a.pitch, b.start+(z*b.rows+y)*b.pitch
			copy(want[j:j+w], data[i:i+w])
		}
	}
	if err := ferry.CopyRect(s, b.rect(dst, w, h, d), a.rect(src, w, h, d)); err != nil {
		return err
	}
	if got := dst.get(t, s); !bytes.Equal(got, want) {
		return fmt.Errorf("the bytes differ")
	}
	if got := src.get(t, s); !bytes.Equal(got, data) {
		return fmt.Errorf("the source changed")
	}
	return nil
}

// TestCopyRectInFlight: Slice waits for a rectangle, also in memory of several registrations.
// A rectangle of pageable memory is copied when CopyRect returns.
func TestCopyRectInFlight(t *testing.T) {
	g := openRegister(t)
	s := must(ferry.NewStream(g, nil))(t)
	memory := make([]byte, 64*100)
	low, high := must(ferry.Register(g, memory[:3001], nil))(t), must(ferry.Register(g, memory[2000:5000], nil))(t)
	device := must(ferry.Alloc[byte](g, 100*100))(t)
	whole := must(ferry.Register(g, memory, nil))(t)
	for name, host := range map[string]ferry.Memory[byte]{"registered": whole, "pageable across registrations": ferry.Pageable(memory[1:])} {
		fillRandom(whole.Slice())
		want := bytes.Clone(memory[len(memory)-host.Len():])
		here := ferry.Rect[byte]{Memory: host, Width: 50, Height: 63, Pitch: 100}
		there := ferry.Rect[byte]{Memory: device.Range(7, device.Len()), Width: 50, Height: 63, Pitch: 128}
		check(t, ferry.CopyRect(s, there, here))
		clear(whole.Slice())
		open := gate(t, s)
		waits(t, "Slice of "+name, open, func() {
			check(t, ferry.CopyRect(s, here, there))
			whole.Slice()
		})
		got := memory[len(memory)-host.Len():]
		for i := range got {
			if w := want[i]; i/100 < 63 && i%100 < 50 && got[i] != w || i%100 >= 50 && got[i] != 0 {
				t.Fatalf("%s: byte %d is %d, want %d", name, i, got[i], w)
			}
		}
	}
	closeAll(t, low, high, whole, device, s)
}

// TestCopyRectRefused: rectangles with impossible sizes, or that do not lie in their memory.
func TestCopyRectRefused(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	d, h := must(ferry.Alloc[uint32](g, 1000))(t), must(ferry.AllocHost[uint32](g, 1000, nil))(t)
	good := ferry.Rect[uint32]{Memory: h, Width: 10, Height: 10, Depth: 2, Pitch: 40, Rows: 12}
	check(t, ferry.CopyRect(s, ferry.Rect[uint32]{Memory: d, Width: 10, Height: 10, Depth: 2}, good))
	for _, c := range []struct {
		rect  ferry.Rect[uint32]
		parts []string
	}{
		{ferry.Rect[uint32]{}, []string{"no buffer given"}},
		{ferry.Rect[uint32]{Memory: d, Width: -1}, []string{"-1 x 1", "cannot be negative"}},
		{ferry.Rect[uint32]{Memory: d, Width: 10, Height: 10, Depth: 2, Pitch: 9}, []string{"a pitch of 9", "rows overlap"}},
		{ferry.Rect[uint32]{Memory: d, Width: 10, Height: 10, Depth: 2, Rows: 9}, []string{"9 rows to a layer", "layers overlap"}},
		{ferry.Rect[uint32]{Memory: d, Width: 10, Height: 10, Depth: 2, Pitch: 53}, []string{"10 x 10 x 2 elements", "needs 1017 elements", "device buffer", "has 1000"}},
		{ferry.Rect[uint32]{Memory: d.Range(801, 1000), Width: 10, Height: 10, Depth: 2}, []string{"needs 200", "has 199"}},
		{ferry.Rect[uint32]{Memory: d.Range(801, 1001), Width: 10}, []string{"range [801:1001]"}},
		{ferry.Rect[uint32]{Memory: d, Width: 2, Height: math.MaxInt, Depth: math.MaxInt}, []string{"needs"}},
		{ferry.Rect[uint32]{Memory: d, Width: 10, Height: 20}, []string{"one shape", "10 x 20 x 1", "10 x 10 x 2"}},
	} {
		wantError(t, ferry.CopyRect(s, c.rect, good), cu.ErrorInvalidValue, append(c.parts, "copy")...)
		wantError(t, ferry.CopyRect(s, good, c.rect), cu.ErrorInvalidValue, append(c.parts, "copy")...)
	}
	wantError(t, ferry.CopyRect(nil, good, good), cu.ErrorInvalidValue, "no stream given")

	// the left and the right half do not overlap, although their extents do
	left := ferry.Rect[uint32]{Memory: d, Width: 10, Height: 10, Pitch: 20}
	right := ferry.Rect[uint32]{Memory: d.Range(10, 1000), Width: 10, Height: 10, Pitch: 20}
	check(t, ferry.CopyRect(s, left, right))
	shifted := ferry.Rect[uint32]{Memory: d.Range(9, 1000), Width: 10, Height: 10, Pitch: 20}
	wantError(t, ferry.CopyRect(s, left, shifted), cu.ErrorInvalidValue, "overlap")
	below := ferry.Rect[uint32]{Memory: d.Range(180, 1000), Width: 10, Height: 10, Pitch: 20}
	wantError(t, ferry.CopyRect(s, left, below), cu.ErrorInvalidValue, "overlap") // in one row
	below.Memory = d.Range(200, 1000)
	check(t, ferry.CopyRect(s, left, below))
	check(t, s.Wait(context.Background()))
	closeAll(t, d)
	wantError(t, ferry.CopyRect(s, left, good), cu.ErrorInvalidValue, "one shape")
	good.Depth = 1
	wantError(t, ferry.CopyRect(s, left, good), ferry.ErrClosed, "copy to", "device buffer")
	closeAll(t, h, s)
}

// TestCopyRectPitch: the error for a pitch that the device cannot have names the attribute.
func TestCopyRectPitch(t *testing.T) {
	d := newFake()
	d.Attributes[cu.DeviceAttributeMaxPitch] = 64
	g := openDriver(t, d)
	v, h := must(ferry.Alloc[byte](g, 1000))(t), must(ferry.AllocHost[byte](g, 1000, nil))(t)
	err := ferry.CopyRect(g.DefaultStream(), ferry.Rect[byte]{Memory: v, Width: 10, Height: 3}, ferry.Rect[byte]{Memory: h, Width: 10, Height: 3, Pitch: 65})
	wantError(t, err, cu.ErrorInvalidValue, "copy 30 bytes", "a pitch of 65 bytes", "CU_DEVICE_ATTRIBUTE_MAX_PITCH is 64")
	closeAll(t, v, h)
}

// TestCopyRectBatch: a batch copies a rectangle at each Submit, between all kinds of memory that
// it takes. Bytes around the rectangle do not change.
func TestCopyRectBatch(t *testing.T) {
	gputest.Needs(t, cu.DeviceAttributeUnifiedAddressing)
	t.Run("device=test", func(t *testing.T) { testCopyRectBatch(t, openTest(t)) })
	t.Run("device=soft:h200/schedule=lazy", func(t *testing.T) { testCopyRectBatch(t, openSoft(t, "h200", softgpu.Lazy)) })
}

func testCopyRectBatch(t *testing.T, g *ferry.GPU) {
	s := must(ferry.NewStream(g, nil))(t)
	defer closeAll(t, s)
	const w, h, d = 19, 5, 2
	for _, from := range kindsOf(g) {
		for _, to := range kindsOf(g) {
			if from.name == "pageable" || to.name == "pageable" {
				continue
			}
			name := from.name + " to " + to.name
			a, b := layout{rand.IntN(9), w + rand.IntN(60), h + rand.IntN(3)}, layout{rand.IntN(9), w + rand.IntN(60), h + rand.IntN(3)}
			src, dst := must(from.make(g, a.size(w, h, d)))(t), must(to.make(g, b.size(w, h, d)))(t)
			var batch ferry.Batch
			check(t, ferry.CopyRect(&batch, b.rect(dst, w, h, d), a.rect(src, w, h, d)))
			for round := range 2 {
				data, want := make([]byte, src.Len()), make([]byte, dst.Len())
				fillRandom(data)
				fillRandom(want)
				src.set(t, s, data)
				dst.set(t, s, want)
				for z := range d {
					for y := range h {
						i, j := a.start+(z*a.rows+y)*a.pitch, b.start+(z*b.rows+y)*b.pitch
						copy(want[j:j+w], data[i:i+w])
					}
				}
				check(t, s.Submit(&batch))
				if got := dst.get(t, s); !bytes.Equal(got, want) {
					t.Errorf("%s, submission %d: the bytes differ", name, round)
				}
			}
			check(t, dst.close())
			wantError(t, s.Submit(&batch), ferry.ErrClosed, "operation 1 of 1, copy a rectangle")
			check(t, src.close())
		}
	}
}

// TestCopyRectBatchRefused: rectangles that a batch cannot copy are refused when they are added,
// or by Submit. Nothing is queued then.
func TestCopyRectBatchRefused(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	d, h := must(ferry.Alloc[uint32](g, 1000))(t), must(ferry.AllocHost[uint32](g, 1000, nil))(t)
	defer closeAll(t, d, h, s)
	good := ferry.Rect[uint32]{Memory: h, Width: 10, Height: 10, Pitch: 40}
	for _, c := range []struct {
		rect  ferry.Rect[uint32]
		parts []string
		early bool // CopyRect refuses it
	}{
		{ferry.Rect[uint32]{}, []string{"no buffer given"}, true},
		{ferry.Rect[uint32]{Memory: d, Width: 10, Height: -1}, []string{"cannot be negative"}, true},
		{ferry.Rect[uint32]{Memory: d, Width: 10, Height: 11}, []string{"one shape"}, true},
		{ferry.Rect[uint32]{Memory: d.Range(950, 1000), Width: 10, Height: 10}, []string{"needs 100", "has 50"}, true},
		{ferry.Rect[uint32]{Memory: ferry.Pageable(make([]uint32, 100)), Width: 10, Height: 10}, []string{"copy a rectangle in a batch", "pageable memory"}, true},
		{ferry.Rect[uint32]{Memory: h.Range(5, 1000), Width: 10, Height: 10, Pitch: 40}, []string{"operation 2 of 2", "overlap"}, false},
	} {
		check(t, ferry.Fill(s, d, 1))
		clear(h.Slice())
		var b ferry.Batch
		check(t, ferry.Copy(&b, h.Range(999, 1000), d.Range(0, 1)))
		err := ferry.CopyRect(&b, c.rect, good)
		if (err != nil) != c.early {
			t.Errorf("%v: CopyRect returns %v", c.parts, err)
		}
		if err == nil {
			err = s.Submit(&b)
		} else if b.Len() != 1 {
			t.Errorf("%v: the batch has %d operations, want 1", c.parts, b.Len())
		}
		wantError(t, err, cu.ErrorInvalidValue, c.parts...)
		if got := h.Slice()[999]; got != 0 {
			t.Errorf("%v: the operation before was queued", c.parts)
		}
	}
}

// TestCopyRectTwoGPUs: rectangles of two GPUs of a driver are copied, on a stream and in a batch.
func TestCopyRectTwoGPUs(t *testing.T) {
	onTwoGPUs(t, func(t *testing.T, a, b *ferry.GPU) {
		s := must(ferry.NewStream(a, nil))(t)
		const w, h = 13, 7
		near, far := must(ferry.Alloc[byte](a, 40*h))(t), must(ferry.Alloc[byte](b, 20*h))(t)
		defer closeAll(t, near, far, s)
		here := ferry.Rect[byte]{Memory: near.Range(3, near.Len()), Width: w, Height: h, Pitch: 40}
		there := ferry.Rect[byte]{Memory: far.Range(5, far.Len()), Width: w, Height: h, Pitch: 20}
		var batch ferry.Batch
		check(t, ferry.CopyRect(&batch, there, here))
		for name, queue := range map[string]func() error{
			"stream": func() error { return ferry.CopyRect(s, there, here) },
			"batch":  func() error { return s.Submit(&batch) },
		} {
			data := make([]byte, near.Len())
			fillRandom(data)
			check(t, ferry.Copy(s, near, ferry.Pageable(data)))
			check(t, ferry.Copy(s, far, ferry.Pageable(bytes.Repeat([]byte{9}, far.Len()))))
			check(t, queue())
			want := bytes.Repeat([]byte{9}, far.Len())
			for y := range h {
				copy(want[5+20*y:], data[3+40*y:3+40*y+w])
			}
			if got := must(ferry.Download(far))(t); !bytes.Equal(got, want) {
				t.Errorf("on a %s: the bytes differ", name)
			}
		}
	})
}

// TestCopyRectCaptured captures CopyRect in a graph, on the stream and as part of a batch. A
// rectangle of pageable memory is refused, and the capture continues.
func TestCopyRectCaptured(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	const w, h = 13, 7
	in, out := must(ferry.AllocHost[byte](g, 40*h, nil))(t), must(ferry.AllocHost[byte](g, 40*h, nil))(t)
	device := must(ferry.Alloc[byte](g, 20*h))(t)
	rect := func(m ferry.Memory[byte], pitch int) ferry.Rect[byte] {
		return ferry.Rect[byte]{Memory: m, Width: w, Height: h, Pitch: pitch}
	}
	var batch ferry.Batch
	check(t, ferry.CopyRect(&batch, rect(out, 40), rect(device, 20)))
	graph := must(s.Capture(func(s *ferry.Stream) error {
		wantError(t, ferry.CopyRect(s, rect(device, 20), rect(ferry.Pageable(make([]byte, 40*h)), 40)), cu.ErrorInvalidValue, "pageable")
		if err := ferry.CopyRect(s, rect(device, 20), rect(in, 40)); err != nil {
			return err
		}
		return s.Submit(&batch)
	}))(t)
	defer closeAll(t, in, out, device, graph, s)
	for round := range 2 {
		fillRandom(in.Slice())
		fillRandom(out.Slice())
		want := bytes.Clone(out.Slice())
		for y := range h {
			copy(want[40*y:40*y+w], in.Slice()[40*y:])
		}
		check(t, graph.Launch(s))
		if !bytes.Equal(out.Slice(), want) {
			t.Errorf("launch %d: the bytes differ", round)
		}
	}
}

// TestRectThatWraps: a rectangle that an address cannot count has no number of elements or bytes
// in its error.
func TestRectThatWraps(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	d := must(ferry.Alloc[uint64](g, 10))(t)
	for want, r := range map[string]ferry.Rect[uint64]{
		"more elements than an address can count":                              {Memory: d, Width: 1, Height: math.MaxInt, Pitch: math.MaxInt},
		"2305843009213693952 elements of 8 bytes, more than the address space": {Memory: d, Width: 1, Pitch: 1 << 61},
	} {
		wantError(t, ferry.CopyRect(s, r, r), cu.ErrorInvalidValue, want)
	}
	closeAll(t, d, s)
}
