package checkpoint_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/checkpoint"
)

// safetensorsTypes are the dtypes of safetensors, with the bits of an element.
var safetensorsTypes = map[checkpoint.DType]int64{
	checkpoint.Bool: 8, checkpoint.U8: 8, checkpoint.I8: 8, checkpoint.U16: 16, checkpoint.I16: 16, checkpoint.U32: 32, checkpoint.I32: 32,
	checkpoint.U64: 64, checkpoint.I64: 64, checkpoint.F16: 16, checkpoint.BF16: 16, checkpoint.F32: 32, checkpoint.F64: 64,
	checkpoint.F8E4M3: 8, checkpoint.F8E5M2: 8, checkpoint.F8E8M0: 8, checkpoint.F8E4M3FNUZ: 8, checkpoint.F8E5M2FNUZ: 8,
	checkpoint.F4: 4, checkpoint.F6E2M3: 6, checkpoint.F6E3M2: 6, checkpoint.C64: 64,
}

// TestSafetensorsTypes reads a file with a tensor of each dtype.
func TestSafetensorsTypes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var want []tensor
	for d, bits := range safetensorsTypes {
		x := random(r, fmt.Sprintf("tensor.%v", d), d, 3, 8)
		if int64(len(x.data)) != 24*bits/8 {
			t.Errorf("24 elements of %v have %d bytes, want %d", d, len(x.data), 24*bits/8)
		}
		want = append(want, x)
	}
	c := open(t, write(t, "a.safetensors", safetensorsOf(map[string]string{"format": "pt", "ü\n": "ä\n"}, want...)))
	same(t, c, want)
	if got := c.Metadata(); !reflect.DeepEqual(got, map[string]any{"format": "pt", "ü\n": "ä\n"}) {
		t.Errorf("metadata %v", got)
	}
}

