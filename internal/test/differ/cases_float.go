package differ

// tensorSums is a reason why floats may differ.
const tensorSums = "tensor cores add with an order and a precision of their own"

// notFast excludes a case under -use_fast_math, because sin.approx of large angles has no
// bound.
func notFast(c Case) Case {
	c.Not = []string{"fast"}
	return c
}

// function returns a case of math.cu with n results for each pair of numbers.
func function(kernel string, t Type, n int, a, b Fill) Case {
	const threads = 128
	return Case{Family: "math", Kernel: kernel, Grid: x(2), Block: x(threads / 2),
		Args: []Arg{in(t, threads, a), in(t, threads, b), out(t, threads*n)}}
}

var mathCases = []Case{
	function("math_round_f64", F64, 8, anyDoubles, anyDoubles),
	function("math_exact_f64", F64, 6, anyDoubles, anyDoubles),
	function("math_mod_f64", F64, 3, doubles(-1e5, 1e5), doubles(-99, 99)),
	function("math_trig_f64", F64, 4, doubles(-1e6, 1e6), doubles(-9, 9)),
	function("math_inverse_f64", F64, 4, doubles(-99, 99), doubles(-1, 1)),
	function("math_exp_f64", F64, 6, doubles(-1, 1), doubles(-30, 30)),
	function("math_log_f64", F64, 5, anyDoubles, doubles(-30, 30)),
	function("math_pow_f64", F64, 4, doubles(-30, 30), doubles(-30, 30)),
	function("math_erf_f64", F64, 4, doubles(-1, 1), doubles(-6, 6)),
	function("math_round_f32", F32, 8, anyFloats, anyFloats),
	function("math_exact_f32", F32, 8, anyFloats, anyFloats),
	function("math_mod_f32", F32, 3, floats(-1e5, 1e5), floats(-99, 99)),
	notFast(function("math_trig_f32", F32, 4, floats(-1e6, 1e6), floats(-9, 9))),
	function("math_inverse_f32", F32, 4, floats(-99, 99), floats(-1, 1)),
	function("math_exp_f32", F32, 6, floats(-1, 1), floats(-30, 30)),
	function("math_log_f32", F32, 5, anyFloats, floats(-30, 30)),
	function("math_pow_f32", F32, 4, floats(-30, 30), floats(-9, 9)),
	function("math_erf_f32", F32, 3, floats(-1, 1), floats(-4, 4)),
	function("math_intrinsics", F32, 6, floats(-1e3, 1e3), floats(-9, 9)),
	function("math_directed", F32, 8, anyFloats, anyFloats),
	function("math_directed_f64", F64, 8, anyDoubles, anyDoubles),
}

var halfCases = []Case{
	{Family: "half", Kernel: "half_arithmetic", Grid: x(4), Block: x(64), Args: []Arg{in(U16, 256, anyBytes), in(U16, 256, anyBytes), out(F16, 2560)}},
	{Family: "half", Kernel: "half_divide", Grid: x(4), Block: x(64), Args: []Arg{in(U16, 256, anyBytes), in(U16, 256, anyBytes), out(F16, 512)}},
	{Family: "half", Kernel: "half_pairs", Grid: x(4), Block: x(64), Args: []Arg{in(U16, 512, anyBytes), in(U16, 512, anyBytes), out(F16, 4096)}},
	{Family: "half", Kernel: "half_convert", Grid: x(4), Block: x(64), Args: []Arg{in(F32, 256, anyFloats), out(F16, 1024), out(F32, 256), out(U32, 512)}},
	{Family: "half", Kernel: "half_integers", Grid: x(4), Block: x(64), Args: []Arg{in(U32, 256, anyWords), out(F16, 512)}},
	{Family: "half", Kernel: "half_reduce", Grid: x(2), Block: x(64), Args: []Arg{in(U16, 256, unitHalves), out(F16, 4)}},
	{Family: "half", Kernel: "bf16_arithmetic", Grid: x(4), Block: x(64), Args: []Arg{in(U16, 256, anyBytes), in(U16, 256, anyBytes), out(U16, 1792)}},
	{Family: "half", Kernel: "bf16_convert", Grid: x(4), Block: x(64), Args: []Arg{in(F32, 256, anyFloats), out(U16, 768), out(F32, 256)}},
	{Family: "half", Kernel: "half_functions", Grid: x(4), Block: x(64), Args: []Arg{in(U16, 256, anyBytes), out(F16, 1024)}},
}

var tensorCases = []Case{
	{Family: "tensor", Kernel: "tensor_s8", Grid: x(4), Block: x(32), Args: []Arg{in(U32, 512, randomWords), in(U32, 256, randomWords), inout(U32, 512, anyWords)}},
	{Family: "tensor", Kernel: "tensor_f16", Grid: x(4), Block: x(32), Args: []Arg{in(F16, 1024, halves(31, false)), in(F16, 512, halves(31, false)), inout(F32, 512, floats(1, 1))}},
	{Family: "tensor", Kernel: "tensor_f16_any", Grid: x(4), Block: x(32), Bound: Bound{Abs: 1e-6, Why: tensorSums}, Args: []Arg{in(F16, 1024, unitHalves), in(F16, 512, unitHalves), out(F32, 512)}},
	{Family: "tensor", Kernel: "tensor_bf16", Grid: x(4), Block: x(32), Args: []Arg{in(U16, 1024, halves(31, true)), in(U16, 512, halves(31, true)), inout(F32, 512, floats(2, 2))}},
	{Family: "tensor", Kernel: "tensor_f64", Grid: x(4), Block: x(32), Args: []Arg{in(F64, 128, doubles(-1, 1)), in(F64, 128, doubles(-1, 1)), inout(F64, 256, doubles(-1, 1))}},
	{Family: "tensor", Kernel: "tensor_ldmatrix", Grid: x(2), Block: x(32), Args: []Arg{in(U32, 256, randomWords), out(U32, 64)}},
}
