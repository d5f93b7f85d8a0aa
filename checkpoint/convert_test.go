package checkpoint_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/checkpoint"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
	"github.com/ferrygpu/ferry/softgpu"
)

// small are the numbers that all floats have exactly, and their bits: of float32, F16 and F8_E4M3.
var small = []struct {
	value    float32
	half     uint16
	e4m3, e5 byte
}{
	{0, 0, 0, 0}, {1, 0x3c00, 0x38, 0x3c}, {-1, 0xbc00, 0xb8, 0xbc}, {2, 0x4000, 0x40, 0x40}, {1.5, 0x3e00, 0x3c, 0x3e}, {-0.25, 0xb400, 0xa8, 0xb4},
	{448, 0x5f00, 0x7e, 0x5f}, {-16, 0xcc00, 0xd8, 0xcc}, {0.015625, 0x2400, 0x08, 0x24}, {-3, 0xc200, 0xc4, 0xc2},
}

// bits returns the numbers of these indexes in a type.
func bits(d checkpoint.DType, indexes []int) (all []byte) {
	for _, i := range indexes {
		x := small[i]
		switch d {
		case checkpoint.F32:
			all = binary.LittleEndian.AppendUint32(all, math.Float32bits(x.value))
		case checkpoint.BF16:
			all = binary.LittleEndian.AppendUint16(all, uint16(math.Float32bits(x.value)>>16))
		case checkpoint.F16:
			all = binary.LittleEndian.AppendUint16(all, x.half)
		case checkpoint.F8E4M3:
			all = append(all, x.e4m3)
		case checkpoint.F8E5M2:
			all = append(all, x.e5)
		}
	}
	return all
}

// floats are the types that Load converts between.
var floats = []checkpoint.DType{checkpoint.F32, checkpoint.F16, checkpoint.BF16, checkpoint.F8E4M3, checkpoint.F8E5M2}

// indexes returns random indexes of small numbers, without 448, which F8_E5M2 lacks.
func indexes(r *rand.Rand, n int) []int {
	all := make([]int, n)
	for i := range all {
		if all[i] = r.IntN(len(small)); small[all[i]].value == 448 {
			all[i] = 0
		}
	}
	return all
}

// TestConvertNeighbours converts many small tensors, of which some are neighbours in the file and in memory, some in
// one of these, and some in none.
func TestConvertNeighbours(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var files []tensor
	var numbers [][]int
	for i := range 120 {
		all := indexes(r, []int{64, 64, 128, 256, 256, 512, 100}[r.IntN(7)])
		d := floats[i/3%len(floats)]
		files = append(files, tensor{fmt.Sprintf("t%03d", i), d, []int64{int64(len(all))}, bits(d, all)})
		numbers = append(numbers, all)
	}
	c, s := open(t, write(t, "a.safetensors", safetensorsOf(nil, files...))), stream(t, softgpu.Eager)
	for _, to := range floats {
		want := slices.Clone(files)
		for i := range want {
			want[i].data = bits(to, numbers[i])
		}
		loaded(t, load(t, s, c, &checkpoint.Options{To: to}), want)
	}
}

