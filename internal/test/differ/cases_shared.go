package differ

const anyOrder = "float additions come in any order"

var reduceCases = []Case{
	{Family: "reduce", Kernel: "reduce_tree", Grid: x(7), Block: x(256), Args: []Arg{in(U32, 3333, anyWords), out(U32, 7), value(uint32(3333))}},
	{Family: "reduce", Kernel: "reduce_tree_f32", Grid: x(3), Block: x(128), Args: []Arg{in(F32, 2000, floats(-1, 1)), out(F32, 3), value(uint32(2000))}},
	{Family: "reduce", Kernel: "reduce_shuffle", Grid: x(4), Block: x(96), Args: []Arg{in(U32, 384, anyWords), out(U32, 12), value(uint32(370))}},
	{Family: "reduce", Kernel: "reduce_shuffle_f32", Grid: x(4), Block: x(96), Args: []Arg{in(F32, 384, floats(-100, 100)), out(F32, 12), value(uint32(370))}},
	{Family: "reduce", Kernel: "reduce_atomic", Grid: x(5), Block: x(64), Args: []Arg{in(U64, 1500, randomLongs), inout(U64, 4, sameLong(1<<62)), value(uint32(1500))}},
	{Family: "reduce", Kernel: "reduce_atomic_f32", Grid: x(8), Block: x(128), Bound: Bound{Abs: 1e-3, Why: anyOrder},
		Args: []Arg{in(F32, 1000, floats(-1, 1)), inout(F32, 4, zeros), value(uint32(1000))}},
	{Family: "reduce", Kernel: "reduce_last_block", Grid: x(9), Block: x(128), Args: []Arg{in(U32, 4000, anyWords), out(U64, 9), inout(U32, 1, zeros), out(U64, 1), value(uint32(4000))}},
	{Family: "reduce", Kernel: "reduce_minmax", Grid: x(2), Block: x(64), Args: []Arg{in(F32, 1000, anyFloats), out(F32, 8), value(uint32(1000))}},
}

var scanCases = []Case{
	{Family: "scan", Kernel: "scan_hillis", Grid: x(3), Block: x(256), Args: []Arg{in(U32, 768, anyWords), out(U32, 768)}},
	{Family: "scan", Kernel: "scan_blelloch", Grid: x(3), Block: x(128), Args: []Arg{in(U32, 768, anyWords), out(U32, 768)}},
	{Family: "scan", Kernel: "scan_warp", Grid: x(2), Block: x(320), Args: []Arg{in(U32, 640, anyWords), out(U32, 640)}},
	{Family: "scan", Kernel: "scan_lookback", Grid: x(12), Block: x(256), Args: []Arg{in(U32, 3072, anyWords), out(U32, 3072), inout(U64, 12, zeros), inout(U32, 1, zeros)}},
	{Family: "scan", Kernel: "scan_segmented", Grid: x(4), Block: x(128), Args: []Arg{in(U32, 512, anyWords), in(U8, 512, bytesOf("\x00\x00\x00\x00\x01")), out(U32, 512)}},
}

var transposeCases = []Case{
	{Family: "transpose", Kernel: "transpose_naive", Grid: xy(3, 5), Block: xy(16, 8), Args: []Arg{in(F32, 37*33, anyFloats), out(F32, 37*33), value(uint32(37)), value(uint32(33))}},
	{Family: "transpose", Kernel: "transpose_shared", Grid: xy(3, 4), Block: xy(16, 16), Args: []Arg{in(U32, 48*50, randomWords), out(U32, 48*50), value(uint32(48)), value(uint32(50))}},
	{Family: "transpose", Kernel: "transpose_padded", Grid: xy(4, 3), Block: xy(16, 16), Args: []Arg{in(U32, 50*48, randomWords), out(U32, 50*48), value(uint32(50)), value(uint32(48))}},
	{Family: "transpose", Kernel: "transpose_bytes", Grid: xy(3, 2), Block: xy(32, 8), Args: []Arg{in(U8, 70*60, anyBytes), out(U8, 70*60), value(uint32(70)), value(uint32(60))}},
	{Family: "transpose", Kernel: "transpose_bits", Grid: x(3), Block: x(64), Args: []Arg{in(U32, 192, randomWords), out(U32, 192)}},
}

