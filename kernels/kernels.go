package kernels

import _ "embed"

// PTX is the module with all kernels of this package.
//
//go:embed kernels.ptx
var PTX string

// Source is the CUDA source that PTX was made from.
//
//go:embed kernels.cu
var Source string

// The kernel gather copies up to GatherRanges ranges in a launch. Its parameters,
// GatherParams bytes, are those many destinations and sources of 64 bits, sizes of
// 32 bits, and how many blocks share a range.
const (
	GatherRanges = 200
	GatherParams = GatherRanges*(8+8+4) + 4
)