// TestSafetensorsText reads headers as other writers write them.
func TestSafetensorsText(t *testing.T) {
	data := []byte("0123456789ab")
	for name, header := range map[string]string{
		"blanks":          "{ \"a\" :\n{\"dtype\" : \"U8\",\t\"shape\": [ 12 ] , \"data_offsets\":[0 ,12]}\r\n }   ",
		"another order":   `{"a":{"data_offsets":[0,12],"shape":[3,4],"dtype":"U8"}}`,
		"unknown fields":  `{"a":{"data_offsets":[0,12],"x":{"y":[1.5e3,-2,null,true,{"z":"\u00e4"}]},"shape":[12],"dtype":"U8"}}`,
		"escapes":         `{"\u0061":{"dtype":"U8","shape":[12],"data_offsets":[0,12]}}`,
		"scalar":          `{"b":{"dtype":"U32","shape":[],"data_offsets":[8,12]},"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}`,
		"empty tensor":    `{"e":{"dtype":"F32","shape":[0,7],"data_offsets":[0,0]},"a":{"dtype":"U8","shape":[12],"data_offsets":[0,12]}}`,
		"null metadata":   `{"__metadata__":null,"a":{"dtype":"U8","shape":[12],"data_offsets":[0,12]}}`,
		"surrogate pair":  `{"__metadata__":{"k":"\ud83d\ude00"},"a":{"dtype":"U8","shape":[12],"data_offsets":[0,12]}}`,
		"a name in UTF-8": `{"語":{"dtype":"U8","shape":[2],"data_offsets":[10,12]},"a":{"dtype":"U8","shape":[10],"data_offsets":[0,10]}}`,
	} {
		c, err := checkpoint.OpenReaderAt("x", bytes.NewReader(safetensors(header, data)), int64(8+len(header)+len(data)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if a, ok := c.Lookup("a"); !ok || a.Offset != int64(8+len(header)) {
			t.Errorf("%s: %v, %v", name, a, c.Tensors())
		}
	}
	c, err := checkpoint.OpenReaderAt("x", strings.NewReader("\x02\x00\x00\x00\x00\x00\x00\x00{}"), 10)
	if err != nil || len(c.Tensors()) != 0 {
		t.Errorf("no tensors: %v, %v", c, err)
	}
}

// TestSafetensorsOrder: tensors are in the order of their bytes, wherever the header has them. Those without
// bytes stand before the tensor with the next byte, by name.
func TestSafetensorsOrder(t *testing.T) {
	const want = "a 0 4, n 4 0, o 4 0, b 4 3, p 7 0, c 7 1, m 8 0, z 8 0"
	var fields []string
	for one := range strings.SplitSeq(want, ", ") {
		var name string
		var off, n int
		if _, err := fmt.Sscan(one, &name, &off, &n); err != nil {
			t.Fatal(err)
		}
		fields = append(fields, fmt.Sprintf(`%q:{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]}`, name, n, off, off+n))
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		r.Shuffle(len(fields), func(i, k int) { fields[i], fields[k] = fields[k], fields[i] })
		file := safetensors("{"+strings.Join(fields, ",")+"}", make([]byte, 8))
		c, err := checkpoint.OpenReaderAt("m", bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range c.Tensors() {
			got = append(got, fmt.Sprintf("%s %d %d", x.Name, x.Offset-int64(len(file)-8), x.Bytes))
		}
		if all := strings.Join(got, ", "); all != want {
			t.Errorf("%s: got %s, want %s", fields, all, want)
		}
	}
}

// TestGGUF reads files of versions 2 and 3 with a tensor of each type and a field of each type.
func TestGGUF(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, version := range []uint32{2, 3} {
		for _, alignment := range []int{8, 32, 4096} {
			g := newGGUF()
			g.version, g.alignment = version, alignment
			want := map[string]any{"general.alignment": uint32(alignment)}
			g.field("general.alignment", 4, u32(uint32(alignment))...)
			addFields(g, want)
			var tensors []tensor
			for d := range ggml {
				per, _ := d.Block()
				x := random(r, fmt.Sprintf("blk.%v", d), d, 3, 2*per)
				g.add(x)
				tensors = append(tensors, x)
			}
			c := open(t, write(t, "a.gguf", g.bytes()))
			same(t, c, tensors)
			if got := c.Metadata(); !reflect.DeepEqual(got, want) {
				t.Errorf("metadata %v, want %v", got, want)
			}
		}
	}
}

// addFields adds a field of each type, alone and as an array.
func addFields(g *gguf, want map[string]any) {
	for i, f := range []struct {
		kind  uint32
		bytes []byte
		value any
		many  any
	}{
		{0, []byte{200}, uint8(200), []uint8{200, 200}}, {1, []byte{0xfe}, int8(-2), []int8{-2, -2}}, {7, []byte{1}, true, []bool{true, true}},
		{2, []byte{1, 2}, uint16(513), []uint16{513, 513}}, {3, []byte{0xfe, 0xff}, int16(-2), []int16{-2, -2}},
		{4, u32(1 << 31), uint32(1 << 31), []uint32{1 << 31, 1 << 31}}, {5, u32(1 << 31), int32(-1 << 31), []int32{-1 << 31, -1 << 31}},
		{6, u32(0x3fc00000), float32(1.5), []float32{1.5, 1.5}}, {12, u64(0x3ff8000000000000), 1.5, []float64{1.5, 1.5}},
		{10, u64(1 << 63), uint64(1 << 63), []uint64{1 << 63, 1 << 63}}, {11, u64(1 << 63), int64(-1 << 63), []int64{-1 << 63, -1 << 63}},
		{8, str("ä\xff\n"), "ä\xff\n", []string{"ä\xff\n", "ä\xff\n"}},
	} {
		one, many := fmt.Sprintf("one.%d", i), fmt.Sprintf("many.%d", i)
		g.field(one, f.kind, f.bytes...)
		g.field(many, 9, append(append(u32(f.kind), u64(2)...), append(f.bytes, f.bytes...)...)...)
		want[one], want[many] = f.value, f.many
	}
}

// TestTypes checks names and sizes of all types.
func TestTypes(t *testing.T) {
	n := 0
	for d := checkpoint.NoDType + 1; !strings.HasPrefix(d.String(), "DType("); d++ {
		n++
		got, err := checkpoint.ParseDType(strings.ToLower(d.String()))
		if got != d || err != nil {
			t.Errorf("%v: %v, %v", d, got, err)
		}
		elements, bytes := d.Block()
		if elements < 1 || bytes < 1 {
			t.Errorf("%v: %d elements in %d bytes", d, elements, bytes)
		}
		_, inFirst := safetensorsTypes[d]
		_, inSecond := ggml[d]
		if !inFirst && !inSecond {
			t.Errorf("%v is of no format", d)
		}
	}
	if n != 49 {
		t.Errorf("%d types, want 49", n)
	}
	if _, err := checkpoint.ParseDType("BF61"); err == nil || !strings.Contains(err.Error(), `"BF61" is not known: did you mean "BF16"`) {
		t.Error(err)
	}
}
