// Kernels that convert tensors, and one that hashes memory: doc.go says what they compute. All are
// launched with THREADS threads a block and any number of blocks. A launch has a table of pieces,
// which the blocks share out in tiles. Addresses need no alignment. Where they are aligned, a thread
// moves 16 bytes at a time.

#include <stdint.h>

#define THREADS 256
#define TILE 4096 // numbers
#define DEVICE __device__ __forceinline__

// Floats by their bits. decode returns the bits of the float of 32 bits with the same value, or of
// a NaN with the same sign. encode rounds to the nearest, ties to even. It gives a NaN its sign, and
// sets all other bits.

struct F32 {
    enum { size = 4 };
    static DEVICE uint32_t decode(uint32_t x) { return x; }
    static DEVICE uint32_t encode(uint32_t x) { return (x & 0x7fffffff) > 0x7f800000 ? x | 0x7fffffff : x; }
};

struct F16 {
    enum { size = 2 };
    // The instructions set all bits of a NaN but its sign.
    static DEVICE uint32_t decode(uint32_t x)
    {
        float f;
        asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"((uint16_t)x));
        return __float_as_uint(f) | (x & 0x8000) << 16;
    }
    static DEVICE uint32_t encode(uint32_t x)
    {
        uint16_t h;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(__uint_as_float(x)));
        return h | (x >> 16 & 0x8000);
    }
};

struct BF16 {
    enum { size = 2 };
    static DEVICE uint32_t decode(uint32_t x) { return x << 16; }
    static DEVICE uint32_t encode(uint32_t x)
    {
        // A carry goes into the exponent, and from the largest number to infinity.
        return (x & 0x7fffffff) > 0x7f800000 ? x >> 16 | 0x7fff : (x + 0x7fff + (x >> 16 & 1)) >> 16;
    }
};

// Float8 has BITS bits of the significand, an exponent with this bias, and INF as the code of what
// is too large: infinity, or NaN in a format without infinity.
template <int BITS, int BIAS, uint32_t INF> struct Float8 {
    enum : uint32_t { size = 1, shift = 23 - BITS, least = (128 - BIAS) << 23, most = (127 + BIAS + 2) << 23 };

    static DEVICE uint32_t decode(uint32_t x)
    {
        // The product is exact, for denormal numbers too. Only the exponent's bias differs.
        uint32_t a = x & 0x7f, bits = __float_as_uint(__uint_as_float(a << shift) * __uint_as_float((254 - BIAS) << 23));
        if (a >= INF) bits = a == 0x7f || a > INF ? 0x7fffffff : 0x7f800000;
        return bits | (x & 0x80) << 24;
    }

    static DEVICE uint32_t encode(uint32_t x)
    {
        // unit is a power of two that is so large that the sum has the place of the code's last
        // bit as its own last place. So the addition rounds. Below least, the exponent of normal
        // numbers, the last bit stays where it is.
        uint32_t a = x & 0x7fffffff, cut = min(a, (uint32_t)most);
        uint32_t exponent = max(cut & 0x7f800000, (uint32_t)least), unit = exponent + (shift << 23);
        uint32_t sum = __float_as_uint(__uint_as_float(cut) + __uint_as_float(unit));
        uint32_t code = min(sum - unit + ((exponent - least) >> shift), INF);
        if (INF != 0x7f && a > 0x7f800000) code = 0x7f;
        return code | (x >> 24 & 0x80);
    }
};
typedef Float8<3, 7, 0x7f> E4M3;
typedef Float8<2, 15, 0x7c> E5M2;

// get and put move SIZE bytes from and to any address.
template <int SIZE> DEVICE uint32_t get(const uint8_t *p)
{
    if (SIZE == 1) return *p;
    if (SIZE == 2) return (uint64_t)p & 1 ? p[0] | p[1] << 8 : *(const uint16_t *)p;
    if (((uint64_t)p & 3) == 0) return *(const uint32_t *)p;
    return p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24;
}

template <int SIZE> DEVICE void put(uint8_t *p, uint32_t x)
{
    if (SIZE == 1) {
        *p = (uint8_t)x;
    } else if (((uint64_t)p & (SIZE - 1)) == 0) {
        if (SIZE == 2) *(uint16_t *)p = (uint16_t)x;
        else *(uint32_t *)p = x;
    } else {
#pragma unroll
        for (int i = 0; i < SIZE; i++) p[i] = (uint8_t)(x >> 8 * i);
    }
}

// Words are BYTES bytes that one instruction moves: 4, 8 or 16. COUNT numbers lie in them.
template <int BYTES> struct __attribute__((aligned(BYTES))) Words {
    uint32_t word[BYTES / 4];
};

template <int SIZE, int BYTES> DEVICE uint32_t part(const Words<BYTES> &w, int i)
{
    if (SIZE == 4) return w.word[i];
    return w.word[i * SIZE / 4] >> i * SIZE % 4 * 8 & (SIZE == 1 ? 0xff : 0xffff);
}

template <int SIZE, int BYTES> DEVICE void set_part(Words<BYTES> &w, int i, uint32_t x)
{
    int shift = i * SIZE % 4 * 8;
    if (shift == 0) w.word[i * SIZE / 4] = x;
    else w.word[i * SIZE / 4] |= x << shift;
}

