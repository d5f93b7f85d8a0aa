// Kernels that convert tensors, and one that hashes memory: doc.go says what they compute. All are
// launched with THREADS threads a block and any number of blocks. A launch has a table of pieces,
// which the blocks share out in tiles. Addresses need no alignment. Where they are aligned, a thread
// moves 16 bytes at a time. Numbers of one size can be converted where they stand: no thread reads
// what another one writes.

#include <stdint.h>

#define THREADS 256
#define TILE 4096 // numbers
#define DEVICE __device__ __forceinline__

// Floats by their bits. decode returns the bits of the float of 32 bits with the same value, or of
// a NaN with the same sign. encode rounds to the nearest, ties to even. It gives a NaN its sign, and
// sets all other bits. bytes_of is encode for a result that is stored byte by byte.

struct F32 {
    enum { size = 4 };
    static DEVICE uint32_t decode(uint32_t x) { return x; }
    static DEVICE uint32_t encode(uint32_t x) { return (x & 0x7fffffff) > 0x7f800000 ? x | 0x7fffffff : x; }
    static DEVICE uint32_t bytes_of(uint32_t x) { return encode(x); }
};

struct BF16 {
    enum { size = 2 };
    static DEVICE uint32_t decode(uint32_t x) { return x << 16; }
    static DEVICE uint32_t encode(uint32_t x)
    {
        // A carry goes into the exponent, and from the largest number to infinity.
        return (x & 0x7fffffff) > 0x7f800000 ? x >> 16 | 0x7fff : (x + 0x7fff + (x >> 16 & 1)) >> 16;
    }
    static DEVICE uint32_t bytes_of(uint32_t x) { return encode(x); }
};

// Small is a float of SIZE bytes with BITS bits of the significand, an exponent with this bias, and INF
// as the code of what is too large: infinity, or NaN in a format without infinity.
template <int SIZE, int BITS, int BIAS, uint32_t INF> struct Small {
    enum : uint32_t {
        size = SIZE, sign = 0x80 << (8 * SIZE - 8), nan = sign - 1, up = 32 - 8 * SIZE,
        shift = 23 - BITS, least = (128 - BIAS) << 23, most = (127 + BIAS + 2) << 23
    };

    static DEVICE uint32_t decode(uint32_t x)
    {
        // The product is exact, for denormal numbers too. Only the exponent's bias differs.
        uint32_t a = x & nan, bits = __float_as_uint(__uint_as_float(a << shift) * __uint_as_float((254 - BIAS) << 23));
        if (a >= INF) bits = INF == nan || a > INF ? 0x7fffffff : 0x7f800000;
        return bits | (x & sign) << up;
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
        if (INF != nan && a > 0x7f800000) code = nan;
        return code | (x >> up & sign);
    }
    static DEVICE uint32_t bytes_of(uint32_t x) { return encode(x); }
};
typedef Small<1, 3, 7, 0x7f> E4M3;
typedef Small<1, 2, 15, 0x7c> E5M2;

// F16 has the instructions of the GPU. They set all bits of a NaN but its sign.
struct F16 {
    enum { size = 2 };
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
    // NVIDIA's compiler takes cvt.rn.f16.f32, and an st.u8 of its result, for a conversion to an
    // integer of 8 bits: infinity is stored as 255. So there is no such instruction before bytes.
    static DEVICE uint32_t bytes_of(uint32_t x) { return Small<2, 10, 15, 0x7c00>::encode(x); }
};

// get and put move SIZE bytes: byte by byte, or if WHOLE from and to a multiple of SIZE.
template <int SIZE, bool WHOLE> DEVICE uint32_t get(const uint8_t *p)
{
    if (WHOLE && SIZE == 4) return *(const uint32_t *)p;
    if (WHOLE && SIZE == 2) return *(const uint16_t *)p;
    uint32_t x = 0;
#pragma unroll
    for (int i = 0; i < SIZE; i++) x |= (uint32_t)p[i] << 8 * i;
    return x;
}

template <int SIZE, bool WHOLE> DEVICE void put(uint8_t *p, uint32_t x)
{
    if (WHOLE && SIZE == 4) {
        *(uint32_t *)p = x;
    } else if (WHOLE && SIZE == 2) {
        *(uint16_t *)p = (uint16_t)x;
    } else {
#pragma unroll
        for (int i = 0; i < SIZE; i++) p[i] = (uint8_t)(x >> 8 * i);
    }
}

