package kernelargs

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/ptx"
)

// argument makes an argument from bits: of each class, in all sizes, and some that are
// none.
func argument(kind byte, bits uint64) any {
	type mixed struct {
		A bool
		B uint16
		C pair
		D [2]float32
		_ uint8
	}
	kinds := [...]func() any{
		func() any { return bits&1 != 0 },
		func() any { return int8(bits) }, func() any { return uint8(bits) },
		func() any { return int16(bits) }, func() any { return uint16(bits) },
		func() any { return int32(bits) }, func() any { return uint32(bits) },
		func() any { return int64(bits) }, func() any { return bits },
		func() any { return int(bits) }, func() any { return uintptr(bits) }, func() any { return cu.DevicePtr(bits) },
		func() any { return math.Float32frombits(uint32(bits)) }, func() any { return math.Float64frombits(bits) },
		func() any { return complex(float32(bits), 1) }, func() any { return complex(float64(bits), 1) },
		func() any { return pair{int8(bits), int32(bits >> 8)} },
		func() any { return [3]uint16{uint16(bits), uint16(bits >> 16), uint16(bits >> 32)} },
		func() any { return [1]uint32{uint32(bits)} }, func() any { return [2]int64{int64(bits), -1} },
		func() any {
			return mixed{bits&1 != 0, uint16(bits), pair{int8(bits), int32(bits)}, [2]float32{float32(bits), 2}, 0}
		},
		func() any { return struct{}{} }, func() any { return [40]uint8{0: uint8(bits), 39: uint8(bits >> 8)} },
		func() any { return &deviceBuffer[int]{memory{address: bits}} }, func() any { return &hostBuffer{memory{address: bits}} },
		func() any { return (*hostBuffer)(nil) }, func() any { return nil },
		func() any { return "text" }, func() any { return []int{1} }, func() any { return new(int) },
		func() any { return struct{ p *int }{} }, func() any { return [1]*int{} }, func() any { return hostBuffer{} },
	}
	return kinds[int(kind)%len(kinds)]()
}

// stale returns an argument whose padding is not zero.
func stale(arg any) any {
	t := reflect.TypeOf(arg)
	if t == nil || !plain(t) {
		return arg
	}
	v := reflect.New(t)
	to, used := address.Bytes(v.UnsafePointer(), t.Size()), make([]bool, t.Size())
	write(reflect.ValueOf(arg), to, used)
	for i := range to {
		if !used[i] {
			to[i] = 0xee
		}
	}
	return v.Elem().Interface()
}

// isBuffer reports whether an argument is a buffer, and its memory; nil for a nil one.
func isBuffer(arg any) (m *memory, is bool) {
	switch x := arg.(type) {
	case *deviceBuffer[int]:
		if x == nil {
			return nil, true
		}
		return &x.m, true
	case *hostBuffer:
		if x == nil {
			return nil, true
		}
		return &x.m, true
	}
	return nil, false
}

// sizeOf is the size and alignment of an argument as a parameter. good is false for what
// is no argument.
func sizeOf(arg any) (size, align int, good bool) {
	if m, is := isBuffer(arg); is {
		return 8, 8, m != nil
	}
	t := reflect.TypeOf(arg)
	if t == nil || !plain(t) {
		return 0, 1, false
	}
	return int(t.Size()), t.Align(), true
}

// plain reports whether a type consists of numbers.
func plain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return plain(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !plain(t.Field(i).Type) {
				return false
			}
		}
		return true
	}
	return t.Kind() >= reflect.Bool && t.Kind() <= reflect.Complex128
}

// fitsParam reports whether an argument fits a parameter: floats and integers are not
// mixed up.
func fitsParam(arg any, p ptx.Param) bool {
	size, _, good := sizeOf(arg)
	if !good || size != p.Size {
		return false
	}
	switch reflect.TypeOf(arg).Kind() {
	case reflect.Float32, reflect.Float64:
		switch p.Type {
		case ptx.U8, ptx.U16, ptx.U32, ptx.U64, ptx.S8, ptx.S16, ptx.S32, ptx.S64:
			return false
		}
	case reflect.Struct, reflect.Array, reflect.Complex64, reflect.Complex128:
	default:
		return p.Type != ptx.F32 && p.Type != ptx.F64
	}
	return true
}