template <int BYTES> DEVICE void load(Words<BYTES> &w, const uint8_t *p)
{
    if (BYTES == 16) *(uint4 *)&w = *(const uint4 *)p;
    else if (BYTES == 8) *(uint2 *)&w = *(const uint2 *)p;
    else *(uint32_t *)&w = *(const uint32_t *)p;
}

template <int BYTES> DEVICE void store(uint8_t *p, const Words<BYTES> &w)
{
    if (BYTES == 16) *(uint4 *)p = *(const uint4 *)&w;
    else if (BYTES == 8) *(uint2 *)p = *(const uint2 *)&w;
    else *(uint32_t *)p = *(const uint32_t *)&w;
}

DEVICE bool aligned(const void *p, int bytes) { return ((uint64_t)p & (bytes - 1)) == 0; }

// Floats converts the numbers of a tile by all threads of a block.
template <class From, class To> struct Floats {
    enum {
        block = 1, bytes = From::size, // a block has one number
        vector = 16 / ((int)From::size > (int)To::size ? (int)From::size : (int)To::size),
        unroll = TILE / THREADS / vector
    };

    static DEVICE void convert(uint8_t *dst, const uint8_t *src, uint32_t n)
    {
        uint32_t wide = 0;
        if (aligned(src, vector * From::size) && aligned(dst, vector * To::size)) {
            wide = n / vector;
            vectors(dst, src, wide);
        }
        for (uint32_t i = wide * vector + threadIdx.x; i < n; i += THREADS)
            put<To::size>(dst + i * To::size, To::encode(From::decode(get<From::size>(src + i * From::size))));
    }

    // All loads of a thread begin before the first number is needed.
    static DEVICE void vectors(uint8_t *dst, const uint8_t *src, uint32_t n)
    {
        Words<vector * From::size> in[unroll];
#pragma unroll
        for (int u = 0; u < unroll; u++) {
            uint32_t i = u * THREADS + threadIdx.x;
            if (i < n) load(in[u], src + i * (vector * From::size));
        }
#pragma unroll
        for (int u = 0; u < unroll; u++) {
            uint32_t i = u * THREADS + threadIdx.x;
            Words<vector * To::size> out;
#pragma unroll
            for (int k = 0; k < vector; k++)
                set_part<To::size>(out, k, To::encode(From::decode(part<From::size>(in[u], k))));
            if (i < n) store(dst + i * (vector * To::size), out);
        }
    }
};

// Pieces is the table of a launch. Piece k has n[k] numbers, and begins dst[k] and src[k] bytes
// after the memory. Its first tile has the number first[k], counted through all pieces.
#define PIECES 128
struct Pieces {
    uint64_t dst[PIECES], src[PIECES], n[PIECES];
    uint32_t first[PIECES + 1], count;
};

// find returns the piece of a tile.
DEVICE uint32_t find(const uint32_t *first, uint32_t count, uint32_t tile)
{
    uint32_t low = 0, high = count;
    while (high - low > 1) {
        uint32_t mid = (low + high) / 2;
        if (first[mid] <= tile) low = mid;
        else high = mid;
    }
    return low;
}

template <class C, int SIZE> DEVICE void pieces(uint8_t *dst, const uint8_t *src, const Pieces &p)
{
    for (uint32_t tile = blockIdx.x; tile < p.first[p.count]; tile += gridDim.x) {
        uint32_t k = find(p.first, p.count, tile);
        uint64_t begin = (uint64_t)(tile - p.first[k]) * TILE, left = p.n[k] - begin;
        C::convert(dst + p.dst[k] + begin * SIZE, src + p.src[k] + begin / C::block * C::bytes,
                   left < TILE ? (uint32_t)left : TILE);
    }
}

#define FLOATS(NAME, FROM, TO)                                                                               \
    extern "C" __global__ void NAME(uint8_t *dst, const uint8_t *src, const __grid_constant__ Pieces p)       \
    {                                                                                                        \
        pieces<Floats<FROM, TO>, TO::size>(dst, src, p);                                                     \
    }
FLOATS(f32_f16, F32, F16)
FLOATS(f32_bf16, F32, BF16)
FLOATS(f32_e4m3, F32, E4M3)
FLOATS(f32_e5m2, F32, E5M2)
FLOATS(f16_f32, F16, F32)
FLOATS(f16_bf16, F16, BF16)
FLOATS(f16_e4m3, F16, E4M3)
FLOATS(f16_e5m2, F16, E5M2)
FLOATS(bf16_f32, BF16, F32)
FLOATS(bf16_f16, BF16, F16)
FLOATS(bf16_e4m3, BF16, E4M3)
FLOATS(bf16_e5m2, BF16, E5M2)
FLOATS(e4m3_f32, E4M3, F32)
FLOATS(e4m3_f16, E4M3, F16)
FLOATS(e4m3_bf16, E4M3, BF16)
FLOATS(e4m3_e5m2, E4M3, E5M2)
FLOATS(e5m2_f32, E5M2, F32)
FLOATS(e5m2_f16, E5M2, F16)
FLOATS(e5m2_bf16, E5M2, BF16)
FLOATS(e5m2_e4m3, E5M2, E4M3)
