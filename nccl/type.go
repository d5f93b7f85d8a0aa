package nccl

import (
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/nccl/internal/backend"
)

// Types that Go lacks. Their values are the bits. ferry.View shows memory of uint16 or uint8 as
// memory of these types.
type (
	Float16    uint16 // IEEE 754 binary16
	BFloat16   uint16 // the upper half of a float32
	Float8E4M3 uint8  // 4 bits of exponent, 3 of mantissa, no infinities
	Float8E5M2 uint8  // 5 bits of exponent, 2 of mantissa
)

// Number is the types of elements that reductions take.
type Number interface {
	int8 | uint8 | int32 | uint32 | int64 | uint64 | float32 | float64 | Float16 | BFloat16 | Float8E4M3 | Float8E5M2
}

// typeOf returns the type and the number of elements that n elements of type T are. Elements of
// types that NCCL lacks are bytes.
func typeOf[T any](n int) (backend.DataType, int) {
	var x T
	switch any(x).(type) {
	case int8:
		return backend.Int8, n
	case uint8:
		return backend.Uint8, n
	case int32:
		return backend.Int32, n
	case uint32:
		return backend.Uint32, n
	case int64:
		return backend.Int64, n
	case uint64:
		return backend.Uint64, n
	case float32:
		return backend.Float32, n
	case float64:
		return backend.Float64, n
	case Float16:
		return backend.Float16, n
	case BFloat16:
		return backend.BFloat16, n
	case Float8E4M3:
		return backend.Float8E4M3, n
	case Float8E5M2:
		return backend.Float8E5M2, n
	}
	return backend.Uint8, n * int(address.SizeOf[T]())
}