// write writes a value by reflection, and marks the bytes that are not padding. It leaves
// padding as it is.
func write(v reflect.Value, to []byte, used []bool) {
	number := func(bits uint64) {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], bits)
		for i := range v.Type().Size() {
			to[i], used[i] = b[i], true
		}
	}
	switch k := v.Kind(); {
	case k == reflect.Bool:
		number(map[bool]uint64{true: 1}[v.Bool()])
	case v.CanInt():
		number(uint64(v.Int()))
	case v.CanUint():
		number(v.Uint())
	case k == reflect.Float32:
		number(uint64(math.Float32bits(float32(v.Float()))))
	case k == reflect.Float64:
		number(math.Float64bits(v.Float()))
	case k == reflect.Complex64:
		write(reflect.ValueOf([2]float32{real(complex64(v.Complex())), imag(complex64(v.Complex()))}), to, used)
	case k == reflect.Complex128:
		write(reflect.ValueOf([2]float64{real(v.Complex()), imag(v.Complex())}), to, used)
	case k == reflect.Array:
		for i := range v.Len() {
			at := uintptr(i) * v.Type().Elem().Size()
			write(v.Index(i), to[at:], used[at:])
		}
	case k == reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Name != "_" {
				write(v.Field(i), to[f.Offset:], used[f.Offset:])
			}
		}
	}
}

// FuzzPack compares Pack with a slow reference that uses reflection, for any arguments
// and parameters, known or not.
func FuzzPack(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		seed := make([]byte, 2+random.IntN(60))
		for i := range seed {
			seed[i] = byte(random.Uint32())
		}
		f.Add(seed)
	}
	var b Buffer[memory] // used again and again, as in a program
	f.Fuzz(func(t *testing.T, data []byte) {
		next := func() (x byte) {
			if len(data) > 0 {
				x, data = data[0], data[1:]
			}
			return x
		}
		known := next()%4 > 0
		var params []ptx.Param
		var args []any
		var want []byte
		var wantMemory []Memory[memory]
		good := true
		for range next() % 7 {
			bits := uint64(0)
			for range 8 {
				bits = bits<<8 | uint64(next())
			}
			arg := argument(next(), bits)
			if x, ok := arg.(float32); ok && x != x {
				arg = float32(1) // reflection may change the bits of a NaN
			}
			arg = stale(arg)
			args = append(args, arg)
			size, align, isGood := sizeOf(arg)
			p := ptx.Param{Size: size, Type: ptx.Type(next() % 24), Name: "p"}
			if next()%8 == 0 {
				p.Size = int(next() % 17)
			}
			if !known {
				p.Size = size
			} else if align = 1 << (next() % 4); !fitsParam(arg, p) {
				isGood = false
			}
			p.Offset = (len(want) + align - 1) / align * align
			params = append(params, p)
			want = append(want, make([]byte, p.Offset+p.Size-len(want))...)
			if good = good && isGood; !good {
				continue
			}
			if m, is := isBuffer(arg); is {
				wantMemory = append(wantMemory, Memory[memory]{*m, p.Offset})
			} else {
				write(reflect.ValueOf(arg), want[p.Offset:], make([]bool, p.Size))
			}
		}
		s := UnknownSignature()
		if known {
			s = NewSignature(params, len(want))
		}
		for range 2 { // the second time types are known
			err := b.Pack(s, args)
			if (err == nil) != good {
				t.Fatalf("%#v for %v: %v, want an error: %v", args, params, err, !good)
			}
			if !good {
				continue
			}
			if len(b.Bytes) != len(want) || len(b.Memory) != len(wantMemory) {
				t.Fatalf("%#v for %v: %d bytes, %d memory arguments, want %d, %d", args, params, len(b.Bytes), len(b.Memory), len(want), len(wantMemory))
			}
			for i := range want {
				if b.Bytes[i] != want[i] {
					t.Fatalf("%#v for %v: %x, want %x: byte %d", args, params, b.Bytes, want, i)
				}
			}
			for i, m := range b.Memory {
				if m != wantMemory[i] {
					t.Fatalf("%#v for %v: memory %v, want %v", args, params, b.Memory, wantMemory)
				}
			}
		}
		if err := b.Pack(NewSignature(append(params, ptx.Param{}), 0), args); err == nil {
			t.Fatal("one argument is missing, and no error")
		}
	})
}
