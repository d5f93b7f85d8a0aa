package ferry_test

import (
	"math"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// TestAllocRefused: sizes that are impossible, types with Go pointers, and a nil GPU.
func TestAllocRefused(t *testing.T) {
	g := openTest(t)
	_, total, err := g.MemInfo()
	check(t, err)

	_, err = ferry.Alloc[float32](g, -1)
	wantError(t, err, cu.ErrorInvalidValue, "-1 elements of float32")
	_, err = ferry.Alloc[[1 << 20]float64](g, math.MaxInt)
	wantError(t, err, cu.ErrorOutOfMemory, "more bytes than an address can count")
	_, err = ferry.AllocHost[int](g, math.MinInt, nil)
	wantError(t, err, cu.ErrorInvalidValue, "cannot be negative")
	_, err = ferry.Alloc[byte](g, total+1)
	wantError(t, err, cu.ErrorOutOfMemory, "allocate", "of device memory on "+gpuName(g), "are free", "larger than the device")
	_, err = ferry.Alloc[byte](g, math.MaxInt)
	wantError(t, err, cu.ErrorOutOfMemory, "8388608.0 TiB of device memory")

	_, err = ferry.Alloc[string](g, 1)
	wantError(t, err, cu.ErrorInvalidValue, "type string hold Go pointers")
	_, err = ferry.AllocHost[struct{ A struct{ B [2]*int } }](g, 1, nil)
	wantError(t, err, cu.ErrorInvalidValue, ".A.B[0] is *int")
	_, err = ferry.Register(g, []any{1}, nil)
	wantError(t, err, cu.ErrorInvalidValue, "Go pointers")
	_, err = ferry.AllocManaged[[]byte](g, 1, nil)
	wantError(t, err, cu.ErrorInvalidValue, "Go pointers")

	_, err = ferry.Alloc[byte](nil, 1)
	wantError(t, err, cu.ErrorInvalidValue, "no GPU given")
	_, err = ferry.AllocHost[byte](nil, 1, nil)
	wantError(t, err, cu.ErrorInvalidValue, "no GPU given")
	_, err = ferry.AllocManaged[byte](nil, 1, nil)
	wantError(t, err, cu.ErrorInvalidValue, "no GPU given")
	_, err = ferry.Register(nil, []byte{1}, nil)
	wantError(t, err, cu.ErrorInvalidValue, "no GPU given")
}

// TestAllocPitched allocates rows for elements of several sizes and copies to and from them.
func TestAllocPitched(t *testing.T) {
	g := openTest(t)
	s := must(ferry.NewStream(g, nil))(t)
	pitched(t, g, s, func(i int) uint8 { return uint8(i) })
	pitched(t, g, s, func(i int) float32 { return float32(i) / 4 })
	pitched(t, g, s, func(i int) [3]uint32 { return [3]uint32{uint32(i), ^uint32(i), 7} })
	pitched(t, g, s, func(i int) [1000]uint64 { return [1000]uint64{0: uint64(i), 999: ^uint64(i)} })
	for _, empty := range [][2]int{{0, 5}, {5, 0}} {
		d, pitch, err := ferry.AllocPitched[int](g, empty[0], empty[1])
		check(t, err)
		if d.Len() != 0 || pitch != empty[0] {
			t.Errorf("%v: %d elements, pitch %d; want none, pitch %d", empty, d.Len(), pitch, empty[0])
		}
		closeAll(t, d)
	}
	for _, bad := range [][2]int{{-1, 1}, {1, -1}} {
		_, _, err := ferry.AllocPitched[int](g, bad[0], bad[1])
		wantError(t, err, cu.ErrorInvalidValue, "cannot be negative")
	}
	for huge, want := range map[[2]int]cu.Result{{math.MaxInt, 1}: cu.ErrorOutOfMemory, {1 << 20, 1 << 30}: cu.ErrorOutOfMemory,
		{1, math.MaxInt}: cu.ErrorInvalidValue, {math.MaxInt / 8, math.MaxInt / 8}: cu.ErrorInvalidValue} {
		_, _, err := ferry.AllocPitched[[3]int](g, huge[0], huge[1])
		wantError(t, err, want, "allocate")
	}
	_, _, err := ferry.AllocPitched[string](g, 1, 1)
	wantError(t, err, cu.ErrorInvalidValue, "Go pointers")
	_, _, err = ferry.AllocPitched[int](nil, 1, 1)
	wantError(t, err, cu.ErrorInvalidValue, "no GPU given")
	closeAll(t, s)
}

func pitched[T comparable](t *testing.T, g *ferry.GPU, s *ferry.Stream, value func(int) T) {
	t.Helper()
	const w, h = 13, 9
	d, pitch, err := ferry.AllocPitched[T](g, w, h)
	check(t, err)
	if pitch < w || d.Len() != pitch*h || d.Size()/d.Len()*d.Len() != d.Size() {
		t.Errorf("pitch %d, %d elements, %d bytes", pitch, d.Len(), d.Size())
	}
	values := make([]T, w*h)
	for i := range values {
		values[i] = value(i)
	}
	there := ferry.Rect[T]{Memory: d, Width: w, Height: h, Pitch: pitch}
	check(t, ferry.CopyRect(s, there, ferry.Rect[T]{Memory: ferry.Pageable(values), Width: w, Height: h}))
	// the same elements as 3 layers of 3 rows
	back := make([]T, w*h)
	there.Height, there.Depth, there.Rows = 3, 3, 3
	check(t, ferry.CopyRect(s, ferry.Rect[T]{Memory: ferry.Pageable(back), Width: w, Height: 3, Depth: 3}, there))
	for i := range values {
		if back[i] != values[i] {
			t.Errorf("%T: element %d differs", values[0], i)
			break
		}
	}
	closeAll(t, d)
}