var histogramCases = []Case{
	{Family: "histogram", Kernel: "histogram_global", Grid: x(4), Block: x(128), Args: []Arg{in(U8, 3000, anyBytes), inout(U32, 256, zeros), value(uint32(3000))}},
	{Family: "histogram", Kernel: "histogram_shared", Grid: x(3), Block: x(192), Args: []Arg{in(U8, 3000, bytesOf("the quick brown fox")), inout(U32, 256, zeros), value(uint32(3000))}},
	{Family: "histogram", Kernel: "histogram_warps", Grid: x(2), Block: x(128), Args: []Arg{in(U8, 4000, anyBytes), inout(U32, 64, zeros), value(uint32(1000))}},
	{Family: "histogram", Kernel: "histogram_match", Grid: x(4), Block: x(128), Args: []Arg{in(U8, 512, anyBytes), inout(U32, 16, zeros)}},
}

var sortCases = []Case{
	{Family: "sort", Kernel: "sort_bitonic", Grid: x(2), Block: x(256), Args: []Arg{inout(U32, 512, anyWords)}},
	{Family: "sort", Kernel: "sort_odd_even", Grid: x(2), Block: x(64), Args: []Arg{inout(U32, 256, anyWords)}},
	{Family: "sort", Kernel: "sort_radix", Grid: x(2), Block: x(128), Args: []Arg{inout(U32, 256, wordsBelow(300)), inout(U32, 256, randomWords)}},
	{Family: "sort", Kernel: "sort_merge", Grid: x(6), Block: x(96), Args: []Arg{in(U32, 300, sorted), in(U32, 250, sorted), out(U32, 560), value(uint32(300)), value(uint32(250))}},
	{Family: "sort", Kernel: "sort_local", Grid: x(2), Block: x(64), Args: []Arg{in(F32, 1024, floats(-5, 5)), out(F32, 1024), out(U8, 1024)}},
}

var stencilCases = []Case{
	{Family: "stencil", Kernel: "stencil_1d", Grid: x(4), Block: x(128), Args: []Arg{in(F32, 500, floats(-10, 10)), out(F32, 500), value(uint32(500))}},
	{Family: "stencil", Kernel: "stencil_2d", Grid: xy(4, 5), Block: xy(16, 8), Args: []Arg{in(F32, 61*37, floats(-10, 10)), out(F32, 61*37), value(uint32(61)), value(uint32(37))}},
	{Family: "stencil", Kernel: "stencil_3d", Grid: xyz(3, 2, 2), Block: xyz(4, 6, 6), Args: []Arg{in(F64, 1331, doubles(-10, 10)), out(F64, 1331), value(uint32(11))}},
	{Family: "stencil", Kernel: "stencil_life", Grid: xy(3, 3), Block: xy(16, 12), Args: []Arg{in(U8, 40*33, anyBytes), out(U8, 40*33), value(uint32(40)), value(uint32(33))}},
	{Family: "stencil", Kernel: "stencil_sobel", Grid: xy(3, 3), Block: xy(16, 12), Args: []Arg{in(U8, 40*33, anyBytes), out(U8, 40*33), value(uint32(40)), value(uint32(33))}},
}

var matrixCases = []Case{
	{Family: "matrix", Kernel: "matrix_naive", Grid: xy(2, 4), Block: xy(16, 8), Args: []Arg{in(F32, 29*29, floats(-1, 1)), in(F32, 29*29, floats(-1, 1)), out(F32, 29*29), value(uint32(29))}},
	{Family: "matrix", Kernel: "matrix_tiled", Grid: xy(3, 3), Block: xy(16, 16), Args: []Arg{in(F32, 1600, floats(-1, 1)), in(F32, 1600, floats(-1, 1)), out(F32, 1600), value(uint32(40))}},
	{Family: "matrix", Kernel: "matrix_double", Grid: x(6), Block: x(96), Args: []Arg{in(F64, 529, doubles(-1, 1)), in(F64, 529, doubles(-1, 1)), out(F64, 529), value(uint32(23))}},
	{Family: "matrix", Kernel: "matrix_dp4a", Grid: x(5), Block: x(64), Args: []Arg{in(U32, 17*8, randomWords), in(U32, 17*8, randomWords), out(U32, 289), value(uint32(17)), value(uint32(8))}},
	{Family: "matrix", Kernel: "matrix_registers", Grid: xy(2, 1), Block: xy(4, 8), Args: []Arg{in(F32, 1024, floats(-1, 1)), in(F32, 1024, floats(-1, 1)), out(F32, 1024), value(uint32(32))}},
	{Family: "matrix", Kernel: "matrix_solve", Grid: x(4), Block: x(8), Args: []Arg{in(F64, 288, doubles(-9, 9)), out(F64, 32)}},
}
