package differ

// pairs fills with numbers whose products and sums are rounded. The results are finite.
var pairs = floats(-2, 2)

var fusedCases = []Case{
	{Family: "fused", Kernel: "fused_norm", Grid: x(4), Block: x(64), Args: []Arg{in(F32, 1024, floats(-3, 5)), in(F32, 128, pairs), in(F32, 128, pairs), out(F32, 1024), out(F32, 8)}},
	{Family: "fused", Kernel: "fused_complex", Grid: x(4), Block: x(64), Args: []Arg{in(F32, 512, pairs), in(F32, 512, pairs), out(F32, 512)}},
	{Family: "fused", Kernel: "fused_smith", Grid: x(4), Block: x(64), Args: []Arg{in(F32, 512, pairs), in(F32, 512, pairs), out(F32, 512), out(F64, 512)}},
	{Family: "fused", Kernel: "fused_fractal", Grid: x(4), Block: x(64), Args: []Arg{in(F32, 512, pairs), out(F32, 512), out(U32, 256)}},
	{Family: "fused", Kernel: "fused_sums", Grid: x(4), Block: x(64), Args: []Arg{in(F32, 2048, pairs), in(F32, 2048, pairs), out(F32, 1792), value(uint32(8))}},
	{Family: "fused", Kernel: "fused_half", Grid: x(4), Block: x(64), Args: []Arg{in(U16, 256, unitHalves), in(U16, 256, unitHalves), out(U16, 1792)}},
}
