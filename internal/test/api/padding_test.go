package api

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/address"
)

// Types with padding. Their arrays make Go copy them as a whole, padding included.
type (
	padded struct {
		A [3]uint8
		B uint32
		C [3]uint8
	}
	blank struct {
		A [2]uint8
		_ uint8
		B uint8
	}
	nested struct {
		In [2]struct {
			A [3]uint8
			B uint16
		}
		N [2]uint64
	}
)

// dirty makes the bytes of v at these offsets 0xee, as stale memory may be.
func dirty[T any](v T, at ...int) T {
	for _, i := range at {
		address.BytesOf(&v)[i] = 0xee
	}
	return v
}

// TestFillPadding: bytes that belong to no field reach neither the device nor an error, and a
// value whose fields are zero can fill memory of any element type.
func TestFillPadding(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	t.Cleanup(func() { closeAll(t, s) })
	fillPadding(t, g, s, dirty(padded{}, 3, 11), padded{})
	fillPadding(t, g, s, dirty(nested{}, 3, 9, 12, 13, 14, 15), nested{})
	fillPadding(t, g, s, dirty(blank{A: [2]uint8{1, 2}, B: 4}, 2), blank{A: [2]uint8{1, 2}, B: 4})
	fillPadding(t, g, s, dirty([2]blank{}, 2, 6), [2]blank{})

	d := must(ferry.Alloc[padded](g, 1))(t)
	defer closeAll(t, d)
	err := ferry.Fill(s, d, dirty(padded{B: 7}, 3, 11))
	wantError(t, err, cu.ErrorInvalidValue, "the value {[0 0 0] 7 [0 0 0]}, 12 bytes (0x000000000700000000000000)")
}

// fillPadding fills memory with v, by a stream and by a batch, and compares its bytes with
// those of want, whose padding is zero.
func fillPadding[T any](t *testing.T, g *ferry.GPU, s *ferry.Stream, v, want T) {
	t.Helper()
	const n = 3
	h := must(ferry.AllocHost[T](g, n, nil))(t)
	d := must(ferry.Alloc[T](g, n))(t)
	defer closeAll(t, h, d)
	for _, batch := range []bool{false, true} {
		for i := range h.Size() {
			address.Bytes(address.Of(h.Slice()), uintptr(h.Size()))[i] = 0x55
		}
		check(t, ferry.Copy(s, d, h))
		if batch {
			b := new(ferry.Batch)
			check(t, ferry.Fill(b, d, v))
			check(t, s.Submit(b))
		} else {
			check(t, ferry.Fill(s, d, v))
		}
		check(t, ferry.Copy(s, h, d))
		got := address.Bytes(address.Of(h.ReadSlice()), uintptr(h.Size()))
		if !bytes.Equal(got, bytes.Repeat(address.BytesOf(&want), n)) {
			t.Errorf("batch %v: %T %+v: bytes % x", batch, v, v, got)
		}
	}
}

// TestFillLongValue: an error shows the beginning of a long value.
func TestFillLongValue(t *testing.T) {
	g := openTest(t)
	d := must(ferry.Alloc[[1 << 16]uint16](g, 1))(t)
	defer closeAll(t, d)
	err := ferry.Fill(g.DefaultStream(), d, [1 << 16]uint16{1})
	wantError(t, err, cu.ErrorInvalidValue, "the value 131072 bytes (0x0100"+strings.Repeat("00", 62)+"...), does not repeat")
	if len(err.Error()) > 500 {
		t.Errorf("the error has %d bytes", len(err.Error()))
	}
}

// TestArgumentPadding: a kernel sees zero in the padding of a structure, of a launch and of a
// batch.
func TestArgumentPadding(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	m := must(ferry.Load(g, []byte(paramsPTX), nil))(t)
	k := must(m.Kernel("params"))(t)
	out := must(ferry.Alloc[byte](g, 32))(t)
	t.Cleanup(func() { closeAll(t, s, m, out) })
	b := new(ferry.Batch)
	for name, q := range map[string]ferry.Queue{"stream": s, "batch": b} {
		check(t, ferry.Fill(s, out, byte(0x55)))
		for range 2 { // the second time the type is known
			e := dirty(padded{[3]uint8{1, 2, 3}, 4, [3]uint8{5, 6, 7}}, 3, 11)
			check(t, q.Launch(k, ferry.Cover(1, 1), out, uint8(1), int16(2), float32(3), 4.0, e, uint32(6)))
		}
		if q == b {
			check(t, s.Submit(b))
		}
		check(t, s.Wait(t.Context()))
		want := []byte{1, 2, 3, 0, 4, 0, 0, 0, 5, 6, 7, 0}
		if got := must(ferry.Download[byte](out))(t)[16:28]; !bytes.Equal(got, want) {
			t.Errorf("%s: the kernel got % x, want % x", name, got, want)
		}
	}
}

// TestFillAllocates: a value with padding needs no more memory than one without.
func TestFillAllocates(t *testing.T) {
	g := openTest(t)
	x, y := must(ferry.Alloc[padded](g, 4))(t), must(ferry.Alloc[[3]uint32](g, 4))(t)
	defer closeAll(t, x, y)
	s := g.DefaultStream()
	least := func(fill func() error) float64 { // of what the software GPU allocates meanwhile, too
		n := math.Inf(1)
		for range 5 {
			n = min(n, testing.AllocsPerRun(50, func() { check(t, fill()) }))
			check(t, s.Wait(t.Context()))
		}
		return n
	}
	with := least(func() error { return ferry.Fill(s, x, padded{}) })
	without := least(func() error { return ferry.Fill(s, y, [3]uint32{}) })
	if with > without {
		t.Errorf("%v allocations with padding, %v without", with, without)
	}
}