// TestConvert loads tensors of all floats as one of them: in one piece and in small ones, in place
// and through staging memory, to the buffer and to given memory.
func TestConvert(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var files []tensor
	numbers := map[string][]int{}
	for i := range 30 {
		n := []int{0, 1, 7, 1000, 4096, 10_000, 50_000}[i%7]
		x := tensor{name: "t" + string(rune('a'+i)), dtype: floats[i%5], shape: []int64{int64(n)}}
		numbers[x.name] = indexes(r, n)
		x.data = bits(x.dtype, numbers[x.name])
		files = append(files, x)
	}
	files = append(files, random(r, "ids", checkpoint.I64, 100))
	path := write(t, "a.safetensors", safetensorsOf(nil, files...))
	sizes := []int64{9 << 10, 1 << 30, 70 << 10}
	if racebuild.Instrumented { // which runs kernels slowly
		sizes = sizes[:1]
	}
	for _, pieces := range sizes {
		checkpoint.SetPieces(t, max(pieces, 8<<10), pieces)
		for i, to := range floats {
			want := slices.Clone(files)
			for i := range want {
				if n, ok := numbers[want[i].name]; ok {
					want[i].data = bits(to, n)
				}
			}
			s := stream(t, schedules[i%len(schedules)])
			into, err := ferry.Alloc[byte](s.GPU(), len(want[6].data))
			if err != nil {
				t.Fatal(err)
			}
			defer into.Close()
			c := open(t, path)
			last, calls := int64(0), 0
			l := load(t, s, c, &checkpoint.Options{To: to, Into: map[string]ferry.Memory[byte]{want[6].name: into}, Progress: func(done, total int64) {
				if calls++; done < last || done > total || total != c.Bytes() {
					t.Errorf("progress %d of %d after %d", done, total, last)
				}
				last = done
			}})
			host, err := ferry.AllocHost[byte](s.GPU(), int(l.Bytes()), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer host.Close()
			inOrder(t, s, l, host, want)
			loaded(t, l, want)
			if calls == 0 || last != c.Bytes() {
				t.Errorf("%d calls of Progress, the last with %d of %d", calls, last, c.Bytes())
			}
			for _, p := range l.Tensors() {
				if _, ok := numbers[p.Name]; ok != (p.As == to) || !ok && p.As != p.DType {
					t.Errorf("%v as %v", p.Info, p.As)
				}
			}
		}
	}
}

// TestDequantize loads blocks of GGUF as floats, in one piece and in small ones. The values of the
// kernels are tested beside them.
func TestDequantize(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const n = 64 * 256
	q8 := tensor{name: "Q8_0", dtype: checkpoint.Q8_0, shape: []int64{n / 64, 64}}
	q4 := tensor{name: "Q4_0", dtype: checkpoint.Q4_0, shape: []int64{n / 64, 64}}
	want := map[string][]byte{}
	for range n / 32 { // with the scale 2
		q8.data, q4.data = append(q8.data, 0, 0x40), append(q4.data, 0, 0x40)
		low, high := []byte{}, []byte{}
		for range 32 {
			v := int8(r.Uint32())
			q8.data = append(q8.data, byte(v))
			want["Q8_0"] = binary.LittleEndian.AppendUint32(want["Q8_0"], math.Float32bits(2*float32(v)))
		}
		for range 16 {
			v := byte(r.Uint32())
			q4.data = append(q4.data, v)
			low = binary.LittleEndian.AppendUint32(low, math.Float32bits(2*(float32(v&15)-8)))
			high = binary.LittleEndian.AppendUint32(high, math.Float32bits(2*(float32(v>>4)-8)))
		}
		want["Q4_0"] = slices.Concat(want["Q4_0"], low, high)
	}
	q4k, q6k := random(r, "Q4_K", checkpoint.Q4_K, 8, 2048), random(r, "Q6_K", checkpoint.Q6_K, 8, 2048)
	c := open(t, write(t, "a.gguf", newGGUF().add(q8).add(q4k).add(q4).add(q6k).bytes()))
	s := stream(t, 0)
	for _, pieces := range []int64{1 << 30, 7 << 10, 3 << 10} {
		checkpoint.SetPieces(t, pieces, pieces)
		l := load(t, s, c, &checkpoint.Options{To: checkpoint.F32})
		for _, p := range l.Tensors() {
			got, err := ferry.Download(p.Memory)
			if err != nil || p.As != checkpoint.F32 || len(got) != 4*n {
				t.Fatalf("%v as %v: %d bytes, %v", p.Info, p.As, len(got), err)
			}
			if want[p.Name] == nil { // the first load is in one piece
				want[p.Name] = got
			}
			if !bytes.Equal(got, want[p.Name]) {
				t.Errorf("%v in pieces of %d differs", p.Info, pieces)
			}
		}
	}
}

// TestConvertInPlace demands that later work of the stream sees tensors that were converted where they
// stand.
func TestConvertInPlace(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	numbers := indexes(r, 100_000)
	in := tensor{"a", checkpoint.BF16, []int64{100_000}, bits(checkpoint.BF16, numbers)}
	c := open(t, write(t, "a.safetensors", safetensorsOf(nil, in)))
	want := []tensor{{"a", checkpoint.F16, in.shape, bits(checkpoint.F16, numbers)}}
	for _, schedule := range schedules {
		s := stream(t, schedule)
		host, err := ferry.AllocHost[byte](s.GPU(), 200_000, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer host.Close()
		inOrder(t, s, load(t, s, c, &checkpoint.Options{To: checkpoint.F16}), host, want)
	}
}

// inOrder demands that later work of the stream sees converted tensors.
func inOrder(t *testing.T, s *ferry.Stream, l *checkpoint.Loaded, host *ferry.Host[byte], want []tensor) {
	t.Helper()
	at := l.Buffer().Pointer()
	for _, w := range want {
		if m, ok := must(l.Lookup(w.name)).Memory.(*ferry.Device[byte]); ok && m.Pointer() >= at && m.Size() > 0 && m.Pointer() < at+cu.DevicePtr(l.Bytes()) {
			i := int(m.Pointer() - at)
			if err := ferry.Copy[byte](s, host.Range(i, i+m.Size()), m); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if got := host.Range(i, i+m.Size()).Slice(); !bytes.Equal(got, w.data) {
					t.Errorf("%s: a copy in the stream has other bytes", w.name)
				}
			}()
		}
	}
}

func must[T any](v T, ok bool) T {
	if !ok {
		panic("not found")
	}
	return v
}

// TestNotConverted loads tensors as types that they cannot have.
func TestNotConverted(t *testing.T) {
	s := stream(t, 0)
	r := rand.New(rand.NewPCG(1, 2))
	for _, d := range []checkpoint.DType{checkpoint.F64, checkpoint.F4, checkpoint.F8E4M3FNUZ} {
		c := open(t, write(t, "a.safetensors", safetensorsOf(nil, random(r, "a", d, 8))))
		l, err := checkpoint.Load(t.Context(), s, c, &checkpoint.Options{To: checkpoint.F16})
		if l != nil || err == nil || !strings.Contains(err.Error(), `tensor "a" is `+d.String()+`, which cannot be converted to F16`) {
			t.Errorf("%v: %v, %v", d, l, err)
		}
	}
}
