package differ

var hashCases = []Case{
	{Family: "hash", Kernel: "hash_fnv", Grid: x(2), Block: x(64), Args: []Arg{in(U8, 128*19, anyBytes), out(U32, 128), value(uint32(19))}},
	{Family: "hash", Kernel: "hash_fnv64", Grid: x(2), Block: x(64), Args: []Arg{in(U8, 128*19, anyBytes), out(U64, 128), value(uint32(19))}},
	{Family: "hash", Kernel: "hash_murmur3", Grid: x(2), Block: x(64), Args: []Arg{in(U8, 128*23, anyBytes), out(U32, 128), value(uint32(23)), value(uint32(42))}},
	{Family: "hash", Kernel: "hash_sha256", Grid: x(2), Block: x(32), Args: []Arg{in(U8, 64*50, anyBytes), out(U32, 512), value(uint32(50))}},
	{Family: "hash", Kernel: "hash_xx32", Grid: x(2), Block: x(64), Args: []Arg{in(U8, 128*39, anyBytes), out(U32, 128), value(uint32(39)), value(uint32(7))}},
	{Family: "hash", Kernel: "hash_sip", Grid: x(2), Block: x(32), Args: []Arg{in(U64, 64*5, randomLongs), out(U64, 64), value(uint32(5)), value(uint64(0x0706050403020100)), value(uint64(0x0f0e0d0c0b0a0908))}},
	{Family: "hash", Kernel: "hash_crc32", Grid: x(1), Block: x(256), Args: []Arg{in(U8, 256*21, anyBytes), out(U32, 256), value(uint32(21))}},
}

var randomCases = []Case{
	{Family: "random", Kernel: "random_philox", Grid: x(2), Block: x(64), Args: []Arg{out(U32, 512), value(uint32(0xdeadbeef)), value(uint32(42))}},
	{Family: "random", Kernel: "random_xorshift", Grid: x(1), Block: x(64), Args: []Arg{in(U32, 64, randomWords), out(U32, 640), value(uint32(10))}},
	{Family: "random", Kernel: "random_lcg", Grid: x(2), Block: x(32), Args: []Arg{in(U64, 64, randomLongs), out(F64, 64), value(uint32(20))}},
	{Family: "random", Kernel: "random_twister", Grid: x(1), Block: x(256), Args: []Arg{out(U32, 624), value(uint32(5489))}},
	{Family: "random", Kernel: "random_splitmix", Grid: x(1), Block: x(64), Args: []Arg{in(U64, 64, randomLongs), out(U64, 512), value(uint32(8))}},
	{Family: "random", Kernel: "random_darts", Grid: x(3), Block: x(64), Args: []Arg{inout(U32, 1, zeros), value(uint32(30)), value(uint32(12345))}},
}

var textCases = []Case{
	{Family: "text", Kernel: "text_search", Grid: x(16), Block: x(128), Args: []Arg{in(U8, 2000, bytesOf("ab")), value(uint32(2000)), in(U8, 6, bytesOf("ab")), value(uint32(6)), inout(U32, 1, zeros), inout(U32, 1, same(1<<30))}},
	{Family: "text", Kernel: "text_words", Grid: x(4), Block: x(64), Args: []Arg{in(U8, 512, bytesOf("abcXYZ  .1\n")), out(U32, 8), out(U32, 8)}},
	{Family: "text", Kernel: "text_base64", Grid: x(3), Block: x(64), Args: []Arg{in(U8, 500, anyBytes), out(U8, 668), value(uint32(500))}},
	{Family: "text", Kernel: "text_hex", Grid: x(4), Block: x(64), Args: []Arg{in(U8, 256, anyBytes), out(U16, 256)}},
	{Family: "text", Kernel: "text_utf8", Grid: x(2), Block: x(64), Args: []Arg{in(U8, 2048, utf8), out(U32, 128), value(uint32(16))}},
	{Family: "text", Kernel: "text_atoi", Grid: x(2), Block: x(64), Args: []Arg{in(U8, 2048, numerals), out(U64, 128)}},
	{Family: "text", Kernel: "text_itoa", Grid: x(2), Block: x(64), Args: []Arg{in(U64, 128, anyLongs), out(U8, 128*24)}},
	{Family: "text", Kernel: "text_distance", Grid: x(2), Block: x(32), Args: []Arg{in(U8, 768, anyBytes), in(U8, 768, anyBytes), out(U32, 64)}},
}

var bigCases = []Case{
	{Family: "bigint", Kernel: "big_add", Grid: x(2), Block: x(64), Args: []Arg{in(U32, 512, anyWords), in(U32, 512, anyWords), out(U32, 1280)}},
	{Family: "bigint", Kernel: "big_multiply", Grid: x(2), Block: x(32), Args: []Arg{in(U32, 512, anyWords), in(U32, 512, anyWords), out(U32, 1024)}},
	{Family: "bigint", Kernel: "big_128", Grid: x(2), Block: x(64), Args: []Arg{in(U64, 256, anyLongs), in(U64, 256, anyLongs), out(U64, 1024)}},
	{Family: "bigint", Kernel: "big_power", Grid: x(1), Block: x(64), Args: []Arg{in(U64, 64, anyLongs), in(U64, 64, randomLongs), in(U64, 64, anyLongs), out(U64, 64)}},
}

var integerCases = []Case{
	{Family: "integer", Kernel: "int_div64", Grid: x(2), Block: x(64), Args: []Arg{in(U64, 128, anyLongs), in(U64, 128, anyLongs), out(U64, 512)}},
	{Family: "integer", Kernel: "int_div32", Grid: x(2), Block: x(64), Args: []Arg{in(U32, 128, anyWords), in(U32, 128, anyWords), out(U32, 768)}},
	{Family: "integer", Kernel: "int_bits", Grid: x(2), Block: x(64), Args: []Arg{in(U64, 128, anyLongs), out(U64, 1024)}},
	{Family: "integer", Kernel: "int_morton", Grid: x(2), Block: x(64), Args: []Arg{in(U32, 128, randomWords), out(U32, 128)}},
	{Family: "integer", Kernel: "int_saturate", Grid: x(2), Block: x(64), Args: []Arg{in(U32, 128, anyWords), in(U32, 128, anyWords), in(F32, 128, anyFloats), out(U32, 1280)}},
	{Family: "integer", Kernel: "int_odd", Grid: x(4), Block: x(64), Args: []Arg{in(U32, 256, anyWords), in(U32, 256, randomWords), out(U32, 4096)}},
	{Family: "integer", Kernel: "int_roots", Grid: x(1), Block: x(64), Args: []Arg{in(U64, 64, anyLongs), out(U32, 128)}},
	{Family: "integer", Kernel: "int_fixed", Grid: x(2), Block: x(64), Args: []Arg{in(U32, 128, anyWords), in(U32, 128, anyWords), out(U32, 512)}},
}
