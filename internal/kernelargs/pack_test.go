package kernelargs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/internal/test/racebuild"
	"github.com/ferrygpu/ferry/ptx"
)

// memory is what buffers of these tests consist of.
type memory struct {
	address uint64
	keep    *byte
}

// deviceBuffer and hostBuffer are buffers.
type (
	deviceBuffer[T any] struct{ m memory }
	hostBuffer          struct{ m memory }
	typedBuffer[T any]  struct { // a type of its own for each T
		_ [0]*T
		m memory
	}
	twoMemories   struct{ M, N memory } // not a buffer
	notMemory     struct{ Address uint64 }
	memoryAndMore struct {
		n uint64
		m memory
	}
)

// pair has padding between its fields.
type pair struct {
	A int8
	B int32
}

// param is a parameter without a name at an offset.
func param(t ptx.Type, offset int) ptx.Param {
	return ptx.Param{Offset: offset, Size: t.Size(), Align: t.Size(), Type: t, Name: "p"}
}

// sized is a parameter of which only the size is known.
func sized(size, offset int) ptx.Param { return ptx.Param{Offset: offset, Size: size} }

// TestPackClass packs one argument of each class for each type of parameter that it fits,
// and some that it does not.
func TestPackClass(t *testing.T) {
	type any8 [8]byte
	for _, c := range []struct {
		p    ptx.Param
		arg  any
		want string // bytes, or the text of the error after "!"
	}{
		{param(ptx.U8, 0), uint8(0xfe), "fe"},
		{param(ptx.S8, 0), int8(-2), "fe"},
		{param(ptx.B8, 0), true, "01"},
		{param(ptx.U8, 0), false, "00"},
		{param(ptx.U16, 0), uint16(0xfedc), "dcfe"},
		{param(ptx.S16, 0), int16(-2), "feff"},
		{param(ptx.F16, 0), uint16(0x3c00), "003c"},
		{param(ptx.U32, 0), uint32(0xfedcba98), "98badcfe"},
		{param(ptx.S32, 0), int32(-2), "feffffff"},
		{param(ptx.B32, 0), int32(7), "07000000"},
		{param(ptx.B32, 0), float32(1), "0000803f"},
		{param(ptx.F32, 0), float32(1), "0000803f"},
		{param(ptx.F32, 0), [1]float32{1}, "0000803f"},
		{param(ptx.U64, 0), uint64(0x0123456789abcdef), "efcdab8967452301"},
		{param(ptx.S64, 0), int64(-2), "feffffffffffffff"},
		{param(ptx.U64, 0), uintptr(7), "0700000000000000"},
		{param(ptx.U64, 0), cu.DevicePtr(0x100), "0001000000000000"},
		{param(ptx.F64, 0), 1.0, "000000000000f03f"},
		{param(ptx.B64, 0), 1.0, "000000000000f03f"},
		{param(ptx.B64, 0), complex(float32(1), 2), "0000803f00000040"},
		{param(ptx.B64, 0), any8{1, 2, 3, 4, 5, 6, 7, 8}, "0102030405060708"},
		{param(ptx.B128, 0), complex(1, 2), "000000000000f03f0000000000000040"},
		{sized(4, 0), float32(1), "0000803f"},
		{sized(4, 0), uint32(1), "01000000"},
		{sized(8, 0), stale(pair{1, 2}), "0100000002000000"},
		{sized(24, 0), stale([2]struct {
			A uint8
			B pair
		}{{1, pair{2, 3}}, {4, pair{5, 6}}}), "010000000200000003000000040000000500000006000000"},
		{sized(4, 0), stale(struct {
			A uint8
			_ [3]byte
		}{A: 9}), "09000000"},
		{sized(3, 0), [3]byte{1, 2, 3}, "010203"},
		{sized(3, 0), [3]bool{true, false, true}, "010001"},
		{sized(2, 0), struct{ A, B bool }{false, true}, "0001"},
		{sized(0, 0), struct{}{}, ""},
		{sized(0, 0), [0]*int{}, ""},
		{sized(16, 0), [2]int64{1, 2}, "01000000000000000200000000000000"},
		{param(ptx.U64, 0), &deviceBuffer[float32]{}, "0000000000000000"},
		{param(ptx.B64, 0), &hostBuffer{}, "0000000000000000"},
		{sized(8, 0), &hostBuffer{}, "0000000000000000"},
		{param(ptx.U64, 0), &typedBuffer[bool]{m: memory{address: 7}}, "0000000000000000"},

		{param(ptx.U32, 0), uint64(1), "!got uint64, 8 bytes, want uint32"},
		{param(ptx.U64, 0), uint32(1), "!got uint32, 4 bytes, want uint64 or a buffer"},
		{param(ptx.U32, 0), float32(1), "!got float32, want uint32"},
		{param(ptx.S64, 0), 1.0, "!got float64, want int64"},
		{param(ptx.F32, 0), int32(1), "!got int32, want float32"},
		{param(ptx.F64, 0), &hostBuffer{}, "!got *kernelargs.hostBuffer, want float64"},
		{param(ptx.F64, 0), uint64(1), "!got uint64, want float64"},
		{param(ptx.F32, 0), true, "!got bool, 1 byte, want float32"},
		{param(ptx.U32, 0), &hostBuffer{}, "!got *kernelargs.hostBuffer, 8 bytes, want uint32"},
		{sized(12, 0), [2]int32{}, "![2]int32, 8 bytes, want 12 bytes"},
		{ptx.Param{Size: 16, Type: ptx.F32}, [3]float32{}, "![3]float32, 12 bytes, want 16 bytes"},
		{param(ptx.U64, 0), nil, "!nil cannot be an argument: pass a buffer, or cu.DevicePtr(0) for a null pointer"},
		{param(ptx.U64, 0), (*hostBuffer)(nil), "!got a nil *kernelargs.hostBuffer"},
		{param(ptx.U64, 0), []float32{1}, "!a []float32 cannot be used by kernels: Register it, or Copy it to a buffer"},
		{param(ptx.U64, 0), new(int), "!a *int cannot be an argument: pass a buffer, a number, or a struct or array of numbers"},
		{param(ptx.U64, 0), &twoMemories{}, "!cannot be an argument"},
		{param(ptx.U64, 0), &notMemory{}, "!cannot be an argument"},
		{param(ptx.U64, 0), &memoryAndMore{1, memory{}}, "!cannot be an argument"},
		{param(ptx.U64, 0), hostBuffer{}, "!a kernelargs.hostBuffer cannot be an argument: it holds Go pointers"},
		{param(ptx.U64, 0), "text", "!a string cannot be an argument"},
		{param(ptx.U64, 0), func() {}, "!cannot be an argument"},
		{param(ptx.U64, 0), make(chan int), "!cannot be an argument"},
		{param(ptx.U64, 0), map[int]int{}, "!cannot be an argument"},
		{param(ptx.U64, 0), struct{ p *int }{}, "!holds Go pointers"},
		{param(ptx.U64, 0), [1]func(){}, "!holds Go pointers"},
	} {
		var b Buffer[memory]
		s := NewSignature([]ptx.Param{c.p}, c.p.Size)
		for range 2 { // the second time the type is known
			err := b.Pack(s, []any{c.arg})
			if text, wrong := strings.CutPrefix(c.want, "!"); wrong {
				if err == nil || !strings.Contains(err.Error(), text) || !refusal.Is(err) || !errors.Is(err, cu.ErrorInvalidValue) || !strings.HasPrefix(err.Error(), "parameter 0 (") {
					t.Errorf("%T for %v: %v, want %s", c.arg, c.p, err, text)
				}
				continue
			}
			if err != nil || !alike(b.Bytes, c.want) {
				t.Errorf("%T for %v: %x, %v; want %s", c.arg, c.p, b.Bytes, err, c.want)
			}
		}
	}
}

