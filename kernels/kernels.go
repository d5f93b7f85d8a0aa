package kernels

import _ "embed"

// PTX is the module with all kernels of this package.
//
//go:embed kernels.ptx
var PTX string

// Source is the CUDA source of PTX.
//
//go:embed kernels.cu
var Source string

// The kernel gather copies up to GatherRanges ranges in a launch. Its parameters take
// GatherParams bytes: for each range a destination and a source of 64 bits, then a
// size of 32 bits for each, then the number of blocks that share a range.
const (
	GatherRanges = 200
	GatherParams = GatherRanges*(8+8+4) + 4
)
