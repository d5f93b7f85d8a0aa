package kernels_test

import (
	"math/bits"
	"testing"
)

// integers are edge values of words of 32 and 64 bits.
var integers = []uint64{
	0, 1, 2, 3, 5, 31, 32, 33, 64, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x00ffffff, 0x01000000, 0x12345678, 0x55555555,
	0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff, 0x100000000, 0x123456789abcdef0, 0x7fffffffffffffff,
	0x8000000000000000, 0x8080808080808080, 0x7f7f7f7f7f7f7f7f, 0xfffffffffffffffe, 0xffffffffffffffff,
}

func u32(v uint32) uint64 { return uint64(v) }
func s32(v int64) uint64  { return uint64(uint32(v)) }
func i32(v uint64) int64  { return int64(int32(v)) }

func b2i(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// s24 and u24 return the lower 24 bits.
func s24(v uint64) int64  { return int64(int32(uint32(v)<<8) >> 8) }
func u24(v uint64) uint64 { return v & 0xffffff }

func diff(x, y int64) int64 {
	if x > y {
		return x - y
	}
	return y - x
}

// TestIntegers compares the integer intrinsics with Go.
func TestIntegers(t *testing.T) {
	check(t, triples(integers), []row{
		{"__popc((u32)a)", func(a, b, c uint64) uint64 { return uint64(bits.OnesCount32(uint32(a))) }},
		{"__popcll(a)", func(a, b, c uint64) uint64 { return uint64(bits.OnesCount64(a)) }},
		{"__clz((int)a)", func(a, b, c uint64) uint64 { return uint64(bits.LeadingZeros32(uint32(a))) }},
		{"__clzll((long long)a)", func(a, b, c uint64) uint64 { return uint64(bits.LeadingZeros64(a)) }},
		{"__ffs((int)a)", func(a, b, c uint64) uint64 { return uint64((bits.TrailingZeros32(uint32(a)) + 1) % 33) }},
		{"__ffsll((long long)a)", func(a, b, c uint64) uint64 { return uint64((bits.TrailingZeros64(a) + 1) % 65) }},
		{"__brev((u32)a)", func(a, b, c uint64) uint64 { return u32(bits.Reverse32(uint32(a))) }},
		{"__brevll(a)", func(a, b, c uint64) uint64 { return bits.Reverse64(a) }},
		{"__fns((u32)a, 0, 1 + (int)(b % 32))", func(a, b, c uint64) uint64 { return nthSet(uint32(a), int(b%32)) }},
		{"__mulhi((int)a, (int)b)", func(a, b, c uint64) uint64 { return s32(i32(a) * i32(b) >> 32) }},
		{"__umulhi((u32)a, (u32)b)", func(a, b, c uint64) uint64 { return uint64(uint32(a)) * uint64(uint32(b)) >> 32 }},
		{"__mul64hi((long long)a, (long long)b)", func(a, b, c uint64) uint64 {
			h, _ := bits.Mul64(a, b)
			return h - uint64(int64(a)>>63)&b - uint64(int64(b)>>63)&a
		}},
		{"__umul64hi(a, b)", func(a, b, c uint64) uint64 { h, _ := bits.Mul64(a, b); return h }},
		{"__mul24((int)a, (int)b)", func(a, b, c uint64) uint64 { return s32(s24(a) * s24(b)) }},
		{"__umul24((u32)a, (u32)b)", func(a, b, c uint64) uint64 { return u32(uint32(u24(a) * u24(b))) }},
		{"__sad((int)a, (int)b, (u32)c)", func(a, b, c uint64) uint64 { return s32(diff(i32(a), i32(b)) + int64(c)) }},
		{"__usad((u32)a, (u32)b, (u32)c)", func(a, b, c uint64) uint64 {
			return s32(diff(int64(uint32(a)), int64(uint32(b))) + int64(c))
		}},
		{"__hadd((int)a, (int)b)", func(a, b, c uint64) uint64 { return s32((i32(a) + i32(b)) >> 1) }},
		{"__rhadd((int)a, (int)b)", func(a, b, c uint64) uint64 { return s32((i32(a) + i32(b) + 1) >> 1) }},
		{"__uhadd((u32)a, (u32)b)", func(a, b, c uint64) uint64 { return (uint64(uint32(a)) + uint64(uint32(b))) >> 1 }},
		{"__urhadd((u32)a, (u32)b)", func(a, b, c uint64) uint64 { return (uint64(uint32(a)) + uint64(uint32(b)) + 1) >> 1 }},
		{"__funnelshift_l((u32)a, (u32)b, (u32)c)", func(a, b, c uint64) uint64 { return u32(uint32((b<<32 | a&0xffffffff) << (c % 32) >> 32)) }},
		{"__funnelshift_r((u32)a, (u32)b, (u32)c)", func(a, b, c uint64) uint64 { return u32(uint32((b<<32 | a&0xffffffff) >> (c % 32))) }},
		{"__funnelshift_lc((u32)a, (u32)b, (u32)c)", func(a, b, c uint64) uint64 {
			return u32(uint32((b<<32 | a&0xffffffff) << min(uint64(uint32(c)), 32) >> 32))
		}},
		{"__funnelshift_rc((u32)a, (u32)b, (u32)c)", func(a, b, c uint64) uint64 {
			return u32(uint32((b<<32 | a&0xffffffff) >> min(uint64(uint32(c)), 32)))
		}},
		{"__byte_perm((u32)a, (u32)b, (u32)c & 0x7777)", func(a, b, c uint64) uint64 {
			var r uint64
			for i := range 4 {
				r |= (b<<32 | a&0xffffffff) >> (8 * (c >> (4 * i) & 7)) & 0xff << (8 * i)
			}
			return r
		}},
	}, "sm_52", "sm_80")
}

// nthSet returns the position of the bit of rank n that is set, or all ones.
func nthSet(v uint32, n int) uint64 {
	for i := range 32 {
		if v>>i&1 == 1 {
			if n == 0 {
				return uint64(i)
			}
			n--
		}
	}
	return 0xffffffff
}

// dot returns the sum of products of count elements of a, of size bits from from, and of
// bytes of b, and c.
func dot(a, b, c uint64, size, count, shift int, signed bool) uint64 {
	sum := c
	for i := range count {
		x, y := a>>(size*i), b>>(8*i+shift)
		switch {
		case !signed:
			sum += x & (1<<size - 1) * (y & 0xff)
		case size == 8:
			sum += uint64(int64(int8(x)) * int64(int8(y)))
		default:
			sum += uint64(int64(int16(x)) * int64(int8(y)))
		}
	}
	return sum & 0xffffffff
}

// TestDotProducts compares __dp4a and __dp2a with Go.
func TestDotProducts(t *testing.T) {
	check(t, triples(integers), []row{
		{"__dp4a((int)a, (int)b, (int)c)", func(a, b, c uint64) uint64 { return dot(a, b, c, 8, 4, 0, true) }},
		{"__dp4a((u32)a, (u32)b, (u32)c)", func(a, b, c uint64) uint64 { return dot(a, b, c, 8, 4, 0, false) }},
		{"__dp2a_lo((int)a, (int)b, (int)c)", func(a, b, c uint64) uint64 { return dot(a, b, c, 16, 2, 0, true) }},
		{"__dp2a_lo((u32)a, (u32)b, (u32)c)", func(a, b, c uint64) uint64 { return dot(a, b, c, 16, 2, 0, false) }},
		{"__dp2a_hi((int)a, (int)b, (int)c)", func(a, b, c uint64) uint64 { return dot(a, b, c, 16, 2, 16, true) }},
		{"__dp2a_hi((u32)a, (u32)b, (u32)c)", func(a, b, c uint64) uint64 { return dot(a, b, c, 16, 2, 16, false) }},
		{"__dp4a(__builtin_bit_cast(char4, (int)a), __builtin_bit_cast(char4, (int)b), (int)c)", func(a, b, c uint64) uint64 {
			return dot(a, b, c, 8, 4, 0, true)
		}},
	}, "sm_61", "sm_80")
}

// lane is an operation on elements of a word. Its operands and limits are those of the
// element's type.
type lane struct {
	name   string
	signed bool
	op     func(x, y, low, high int64) int64
}

// lanes are the functions of the halves and bytes of a word, by the name before the 2 or 4.
var lanes = []lane{
	{"__vadd", false, func(x, y, _, _ int64) int64 { return x + y }},
	{"__vsub", false, func(x, y, _, _ int64) int64 { return x - y }},
	{"__vaddss", true, func(x, y, low, high int64) int64 { return min(max(x+y, low), high) }},
	{"__vsubss", true, func(x, y, low, high int64) int64 { return min(max(x-y, low), high) }},
	{"__vaddus", false, func(x, y, low, high int64) int64 { return min(max(x+y, low), high) }},
	{"__vsubus", false, func(x, y, low, high int64) int64 { return min(max(x-y, low), high) }},
	{"__vavgu", false, func(x, y, _, _ int64) int64 { return (x + y + 1) / 2 }},
	{"__vavgs", true, func(x, y, _, _ int64) int64 { return (x + y + int64(b2i(x+y >= 0))) >> 1 }},
	{"__vhaddu", false, func(x, y, _, _ int64) int64 { return (x + y) / 2 }},
	{"__vmins", true, func(x, y, _, _ int64) int64 { return min(x, y) }},
	{"__vminu", false, func(x, y, _, _ int64) int64 { return min(x, y) }},
	{"__vmaxs", true, func(x, y, _, _ int64) int64 { return max(x, y) }},
	{"__vmaxu", false, func(x, y, _, _ int64) int64 { return max(x, y) }},
	{"__vabsdiffs", true, func(x, y, _, _ int64) int64 { return diff(x, y) }},
	{"__vabsdiffu", false, func(x, y, _, _ int64) int64 { return diff(x, y) }},
	{"__vcmpeq", false, func(x, y, _, _ int64) int64 { return -int64(b2i(x == y)) }},
	{"__vcmpne", false, func(x, y, _, _ int64) int64 { return -int64(b2i(x != y)) }},
	{"__vcmpges", true, func(x, y, _, _ int64) int64 { return -int64(b2i(x >= y)) }},
	{"__vcmpgeu", false, func(x, y, _, _ int64) int64 { return -int64(b2i(x >= y)) }},
	{"__vcmpgts", true, func(x, y, _, _ int64) int64 { return -int64(b2i(x > y)) }},
	{"__vcmpgtu", false, func(x, y, _, _ int64) int64 { return -int64(b2i(x > y)) }},
	{"__vcmples", true, func(x, y, _, _ int64) int64 { return -int64(b2i(x <= y)) }},
	{"__vcmpleu", false, func(x, y, _, _ int64) int64 { return -int64(b2i(x <= y)) }},
	{"__vcmplts", true, func(x, y, _, _ int64) int64 { return -int64(b2i(x < y)) }},
	{"__vcmpltu", false, func(x, y, _, _ int64) int64 { return -int64(b2i(x < y)) }},
	{"__vseteq", false, func(x, y, _, _ int64) int64 { return int64(b2i(x == y)) }},
	{"__vsetne", false, func(x, y, _, _ int64) int64 { return int64(b2i(x != y)) }},
	{"__vsetges", true, func(x, y, _, _ int64) int64 { return int64(b2i(x >= y)) }},
	{"__vsetgeu", false, func(x, y, _, _ int64) int64 { return int64(b2i(x >= y)) }},
	{"__vsetgts", true, func(x, y, _, _ int64) int64 { return int64(b2i(x > y)) }},
	{"__vsetgtu", false, func(x, y, _, _ int64) int64 { return int64(b2i(x > y)) }},
	{"__vsetles", true, func(x, y, _, _ int64) int64 { return int64(b2i(x <= y)) }},
	{"__vsetleu", false, func(x, y, _, _ int64) int64 { return int64(b2i(x <= y)) }},
	{"__vsetlts", true, func(x, y, _, _ int64) int64 { return int64(b2i(x < y)) }},
	{"__vsetltu", false, func(x, y, _, _ int64) int64 { return int64(b2i(x < y)) }},
}

// element returns the element of a word at bit i.
func (l *lane) element(v uint64, i, size int) int64 {
	if l.signed {
		return int64(v) << (64 - i - size) >> (64 - size)
	}
	return int64(v >> i & (1<<size - 1))
}

// word applies l to the elements of size bits of two words.
func (l *lane) word(a, b uint64, size int) uint64 {
	low, high := int64(0), int64(1)<<size-1
	if l.signed {
		low, high = -1<<(size-1), 1<<(size-1)-1
	}
	var r uint64
	for i := 0; i < 32; i += size {
		r |= uint64(l.op(l.element(a, i, size), l.element(b, i, size), low, high)) & (1<<size - 1) << i
	}
	return r
}

// TestLanes compares the functions of halves and bytes with Go.
func TestLanes(t *testing.T) {
	var rows []row
	for _, l := range lanes {
		rows = append(rows,
			row{l.name + "2((u32)a, (u32)b)", func(a, b, _ uint64) uint64 { return l.word(a, b, 16) }},
			row{l.name + "4((u32)a, (u32)b)", func(a, b, _ uint64) uint64 { return l.word(a, b, 8) }})
	}
	one := []lane{
		{"__vabs", true, func(x, _, _, _ int64) int64 { return max(x, -x) }},
		{"__vabsss", true, func(x, _, _, high int64) int64 { return min(max(x, -x), high) }},
		{"__vneg", true, func(x, _, _, _ int64) int64 { return -x }},
		{"__vnegss", true, func(x, _, _, high int64) int64 { return min(-x, high) }},
	}
	for _, l := range one {
		rows = append(rows,
			row{l.name + "2((u32)a)", func(a, b, _ uint64) uint64 { return l.word(a, b, 16) }},
			row{l.name + "4((u32)a)", func(a, b, _ uint64) uint64 { return l.word(a, b, 8) }})
	}
	for _, size := range []int{16, 8} {
		for _, signed := range []bool{false, true} {
			l := lane{signed: signed}
			name := map[bool]string{false: "__vsadu", true: "__vsads"}[signed] + map[int]string{16: "2", 8: "4"}[size]
			rows = append(rows, row{name + "((u32)a, (u32)b)", func(a, b, _ uint64) uint64 {
				var sum int64
				for i := 0; i < 32; i += size {
					sum += diff(l.element(a, i, size), l.element(b, i, size))
				}
				return uint64(sum)
			}})
		}
	}
	check(t, triples(integers), rows, "sm_52")
}