// alike reports whether bytes are as in hexadecimal text, of a machine with the low byte
// first.
func alike(got []byte, want string) bool { return fmt.Sprintf("%x", got) == want }

// TestPackMany packs a list: values stand at their offsets, padding is zero although the
// buffer had other bytes before, and memory is listed in order.
func TestPackMany(t *testing.T) {
	params := []ptx.Param{param(ptx.U64, 0), param(ptx.U8, 8), param(ptx.F32, 12), param(ptx.U64, 16), sized(3, 24)}
	s := NewSignature(params, 27)
	x, y := &deviceBuffer[int]{memory{address: 1}}, &hostBuffer{memory{address: 2}}
	b := Buffer[memory]{Bytes: bytes.Repeat([]byte{0xee}, 40)}
	for range 2 {
		if err := b.Pack(s, []any{x, uint8(7), float32(1), y, [3]byte{1, 2, 3}}); err != nil {
			t.Fatal(err)
		}
		if want := "0000000000000000" + "07" + "000000" + "0000803f" + "0000000000000000" + "010203"; !alike(b.Bytes, want) {
			t.Errorf("got %x, want %s", b.Bytes, want)
		}
		if want := []Memory[memory]{{x.m, 0}, {y.m, 16}}; !reflect.DeepEqual(b.Memory, want) {
			t.Errorf("memory %v, want %v", b.Memory, want)
		}
		for _, m := range b.Memory {
			PutAddress(b.Bytes[m.At:], cu.DevicePtr(m.M.address))
		}
		if binary.NativeEndian.Uint64(b.Bytes) != 1 || binary.NativeEndian.Uint64(b.Bytes[16:]) != 2 {
			t.Errorf("addresses in %x", b.Bytes)
		}
	}
	for _, n := range []int{0, 4, 6} {
		err := b.Pack(s, make([]any, n))
		if want := fmt.Sprintf("%d arguments given, the kernel has 5 parameters: .u64 p, 8 bytes, .u8 p, 1 byte, .f32 p, 4 bytes, .u64 p, 8 bytes, 3 bytes (CUDA_ERROR_INVALID_VALUE)", n); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := b.Pack(s, []any{x, uint8(7), float32(1), uint32(0), [3]byte{}}); err == nil || !strings.HasPrefix(err.Error(), "parameter 3 (.u64 p, 8 bytes): got uint32") {
		t.Errorf("got %v", err)
	}
	if err := b.Pack(NewSignature(nil, 0), nil); err != nil || len(b.Bytes) != 0 || len(b.Memory) != 0 {
		t.Errorf("no parameters: %v, %x, %v", err, b.Bytes, b.Memory)
	}
}

// TestPackUnknown packs for a kernel whose parameters are not known, as C does.
func TestPackUnknown(t *testing.T) {
	s := UnknownSignature()
	x := &hostBuffer{memory{address: 1}}
	b := Buffer[memory]{Bytes: bytes.Repeat([]byte{0xee}, 40)}
	if err := b.Pack(s, []any{uint8(1), uint16(2), x, uint8(3), float32(1), struct{}{}, [3]byte{4, 5, 6}, stale(pair{7, 8})}); err != nil {
		t.Fatal(err)
	}
	if want := "01" + "00" + "0200" + "00000000" + "0000000000000000" + "03" + "000000" + "0000803f" + "040506" + "00" + "0700000008000000"; !alike(b.Bytes, want) {
		t.Errorf("got %x, want %s", b.Bytes, want)
	}
	if want := []Memory[memory]{{x.m, 8}}; !reflect.DeepEqual(b.Memory, want) {
		t.Errorf("memory %v, want %v", b.Memory, want)
	}
	for text, arg := range map[string]any{"argument 1: nil cannot be an argument": nil, "argument 1: got a nil": (*hostBuffer)(nil), "argument 1: a []int": []int{}} {
		if err := b.Pack(s, []any{uint8(1), arg}); err == nil || !strings.HasPrefix(err.Error(), text) {
			t.Errorf("got %v, want %s", err, text)
		}
	}
	if s.Params() != nil || s.String() != "" || s.Describe(8) != "the argument at byte 8" {
		t.Errorf("%v, %q, %q", s.Params(), s.String(), s.Describe(8))
	}
}

// TestTypeChanges: a parameter takes one type after another, and remembers none that does
// not fit.
func TestTypeChanges(t *testing.T) {
	s := NewSignature([]ptx.Param{param(ptx.B64, 0)}, 8)
	var b Buffer[memory]
	for range 3 {
		for _, arg := range []any{uint64(7), 1.5, int64(-1), &hostBuffer{}, uint64(8)} {
			if err := b.Pack(s, []any{arg}); err != nil {
				t.Fatal(err)
			}
			want := uint64(0)
			switch x := arg.(type) {
			case uint64:
				want = x
			case int64:
				want = uint64(x)
			case float64:
				want = math.Float64bits(x)
			}
			if got := binary.NativeEndian.Uint64(b.Bytes); got != want || (len(b.Memory) == 1) != (reflect.TypeOf(arg).Kind() == reflect.Pointer) {
				t.Errorf("%T: %#x, want %#x; memory %v", arg, got, want, b.Memory)
			}
		}
		for _, arg := range []any{nil, uint32(1), "text"} {
			if err := b.Pack(s, []any{arg}); err == nil {
				t.Errorf("%T fits", arg)
			}
		}
	}
}

// TestSignatureConcurrent: goroutines with arguments of different types share a
// signature.
func TestSignatureConcurrent(t *testing.T) {
	s := NewSignature([]ptx.Param{param(ptx.B64, 0), param(ptx.B32, 8)}, 12)
	var all sync.WaitGroup
	for i, arg := range []any{uint64(1), float64(2), int64(3), cu.DevicePtr(4)} {
		all.Go(func() {
			var b, first Buffer[memory]
			args := []any{arg, []any{uint32(1), float32(2)}[i%2]}
			if err := first.Pack(s, args); err != nil {
				t.Error(err)
			}
			for range 2000 {
				if err := b.Pack(s, args); err != nil || !bytes.Equal(b.Bytes, first.Bytes) {
					t.Errorf("%v: %x, %v; want %x", args, b.Bytes, err, first.Bytes)
					return
				}
			}
		})
	}
	all.Wait()
}

// TestPackAllocates: a buffer that is packed again allocates nothing, and arguments do
// not escape.
func TestPackAllocates(t *testing.T) {
	params := []ptx.Param{param(ptx.U64, 0), param(ptx.U64, 8), param(ptx.F32, 16), sized(64, 24)}
	for what, s := range map[string]*Signature{"known": NewSignature(params, 88), "unknown": UnknownSignature()} {
		var b Buffer[memory]
		n := uint64(1 << 40)
		if got := testing.AllocsPerRun(100, func() {
			n++
			x := deviceBuffer[int]{memory{address: n}}
			if err := b.Pack(s, []any{&x, n, float32(n), [8]uint64{n}}); err != nil || b.Memory[0].M.address != n {
				t.Fatalf("%v, %v", err, b.Memory)
			}
		}); got != 0 && !racebuild.Instrumented {
			t.Errorf("%s: %v allocations, want 0", what, got)
		}
	}
}

// TestReset: an empty buffer keeps nothing alive.
func TestReset(t *testing.T) {
	s := NewSignature([]ptx.Param{param(ptx.U64, 0), param(ptx.U64, 8)}, 16)
	var b Buffer[memory]
	freed := make(chan bool)
	func() {
		x := &hostBuffer{memory{keep: new(byte)}}
		x.m.keep = &make([]byte, 1000)[0]
		runtime.AddCleanup(x.m.keep, func(int) { close(freed) }, 0)
		if err := b.Pack(s, []any{&hostBuffer{}, x}); err != nil {
			t.Fatal(err)
		}
	}()
	b.Reset()
	if len(b.Bytes) != 0 || len(b.Memory) != 0 || cap(b.Bytes) < 16 || cap(b.Memory) < 2 {
		t.Errorf("after Reset: %d and %d, with capacity %d and %d", len(b.Bytes), len(b.Memory), cap(b.Bytes), cap(b.Memory))
	}
	for i := 0; ; i++ {
		runtime.GC()
		select {
		case <-freed:
			runtime.KeepAlive(&b)
			return
		default:
		}
		if i > 100 {
			t.Fatal("the buffer keeps memory alive")
		}
	}
}

// TestDescribe names parameters for messages.
func TestDescribe(t *testing.T) {
	params := []ptx.Param{{Size: 8, Type: ptx.U64, Name: "n"}, {Offset: 8, Size: 1024, Type: ptx.B8, Name: "table"}, {Offset: 1032, Size: 4}}
	s := NewSignature(params, 1036)
	if !reflect.DeepEqual(s.Params(), params) {
		t.Errorf("parameters %v", s.Params())
	}
	if got, want := s.String(), ": .u64 n, 8 bytes, .b8 table, 1.0 KiB, 4 bytes"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for at, want := range map[int]string{0: "parameter 0 (.u64 n, 8 bytes)", 8: "parameter 1 (.b8 table, 1.0 KiB)", 1032: "parameter 2 (4 bytes)", 4: "the argument at byte 4"} {
		if got := s.Describe(at); got != want {
			t.Errorf("at %d: got %q, want %q", at, got, want)
		}
	}
}

// TestPointerIn finds what the garbage collector must see.
func TestPointerIn(t *testing.T) {
	type inner struct {
		N int
		P [2]*int
	}
	for _, c := range []struct {
		value any
		want  string
	}{
		{1, ""}, {true, ""}, {uintptr(1), ""}, {complex64(1), ""}, {[3]float32{}, ""}, {struct{ a, b uint8 }{}, ""}, {[0]*int{}, ""}, {struct{ p [0]string }{}, ""},
		{new(int), "the type itself"}, {"", "the type itself"}, {[]int{}, "the type itself"}, {map[int]int{}, "the type itself"}, {func() {}, "the type itself"}, {make(chan int), "the type itself"},
		{inner{}, ".P[0] is *int"}, {[1]struct{ in inner }{}, "[0].in.P[0] is *int"}, {struct{ e error }{}, ".e is error"},
		{struct{ s string }{}, ".s is string"},
	} {
		if got := PointerIn(reflect.TypeOf(c.value)); got != c.want {
			t.Errorf("%T: %q, want %q", c.value, got, c.want)
		}
	}
}

// TestBoolIn finds bytes that must be 0 or 1.
func TestBoolIn(t *testing.T) {
	type yes bool
	type inner struct {
		N int
		B [2]yes
	}
	for _, c := range []struct {
		value any
		want  string
	}{
		{uint8(1), ""}, {uintptr(1), ""}, {[3]float32{}, ""}, {struct{ a, b uint8 }{}, ""}, {[0]bool{}, ""}, {struct{ p [0]bool }{}, ""}, {struct{ p *bool }{}, ""},
		{true, "the type itself"}, {yes(true), "the type itself"}, {[2]bool{}, "[0] is bool"}, {struct{ A struct{ on bool } }{}, ".A.on is bool"},
		{[1]struct{ in inner }{}, "[0].in.B[0] is kernelargs.yes"}, {struct{ _ bool }{}, "._ is bool"},
	} {
		if got := BoolIn(reflect.TypeOf(c.value)); got != c.want {
			t.Errorf("%T: %q, want %q", c.value, got, c.want)
		}
	}
}

// TestElements: memory has only elements of which every byte may have any value.
func TestElements(t *testing.T) {
	for what, c := range map[string]struct {
		err  error
		want string // "" if the type can be an element
	}{
		"a number":          {second(ElementOf[float32]()), ""},
		"an address":        {second(ElementOf[uintptr]()), ""},
		"complex numbers":   {second(ElementOf[[2]complex128]()), ""},
		"no bool at all":    {second(ElementOf[[0]bool]()), ""},
		"a bool":            {second(ElementOf[bool]()), "elements of type bool hold a bool (the type itself)"},
		"a bool in a field": {second(ElementOf[struct{ A [2]struct{ On bool } }]()), "(.A[0].On is bool)"},
		"a pointer":         {second(ElementOf[*int]()), "elements of type *int hold Go pointers (the type itself)"},
		"both": {second(ElementOf[struct {
			On   bool
			Name string
		}]()), "hold Go pointers (.Name is string)"},
	} {
		switch {
		case c.want == "" && c.err != nil:
			t.Errorf("%s: %v", what, c.err)
		case c.want != "" && (!errors.Is(c.err, cu.ErrorInvalidValue) || !strings.Contains(c.err.Error(), c.want)):
			t.Errorf("%s: %v, want %s", what, c.err, c.want)
		}
	}
}

// second returns the error of a call.
func second(_ any, err error) error { return err }
