package ferry_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
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
	d.attributes[cu.DeviceAttributeMaxPitch] = 64
	g := openDriver(t, d)
	v, h := must(ferry.Alloc[byte](g, 1000))(t), must(ferry.AllocHost[byte](g, 1000, nil))(t)
	err := ferry.CopyRect(ferry.DefaultStream(g), ferry.Rect[byte]{Memory: v, Width: 10, Height: 3}, ferry.Rect[byte]{Memory: h, Width: 10, Height: 3, Pitch: 65})
	wantError(t, err, cu.ErrorInvalidValue, "copy 30 bytes", "a pitch of 65 bytes", "CU_DEVICE_ATTRIBUTE_MAX_PITCH is 64")
	closeAll(t, v, h)
}