// code encodes a number for put.
template <class To, bool WHOLE> DEVICE uint32_t code(uint32_t x) { return WHOLE ? To::encode(x) : To::bytes_of(x); }

// Words are BYTES bytes that one instruction moves: 4, 8 or 16.
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
        if (aligned(src, From::size) && aligned(dst, To::size)) singles<true, 4>(dst, src, wide * vector, n);
        else singles<false, 1>(dst, src, 0, n);
    }

    // The numbers from begin to end, of which a thread loads this many at once.
    template <bool WHOLE, int AT_ONCE>
    static DEVICE void singles(uint8_t *dst, const uint8_t *src, uint32_t begin, uint32_t end)
    {
#pragma unroll 1
        for (uint32_t i = begin + threadIdx.x; i < end; i += AT_ONCE * THREADS) {
            uint32_t x[AT_ONCE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++)
                if (i + k * THREADS < end) x[k] = get<From::size, WHOLE>(src + (i + k * THREADS) * From::size);
#pragma unroll
            for (int k = 0; k < AT_ONCE; k++)
                if (i + k * THREADS < end)
                    put<To::size, WHOLE>(dst + (i + k * THREADS) * To::size, code<To, WHOLE>(From::decode(x[k])));
        }
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

// Blocks of GGUF: numbers that share a scale, a half. values computes the 8 numbers that follow
// 8 * part others of a block. Each product is exact, because its factors have few bits.

// eight returns 8 bytes from any address, or if WHOLE from a multiple of UNIT.
template <bool WHOLE, int UNIT> DEVICE uint64_t eight(const uint8_t *p)
{
    const int unit = WHOLE ? UNIT : 1;
    if (unit == 8) return *(const uint64_t *)p;
    uint64_t x = 0;
#pragma unroll
    for (int i = 0; i < 8; i += unit) x |= (uint64_t)get<unit == 8 ? 1 : unit, true>(p + i) << 8 * i;
    return x;
}

template <bool WHOLE> DEVICE float scale(const uint8_t *p) { return __uint_as_float(F16::decode(get<2, WHOLE>(p))); }

// minus returns byte i of bytes minus a number, as a float. A float of 2^23 has the ones as its last bits.
DEVICE float minus(uint64_t bytes, int i, int number)
{
    return __uint_as_float(0x4b000000 | (uint32_t)(bytes >> 8 * i & 0xff)) - (8388608.0f + number);
}

struct Q4_0 {
    enum { block = 32, bytes = 18, unit = 2 };
    template <bool WHOLE> static DEVICE void values(float *v, const uint8_t *p, uint32_t part)
    {
        float d = scale<WHOLE>(p);
        uint64_t q = eight<WHOLE, 2>(p + 2 + part % 2 * 8) >> part / 2 * 4 & 0x0f0f0f0f0f0f0f0f;
#pragma unroll
        for (int i = 0; i < 8; i++) v[i] = minus(q, i, 8) * d;
    }
};

struct Q8_0 {
    enum { block = 32, bytes = 34, unit = 2 };
    template <bool WHOLE> static DEVICE void values(float *v, const uint8_t *p, uint32_t part)
    {
        float d = scale<WHOLE>(p);
        uint64_t q = eight<WHOLE, 2>(p + 2 + part * 8) ^ 0x8080808080808080;
#pragma unroll
        for (int i = 0; i < 8; i++) v[i] = minus(q, i, 128) * d;
    }
};

struct Q4_K {
    enum { block = 256, bytes = 144, unit = 8 };
    template <bool WHOLE> static DEVICE void values(float *v, const uint8_t *p, uint32_t part)
    {
        // 32 numbers share a factor and a minimum of 6 bits. Those of the last four groups have
        // their upper two bits beside those of the first four.
        uint32_t group = part / 4, g = group % 4;
        const uint8_t *six = p + 4;
        uint32_t factor = six[g], least = six[g + 4], high = six[g + 8];
        if (group < 4) {
            factor &= 63;
            least &= 63;
        } else {
            factor = (high & 15) | factor >> 6 << 4;
            least = high >> 4 | least >> 6 << 4;
        }
        float d = scale<WHOLE>(p) * factor, m = scale<WHOLE>(p + 2) * least;
        uint64_t q = eight<WHOLE, 8>(p + 16 + group / 2 * 32 + part % 4 * 8) >> group % 2 * 4 & 0x0f0f0f0f0f0f0f0f;
#pragma unroll
        for (int i = 0; i < 8; i++) v[i] = fmaf(minus(q, i, 0), d, -m);
    }
};

struct Q6_K {
    enum { block = 256, bytes = 210, unit = 2 };
    template <bool WHOLE> static DEVICE void values(float *v, const uint8_t *p, uint32_t part)
    {
        // Each half of a block has 4 rows of 32 numbers. 16 numbers share a factor of 8 bits.
        uint32_t half = part / 16, row = part / 4 % 4, column = part % 4 * 8;
        float d = scale<WHOLE>(p + 208) * (int8_t)p[192 + part / 2];
        uint64_t low = eight<WHOLE, 2>(p + half * 64 + row % 2 * 32 + column) >> row / 2 * 4 & 0x0f0f0f0f0f0f0f0f;
        uint64_t high = eight<WHOLE, 2>(p + 128 + half * 32 + column) >> row * 2 & 0x0303030303030303;
#pragma unroll
        for (int i = 0; i < 8; i++) v[i] = minus(low | high << 4, i, 32) * d;
    }
};

// Blocks converts the numbers of a tile by all threads of a block of threads.
template <class From, class To> struct Blocks {
    enum { block = From::block, bytes = From::bytes };

    static DEVICE void convert(uint8_t *dst, const uint8_t *src, uint32_t n)
    {
        if (aligned(src, From::unit) && aligned(dst, 16)) eights<true>(dst, src, n);
        else eights<false>(dst, src, n);
    }

    template <bool WHOLE> static DEVICE void eights(uint8_t *dst, const uint8_t *src, uint32_t n)
    {
        const uint32_t parts = block / 8;
#pragma unroll 1
        for (uint32_t i = threadIdx.x; i < n / 8; i += THREADS) {
            float v[8];
            From::template values<WHOLE>(v, src + i / parts * bytes, i % parts);
            store_eight<WHOLE>(dst + i * (8 * To::size), v);
        }
    }

    template <bool WHOLE> static DEVICE void store_eight(uint8_t *to, const float *v)
    {
        const int each = 16 / To::size;
#pragma unroll
        for (int k = 0; k < 8; k += WHOLE ? each : 1) {
            if constexpr (WHOLE) {
                Words<16> out;
#pragma unroll
                for (int i = 0; i < each; i++) set_part<To::size>(out, i, To::encode(__float_as_uint(v[k + i])));
                store(to + k * To::size, out);
            } else {
                put<To::size, false>(to + k * To::size, To::bytes_of(__float_as_uint(v[k])));
            }
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

#define KERNEL(NAME, CLASS, FROM, TO)                                                                        \
    extern "C" __global__ void NAME(uint8_t *dst, const uint8_t *src, const __grid_constant__ Pieces p)       \
    {                                                                                                        \
        pieces<CLASS<FROM, TO>, TO::size>(dst, src, p);                                                      \
    }
KERNEL(f32_f16, Floats, F32, F16)
KERNEL(f32_bf16, Floats, F32, BF16)
KERNEL(f32_e4m3, Floats, F32, E4M3)
KERNEL(f32_e5m2, Floats, F32, E5M2)
KERNEL(f16_f32, Floats, F16, F32)
KERNEL(f16_bf16, Floats, F16, BF16)
KERNEL(f16_e4m3, Floats, F16, E4M3)
KERNEL(f16_e5m2, Floats, F16, E5M2)
KERNEL(bf16_f32, Floats, BF16, F32)
KERNEL(bf16_f16, Floats, BF16, F16)
KERNEL(bf16_e4m3, Floats, BF16, E4M3)
KERNEL(bf16_e5m2, Floats, BF16, E5M2)
KERNEL(e4m3_f32, Floats, E4M3, F32)
KERNEL(e4m3_f16, Floats, E4M3, F16)
KERNEL(e4m3_bf16, Floats, E4M3, BF16)
KERNEL(e4m3_e5m2, Floats, E4M3, E5M2)
KERNEL(e5m2_f32, Floats, E5M2, F32)
KERNEL(e5m2_f16, Floats, E5M2, F16)
KERNEL(e5m2_bf16, Floats, E5M2, BF16)
KERNEL(e5m2_e4m3, Floats, E5M2, E4M3)
KERNEL(q4_0_f32, Blocks, Q4_0, F32)
KERNEL(q4_0_f16, Blocks, Q4_0, F16)
KERNEL(q4_0_bf16, Blocks, Q4_0, BF16)
KERNEL(q8_0_f32, Blocks, Q8_0, F32)
KERNEL(q8_0_f16, Blocks, Q8_0, F16)
KERNEL(q8_0_bf16, Blocks, Q8_0, BF16)
KERNEL(q4_k_f32, Blocks, Q4_K, F32)
KERNEL(q4_k_f16, Blocks, Q4_K, F16)
KERNEL(q4_k_bf16, Blocks, Q4_K, BF16)
KERNEL(q6_k_f32, Blocks, Q6_K, F32)
KERNEL(q6_k_f16, Blocks, Q6_K, F16)
KERNEL(q6_k_bf16, Blocks, Q6_K, BF16)

// Ranges is the table of a launch that hashes. Range k begins at[k] bytes after the memory. Its
// first tile has the number first[k], counted through all ranges. Its result is number sum + k.
#define RANGES 200
#define HASH_TILE 8192 // words of 8 bytes
struct Ranges {
    uint64_t at[RANGES], bytes[RANGES];
    uint32_t first[RANGES + 1], count, sum;
};

// mixed is a bijection: any bit of x changes each bit of the result about every other time.
DEVICE uint64_t mixed(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

// term is what word i of a range adds to its hash.
DEVICE uint64_t term(uint64_t word, uint64_t i) { return mixed(word + (i + 1) * 0x9e3779b97f4a7c15); }

// short_word returns 8 bytes or less, and zeros after them.
DEVICE uint64_t short_word(const uint8_t *p, uint32_t bytes)
{
    uint64_t word = 0;
    for (uint32_t i = 0; i < bytes; i++) word |= (uint64_t)p[i] << 8 * i;
    return word;
}

// whole_word returns word i of words at any address. It reads nothing outside of them.
DEVICE uint64_t whole_word(const uint8_t *p, uint64_t i, uint64_t words)
{
    const uint8_t *at = p + 8 * i;
    uint32_t skip = (uint64_t)at & 7;
    const uint64_t *whole = (const uint64_t *)(at - skip);
    if (skip == 0) return *whole;
    if (i == 0 || i + 1 == words) return short_word(at, 8);
    return whole[0] >> 8 * skip | whole[1] << (64 - 8 * skip);
}

// hash_tile returns a thread's part of the sum for the tile that begins with this word.
DEVICE uint64_t hash_tile(const uint8_t *p, uint64_t bytes, uint64_t begin)
{
    uint64_t words = bytes / 8, end = min(words, begin + HASH_TILE), sum = 0, i = begin + threadIdx.x;
    if (aligned(p, 16)) {
#pragma unroll 4
        for (uint64_t k = begin / 2 + threadIdx.x; k < end / 2; k += THREADS) {
            ulonglong2 pair = ((const ulonglong2 *)p)[k];
            sum += term(pair.x, 2 * k) + term(pair.y, 2 * k + 1);
        }
        i = end / 2 * 2 + threadIdx.x; // at most one word is left
    }
    for (; i < end; i += THREADS) sum += term(whole_word(p, i, words), i);
    if (threadIdx.x > 0) return sum;
    if (bytes % 8 != 0 && words >= begin && words < begin + HASH_TILE)
        sum += term(short_word(p + 8 * words, bytes % 8), words);
    if (begin == 0) sum += mixed(bytes * 0xd6e8feb86659fd93);
    return sum;
}

// add adds the parts of all threads of a warp.
DEVICE void add(uint64_t *to, uint64_t sum)
{
    for (int other = 16; other > 0; other /= 2)
        sum += __shfl_xor_sync(0xffffffff, (unsigned long long)sum, other);
    if (threadIdx.x % 32 == 0) atomicAdd((unsigned long long *)to, (unsigned long long)sum);
}

// sums[r.sum + k] += the hash of range k. A block adds when it goes on to another range.
extern "C" __global__ void hash(uint64_t *sums, const uint8_t *src, const __grid_constant__ Ranges r)
{
    uint64_t sum = 0;
    uint32_t of = 0;
    sums += r.sum;
    for (uint32_t tile = blockIdx.x; tile < r.first[r.count]; tile += gridDim.x) {
        uint32_t k = find(r.first, r.count, tile);
        if (k != of) {
            add(sums + of, sum);
            sum = 0;
            of = k;
        }
        sum += hash_tile(src + r.at[k], r.bytes[k], (uint64_t)(tile - r.first[k]) * HASH_TILE);
    }
    add(sums + of, sum);
}
