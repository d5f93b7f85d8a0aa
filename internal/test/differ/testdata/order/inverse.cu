// Inverses of integers of 256 bits modulo odd numbers of 256 bits, one for each thread.
typedef unsigned int u32;
typedef unsigned long long u64;
#define KERNEL extern "C" __global__ void
#define DEVICE static __device__ __forceinline__

DEVICE u32 thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

const int words = 8;

struct number { u32 w[words]; };

DEVICE bool even(const number &a) { return (a.w[0] & 1) == 0; }

DEVICE bool isOne(const number &a) {
    u32 rest = a.w[0] ^ 1;
    for (int i = 1; i < words; i++) rest |= a.w[i];
    return rest == 0;
}

DEVICE bool isZero(const number &a) {
    u32 any = 0;
    for (int i = 0; i < words; i++) any |= a.w[i];
    return any == 0;
}

DEVICE bool less(const number &a, const number &b) {
    for (int i = words - 1; i > 0; i--)
        if (a.w[i] != b.w[i]) return a.w[i] < b.w[i];
    return a.w[0] < b.w[0];
}

DEVICE u32 add(number &a, const number &b) {
    u64 carry = 0;
    for (int i = 0; i < words; i++) {
        carry += (u64)a.w[i] + b.w[i];
        a.w[i] = (u32)carry;
        carry >>= 32;
    }
    return (u32)carry;
}

DEVICE void subtract(number &a, const number &b) {
    u64 borrow = 0;
    for (int i = 0; i < words; i++) {
        u64 d = (u64)a.w[i] - b.w[i] - borrow;
        a.w[i] = (u32)d;
        borrow = d >> 63;
    }
}

DEVICE void halve(number &a, u32 top) {
    for (int i = 0; i < words - 1; i++) a.w[i] = a.w[i] >> 1 | a.w[i + 1] << 31;
    a.w[words - 1] = a.w[words - 1] >> 1 | top << 31;
}

// halveModulo divides a by 2 modulo m, which is odd.
DEVICE void halveModulo(number &a, const number &m) {
    u32 carry = even(a) ? 0 : add(a, m);
    halve(a, carry);
}

DEVICE void subtractModulo(number &a, const number &b, const number &m) {
    bool wraps = less(a, b);
    subtract(a, b);
    if (wraps) add(a, m);
}

// The binary form of Euclid's algorithm. The result is 0 where there is no inverse.
KERNEL inverse_binary(const number *values, const number *moduli, number *out, u32 n, u32 moduliCount) {
    for (u32 i = thread(); i < n; i += gridDim.x * blockDim.x) {
        number m = moduli[i % moduliCount], u = values[i], v = m;
        number x = {{1}}, y = {{0}};
        while (!isOne(u) && !isOne(v)) {
            if (isZero(u) || isZero(v)) break;
            while (even(u)) {
                halve(u, 0);
                halveModulo(x, m);
            }
            while (even(v)) {
                halve(v, 0);
                halveModulo(y, m);
            }
            if (less(u, v)) {
                subtract(v, u);
                subtractModulo(y, x, m);
            } else {
                subtract(u, v);
                subtractModulo(x, y, m);
            }
        }
        number r = {{0}};
        if (isOne(u)) r = x;
        else if (isOne(v)) r = y;
        out[i] = r;
    }
}

// Montgomery's product of numbers of 256 bits.
DEVICE void montgomery(number &r, const number &a, const number &b, const number &m, u32 inv) {
    u32 t[words + 2] = {};
    for (int i = 0; i < words; i++) {
        u64 c = 0;
        for (int j = 0; j < words; j++) {
            c += (u64)a.w[i] * b.w[j] + t[j];
            t[j] = (u32)c;
            c >>= 32;
        }
        c += t[words];
        t[words] = (u32)c;
        t[words + 1] = (u32)(c >> 32);
        u32 q = t[0] * inv;
        c = ((u64)q * m.w[0] + t[0]) >> 32;
        for (int j = 1; j < words; j++) {
            c += (u64)q * m.w[j] + t[j];
            t[j - 1] = (u32)c;
            c >>= 32;
        }
        c += t[words];
        t[words - 1] = (u32)c;
        t[words] = t[words + 1] + (u32)(c >> 32);
    }
    number x;
    for (int j = 0; j < words; j++) x.w[j] = t[j];
    if (t[words] != 0 || !less(x, m)) subtract(x, m);
    r = x;
}

// Fermat's inverse for a prime modulus: the power m-2, from its highest bit. inv is
// -1/m modulo 2^32, one is 2^256 modulo m and square is 2^512 modulo m.
KERNEL inverse_power(const number *values, number *out, u32 n, number m, number one, number square, u32 inv) {
    u32 i = thread();
    if (i >= n) return;
    number e = m, a = values[i], r = one;
    e.w[0] -= 2;
    montgomery(a, a, square, m, inv);
    for (int bit = 32 * words - 1; bit >= 0; bit--) {
        montgomery(r, r, r, m, inv);
        if (e.w[bit / 32] >> (bit & 31) & 1) montgomery(r, r, a, m, inv);
    }
    number unit = {{1}};
    montgomery(r, r, unit, m, inv);
    out[i] = r;
}
