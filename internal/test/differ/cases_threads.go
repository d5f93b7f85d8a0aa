package differ

import "math"

// config is the parameter of kernel struct_by_value.
type config struct {
	Scale  float32
	Flags  [5]uint8
	Offset int64
	Table  [6]int16
}

var linkCases = []Case{
	{Family: "links", Kernel: "list_walk", Grid: x(3), Block: x(64), Args: []Arg{inout(U32, 4*300, zeros), in(U32, 300, shuffles(100)), out(U32, 6), value(uint32(100))}},
	{Family: "links", Kernel: "list_push", Grid: x(1), Block: x(128), Args: []Arg{inout(U32, 129, zeros), inout(U32, 1, zeros), in(U32, 128, randomWords), out(U64, 2)}},
	{Family: "links", Kernel: "tree_walk", Grid: x(1), Block: x(32), Args: []Arg{in(U32, 32*30, anyWords), inout(U32, 32*30*3, zeros), out(U64, 64), value(uint32(30))}},
	{Family: "links", Kernel: "function_pointers", Grid: x(2), Block: x(64), Args: []Arg{in(U8, 64*12, anyBytes), in(U32, 128, randomWords), out(U32, 128), value(uint32(12))}},
	{Family: "links", Kernel: "virtual_calls", Grid: x(2), Block: x(64), Args: []Arg{in(F32, 130, floats(-3, 3)), out(F32, 128)}},
	{Family: "links", Kernel: "struct_by_value", Grid: x(2), Block: x(64), Args: []Arg{value(config{1.25, [5]uint8{1, 2, 3, 250, 5}, -1 << 40, [6]int16{-5, 4, -3, 2, 30000, 7}}), in(U32, 128, anyWords), out(F64, 128)}},
	{Family: "links", Kernel: "recursion", Grid: x(1), Block: x(64), Args: []Arg{out(U32, 64)}},
	{Family: "links", Kernel: "union_find", Grid: x(1), Block: x(128), Args: []Arg{out(U32, 300), in(U32, 400, wordsBelow(300)), value(uint32(300)), value(uint32(200))}},
}

var warpCases = []Case{
	{Family: "warp", Kernel: "warp_compact", Grid: x(2), Block: x(128), Args: []Arg{in(U32, 256, randomWords), out(U32, 256), out(U32, 8)}},
	{Family: "warp", Kernel: "warp_aggregate", Grid: x(2), Block: x(128), Args: []Arg{in(U32, 256, randomWords), in(U32, 256, randomWords), inout(U32, 32, zeros)}},
	{Family: "warp", Kernel: "warp_shuffles", Grid: x(2), Block: x(64), Args: []Arg{in(U32, 128, randomWords), out(U32, 128)}},
	{Family: "warp", Kernel: "warp_votes", Grid: x(2), Block: x(64), Args: []Arg{in(U32, 128, randomWords), out(U32, 128)}},
	{Family: "warp", Kernel: "warp_sort", Grid: x(2), Block: x(64), Args: []Arg{inout(U32, 128, anyWords)}},
	{Family: "warp", Kernel: "warp_redux", Grid: x(2), Block: x(64), Not: []string{"sm_75"}, Args: []Arg{in(U32, 128, randomWords), out(U32, 128)}},
	{Family: "warp", Kernel: "warp_halves", Grid: x(2), Block: x(64), Args: []Arg{in(U32, 128, randomWords), out(U32, 128)}},
	{Family: "warp", Kernel: "warp_match_all", Grid: x(8), Block: x(64), Args: []Arg{in(U32, 512, anyWords), out(U32, 512)}},
}

var divergeCases = []Case{
	{Family: "diverge", Kernel: "diverge_collatz", Grid: x(2), Block: x(64), Args: []Arg{in(U32, 128, randomWords), out(U32, 128)}},
	{Family: "diverge", Kernel: "diverge_mandelbrot", Grid: xy(4, 4), Block: xy(16, 8), Args: []Arg{out(U16, 64*32), value(uint32(64)), value(uint32(32)), value(uint32(60))}},
	{Family: "diverge", Kernel: "diverge_march", Grid: x(2), Block: x(64), Args: []Arg{in(U8, 900, anyBytes), in(F32, 256, floats(-1, 1)), out(F32, 384), value(uint32(30))}},
	{Family: "diverge", Kernel: "diverge_gcd", Grid: x(1), Block: x(64), Args: []Arg{in(U64, 64, anyLongs), in(U64, 64, anyLongs), out(U64, 64)}},
	{Family: "diverge", Kernel: "diverge_switch", Grid: x(2), Block: x(64), Args: []Arg{in(U8, 256, anyBytes), out(U32, 128), value(uint32(60))}},
	{Family: "diverge", Kernel: "diverge_exit", Grid: x(2), Block: x(96), Args: []Arg{in(U32, 192, randomWords), out(U32, 192)}},
	{Family: "diverge", Kernel: "diverge_primes", Grid: x(2), Block: x(64), Args: []Arg{out(U32, 128), value(uint32(9900))}},
	{Family: "diverge", Kernel: "diverge_barriers", Grid: x(2), Block: x(64), Args: []Arg{in(U8, 128, anyBytes), out(U32, 128)}},
}

