package soft

import (
	"fmt"

	"github.com/ferrygpu/ferry/nccl/internal/backend"
)

// arithmetic is the reduction of a call, as NCCL's kernels do it.
//
//   - Integers wrap. An average is the sum, which wraps, divided by the number of ranks and cut towards zero.
//   - An average of floating-point numbers is a sum of elements that are each multiplied by 1/ranks,
//     rounded to the type.
//   - float16, bfloat16 and 8-bit floats: each product and each sum is computed in float32 and rounded
//     to the type, to nearest even. 8-bit results beyond the largest number become that number.
//   - Maximum and minimum: a number wins over NaN.
type arithmetic struct {
	size   int
	ranks  int
	scale  func(data []byte)            // multiplies each element by the factor; nil for none
	fold   func(own, got []byte)        // own = got op own
	divide func(data []byte, ranks int) // nil for none
}

// arithmetic returns the reduction of the call.
func (k *call) arithmetic() *arithmetic {
	a := &arithmetic{size: k.Type.Size(), ranks: k.comm.size}
	switch k.Type {
	case backend.Int8:
		useIntegers[int8](a, k.Op)
	case backend.Uint8:
		useIntegers[uint8](a, k.Op)
	case backend.Int32:
		useIntegers[int32](a, k.Op)
	case backend.Uint32:
		useIntegers[uint32](a, k.Op)
	case backend.Int64:
		useIntegers[int64](a, k.Op)
	case backend.Uint64:
		useIntegers[uint64](a, k.Op)
	case backend.Float32:
		useFloats[float32](a, k.Op)
	case backend.Float64:
		useFloats[float64](a, k.Op)
	case backend.Float16:
		useNarrow[uint16](a, k.Op, &float16)
	case backend.BFloat16:
		useNarrow[uint16](a, k.Op, &bfloat16)
	case backend.Float8E4M3:
		useNarrow[uint8](a, k.Op, &float8e4m3)
	case backend.Float8E5M2:
		useNarrow[uint8](a, k.Op, &float8e5m2)
	}
	return a
}

// begin applies the factor to what the rank gives.
func (a *arithmetic) begin(data []byte) {
	if a.scale != nil {
		a.scale(data)
	}
}

// add reduces what has come with what the rank gives: own = got op own.
func (a *arithmetic) add(own, got []byte) error {
	if len(own) != len(got) {
		return fmt.Errorf("%d bytes, want %d", len(got), len(own))
	}
	a.fold(own, got)
	return nil
}

// finish ends the reduction of a part.
func (a *arithmetic) finish(data []byte) {
	if a.divide != nil {
		a.divide(data, a.ranks)
	}
}

type integer interface {
	int8 | uint8 | int32 | uint32 | int64 | uint64
}

func useIntegers[T integer](a *arithmetic, op backend.Op) {
	larger, smaller := func(x, y T) T { return max(x, y) }, func(x, y T) T { return min(x, y) }
	a.fold = func(own, got []byte) { fold(op.Code, elements[T](own), elements[T](got), larger, smaller) }
	switch op.Code {
	case backend.PreMulSum:
		factor := elements[T](op.Factor[:])[0]
		a.scale = func(data []byte) {
			for i, x := range elements[T](data) {
				elements[T](data)[i] = x * factor
			}
		}
	case backend.Avg:
		a.divide = func(data []byte, ranks int) {
			list := elements[T](data)
			for i, x := range list {
				if x < 0 {
					list[i] = T(int64(x) / int64(ranks))
				} else {
					list[i] = T(uint64(x) / uint64(ranks))
				}
			}
		}
	}
}

// fold combines own with what has come, element by element. larger and smaller are for Max and Min.
func fold[T integer | floating](op backend.OpCode, own, got []T, larger, smaller func(x, y T) T) {
	switch op {
	case backend.Prod:
		for i, x := range got {
			own[i] = x * own[i]
		}
	case backend.Max:
		for i, x := range got {
			own[i] = larger(x, own[i])
		}
	case backend.Min:
		for i, x := range got {
			own[i] = smaller(x, own[i])
		}
	default:
		for i, x := range got {
			own[i] = x + own[i]
		}
	}
}

type floating interface{ float32 | float64 }

func useFloats[T floating](a *arithmetic, op backend.Op) {
	a.fold = func(own, got []byte) { fold(op.Code, elements[T](own), elements[T](got), larger[T], smaller[T]) }
	factor := T(1 / float64(a.ranks))
	if op.Code == backend.PreMulSum {
		factor = elements[T](op.Factor[:])[0]
	}
	if op.Code == backend.PreMulSum || op.Code == backend.Avg {
		a.scale = func(data []byte) {
			list := elements[T](data)
			for i, x := range list {
				list[i] = x * factor
			}
		}
	}
}

// larger returns the larger of two numbers. A number wins over NaN.
func larger[T floating](x, y T) T {
	switch {
	case x != x:
		return y
	case y != y:
		return x
	}
	return max(x, y)
}

// smaller returns the smaller of two numbers. A number wins over NaN.
func smaller[T floating](x, y T) T {
	switch {
	case x != x:
		return y
	case y != y:
		return x
	}
	return min(x, y)
}

// useNarrow reduces numbers of a format narrower than float32.
func useNarrow[T uint8 | uint16](a *arithmetic, op backend.Op, f *format) {
	table := f.decoded()
	step := map[backend.OpCode]func(x, y float32) float32{
		backend.Prod: func(x, y float32) float32 { return x * y },
		backend.Max:  larger[float32],
		backend.Min:  smaller[float32],
	}[op.Code]
	a.fold = func(own, got []byte) {
		mine := elements[T](own)
		if step == nil {
			for i, x := range elements[T](got) {
				mine[i] = T(f.encode(table[x] + table[mine[i]]))
			}
			return
		}
		for i, x := range elements[T](got) {
			mine[i] = T(f.encode(step(table[x], table[mine[i]])))
		}
	}
	factor := table[f.encode(float32(1/float64(a.ranks)))]
	if op.Code == backend.PreMulSum {
		factor = table[elements[T](op.Factor[:])[0]]
	}
	if op.Code == backend.PreMulSum || op.Code == backend.Avg {
		a.scale = func(data []byte) {
			list := elements[T](data)
			for i, x := range list {
				list[i] = T(f.encode(table[x] * factor))
			}
		}
	}
}
