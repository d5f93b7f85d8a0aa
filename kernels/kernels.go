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