var lockCases = []Case{
	{Family: "lock", Kernel: "lock_ticket", Grid: x(6), Block: x(32), Args: []Arg{inout(U32, 2, zeros), inout(U32, 2, zeros), value(uint32(5))}},
	{Family: "lock", Kernel: "lock_cas", Grid: x(3), Block: x(40), Args: []Arg{inout(U32, 1, zeros), inout(U64, 1, zeros), in(U32, 120, anyWords), value(uint32(2))}},
	{Family: "lock", Kernel: "lock_backoff", Grid: x(4), Block: x(96), Args: []Arg{inout(U32, 1, zeros), inout(U32, 1, zeros)}},
	{Family: "lock", Kernel: "lock_ring", Grid: x(1), Block: x(64), Args: []Arg{in(U32, 50, randomWords), out(U32, 50), value(uint32(50))}},
	{Family: "lock", Kernel: "lock_grid", Grid: x(6), Block: x(64), Args: []Arg{inout(U32, 1, zeros), inout(U32, 384, randomWords), inout(U32, 384, zeros), value(uint32(5))}},
	{Family: "lock", Kernel: "lock_relay", Grid: x(8), Block: x(32), Args: []Arg{inout(U32, 1, zeros), inout(U32, 9, same(3))}},
}

var memoryCases = []Case{
	{Family: "memory", Kernel: "memory_constant", Grid: x(2), Block: x(64), Args: []Arg{in(U32, 128, randomWords), out(F64, 128)}},
	{Family: "memory", Kernel: "memory_globals", Grid: x(1), Block: x(32), Args: []Arg{out(U64, 32)}},
	{Family: "memory", Kernel: "memory_dynamic", Grid: x(3), Block: x(64), Shared: 600, Args: []Arg{in(U32, 300, randomWords), out(U32, 300), value(uint32(100))}},
	{Family: "memory", Kernel: "memory_local", Grid: x(2), Block: x(32), Args: []Arg{in(U8, 256, anyBytes), out(U32, 64)}},
	{Family: "memory", Kernel: "memory_alloca", Grid: x(2), Block: x(32), Not: []string{"clang", "clang0"}, Args: []Arg{in(U32, 64, randomWords), out(U32, 64)}},
	{Family: "memory", Kernel: "memory_unaligned", Grid: x(2), Block: x(64), Args: []Arg{in(U8, 256, anyBytes), in(U32, 128, randomWords), out(U64, 128)}},
	{Family: "memory", Kernel: "memory_vectors", Grid: x(2), Block: x(64), Args: []Arg{in(U32, 512, randomWords), out(U32, 512), in(U16, 512, anyBytes), out(F32, 256), in(U8, 384, anyBytes), in(F64, 256, doubles(-1e3, 1e3))}},
	{Family: "memory", Kernel: "memory_banks", Grid: x(1), Block: x(128), Args: []Arg{in(U32, 1024, randomWords), out(U32, 128)}},
	{Family: "memory", Kernel: "memory_stride", Grid: x(3), Block: x(64), Args: []Arg{in(F32, 1000, anyFloats), inout(F32, 1000, anyFloats), value(float32(math.Pi)), value(uint32(1000))}},
	{Family: "memory", Kernel: "memory_grid", Grid: xyz(3, 4, 2), Block: xyz(5, 3, 4), Args: []Arg{out(U32, 1440)}},
	{Family: "memory", Kernel: "memory_clock", Grid: x(1), Block: x(64), Args: []Arg{in(U32, 64, randomWords), out(U32, 64)}},
	{Family: "memory", Kernel: "memory_caches", Grid: x(2), Block: x(64), Args: []Arg{in(U32, 130, randomWords), out(U32, 128)}},
	{Family: "memory", Kernel: "memory_structs", Grid: x(1), Block: x(32), Args: []Arg{in(U64, 320, randomLongs), out(U64, 320)}},
}

var copyCases = []Case{
	{Family: "copy", Kernel: "copy_async", Grid: x(2), Block: x(128), Args: []Arg{in(U32, 1024, randomWords), out(U32, 1024)}},
	{Family: "copy", Kernel: "copy_stages", Grid: x(1), Block: x(64), Args: []Arg{in(U32, 300, randomWords), out(U32, 64), value(uint32(300))}},
}

var atomicCases = []Case{
	{Family: "atomic", Kernel: "atomic_integers", Grid: x(4), Block: x(96), Args: []Arg{in(U32, 384, randomWords), inout(U32, 11, same(0x40000000)), inout(U64, 8, sameLong(1<<61))}},
	{Family: "atomic", Kernel: "atomic_floats", Grid: x(4), Block: x(64), Args: []Arg{in(U8, 256, anyBytes), inout(F32, 5, zeros), inout(F64, 4, zeros)}},
	{Family: "atomic", Kernel: "atomic_shared", Grid: x(3), Block: x(128), Args: []Arg{in(U32, 384, randomWords), out(U32, 24)}},
	{Family: "atomic", Kernel: "atomic_scopes", Grid: x(3), Block: x(64), Args: []Arg{in(U32, 192, randomWords), inout(U32, 19, same(9)), inout(U64, 4, sameLong(5))}},
	{Family: "atomic", Kernel: "atomic_bytes", Grid: x(3), Block: x(64), Args: []Arg{in(U8, 192, anyBytes), inout(U32, 8, randomWords)}},
	{Family: "atomic", Kernel: "atomic_cas16", Grid: x(2), Block: x(64), Args: []Arg{in(U8, 128, anyBytes), inout(U16, 8, zeros)}},
	{Family: "atomic", Kernel: "atomic_max_double", Grid: x(2), Block: x(64), Args: []Arg{in(F64, 128, doubles(-5, 5)), inout(F64, 1, doubles(-9, -8))}},
}

var printCases = []Case{
	{Family: "print", Kernel: "print_printf", Grid: x(1), Block: x(32), Args: []Arg{in(F32, 32, floats(0, 1)), out(U32, 32)}},
	{Family: "print", Kernel: "print_assert", Grid: x(2), Block: x(32), Args: []Arg{in(U32, 64, randomWords), out(U32, 64), value(uint32(1 << 16))}},
}
