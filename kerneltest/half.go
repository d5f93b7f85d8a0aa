package kerneltest

import "github.com/ferrygpu/ferry/internal/measure/runner"

// F16 is a number of type f16 (IEEE binary16, __half in CUDA C++), as its bits.
type F16 uint16

// NewF16 rounds v to the nearest F16, ties to even.
func NewF16(v float64) F16 { return F16(runner.F16.FromFloat(v)) }

// Float64 returns the value of h, which is exact.
func (h F16) Float64() float64 { return runner.F16.Float(uint64(h)) }

// BF16 is a number of type bf16 (bfloat16, __nv_bfloat16 in CUDA C++), as its bits.
type BF16 uint16

// NewBF16 rounds v to the nearest BF16, ties to even.
func NewBF16(v float64) BF16 { return BF16(runner.BF16.FromFloat(v)) }

// Float64 returns the value of h, which is exact.
func (h BF16) Float64() float64 { return runner.BF16.Float(uint64(h)) }
