// Multiplications and additions without a rounding modifier. PTX allows a compiler to join
// them, and ptxas does. Compilers of CUDA C++ always write a modifier, others do not: Triton,
// and code in inline assembly.
#include "differ.h"

#define BINARY(name, op, type, c) \
    DEVICE type name(type a, type b) { type r; asm(op " %0, %1, %2;" : "=" c(r) : c(a), c(b)); return r; }
BINARY(mul, "mul.f32", float, "f")
BINARY(add, "add.f32", float, "f")
BINARY(sub, "sub.f32", float, "f")
BINARY(quotient, "div.full.f32", float, "f")
BINARY(mul, "mul.f64", double, "d")
BINARY(add, "add.f64", double, "d")
BINARY(sub, "sub.f64", double, "d")
BINARY(mul16, "mul.f16", u16, "h")
BINARY(add16, "add.f16", u16, "h")
BINARY(sub16, "sub.f16", u16, "h")
BINARY(mul16x2, "mul.f16x2", u32, "r")
BINARY(add16x2, "add.f16x2", u32, "r")
DEVICE float root(float a) { float r; asm("sqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }
DEVICE float least(float a, float b) { return a < b ? a : b; }

DEVICE float sum(float v) {
    for (int k = 16; k > 0; k /= 2) v = add(v, __shfl_xor_sync(FULL, v, k));
    return v;
}

// Layer normalisation: a warp has a row of 128 numbers.
KERNEL fused_norm(const float *in, const float *weight, const float *bias, float *out, float *means) {
    const float *row = in + (threadIdx.x / 32 + blockIdx.x * (blockDim.x / 32)) * 128;
    float v[4], d[4];
    for (int k = 0; k < 4; k++) v[k] = row[lane() + 32 * k];
    float mean = quotient(sum(add(add(v[0], v[1]), add(v[2], v[3]))), 128.0f);
    for (int k = 0; k < 4; k++) d[k] = sub(v[k], mean);
    float squares = add(add(mul(d[0], d[0]), mul(d[1], d[1])), add(mul(d[2], d[2]), mul(d[3], d[3])));
    float rest = quotient(1.0f, root(add(quotient(sum(squares), 128.0f), 1e-5f)));
    for (int k = 0; k < 4; k++) {
        u32 at = lane() + 32 * k;
        out[row - in + at] = add(mul(mul(d[k], rest), weight[at]), bias[at]);
    }
    if (lane() == 0) means[(row - in) / 128] = mean;
}

// Division of complex numbers by the definition.
KERNEL fused_complex(const float2 *a, const float2 *b, float2 *out) {
    u32 i = thread();
    float x = a[i].x, y = a[i].y, z = b[i].x, w = b[i].y;
    float d = add(mul(z, z), mul(w, w));
    float re = add(mul(x, z), mul(y, w)), im = sub(mul(y, z), mul(x, w));
    out[i] = make_float2(quotient(re, d), quotient(im, d));
}

// Division of complex numbers as Smith has it, and as f64.
KERNEL fused_smith(const float2 *a, const float2 *b, float2 *out, double2 *wide) {
    u32 i = thread();
    float x = a[i].x, y = a[i].y, z = b[i].x, w = b[i].y;
    float az = z < 0 ? -z : z, aw = w < 0 ? -w : w;
    if (aw <= az) {
        float r = quotient(w, z), d = add(z, mul(w, r));
        out[i] = make_float2(quotient(add(x, mul(y, r)), d), quotient(sub(y, mul(x, r)), d));
    } else {
        float r = quotient(z, w), d = add(mul(z, r), w);
        out[i] = make_float2(quotient(add(mul(x, r), y), d), quotient(sub(mul(y, r), x), d));
    }
    double p = x, q = y, u = z, v = w, n = add(mul(u, u), mul(v, v));
    wide[i] = make_double2(add(mul(p, u), mul(q, v)) / n, sub(mul(q, u), mul(p, v)) / n);
}

// Iterates z*z + c. The squares are used by a sum and by a difference.
KERNEL fused_fractal(const float2 *in, float2 *out, u32 *steps) {
    u32 i = thread(), n = 0;
    float cr = in[i].x, ci = in[i].y, zr = 0, zi = 0;
    for (; n < 50; n++) {
        float rr = mul(zr, zr), ii = mul(zi, zi);
        if (add(rr, ii) > 4.0f) break;
        zi = add(mul(mul(2.0f, zr), zi), ci);
        zr = add(sub(rr, ii), cr);
    }
    out[i] = make_float2(zr, zi);
    steps[i] = n;
}

// Sums of products in loops, a product that is used twice, and one that is also stored.
KERNEL fused_sums(const float *a, const float *b, float *out, u32 n) {
    u32 i = thread(), all = gridDim.x * blockDim.x;
    float dot = 0, energy = 0, last = 0, both = 0;
    for (u32 k = 0; k < n; k++) {
        float x = a[i * n + k], y = b[i * n + k], p = mul(x, y), q = mul(x, x);
        dot = add(dot, p);
        energy = add(q, energy);
        both = add(both, sub(q, p));
        last = mul(last, y);
        last = add(last, x);
    }
    float product = mul(dot, energy);
    out[i] = dot, out[i + all] = energy, out[i + 2 * all] = last, out[i + 3 * all] = both;
    out[i + 4 * all] = product, out[i + 5 * all] = add(product, last);
    out[i + 6 * all] = least(mul(dot, last), 3.0f);
}

// A polynomial by Horner's rule, an interpolation, and a rotation, of f16.
KERNEL fused_half(const u16 *a, const u16 *b, u16 *out) {
    u32 i = thread(), all = gridDim.x * blockDim.x;
    u16 x = a[i], y = b[i], h = 0x3c01;
    for (int k = 0; k < 4; k++) h = add16(mul16(h, x), y);
    out[i] = h;
    out[i + all] = add16(mul16(sub16(x, y), 0x3555), y);
    out[i + 2 * all] = sub16(mul16(x, 0x3bae), mul16(y, 0x35aa));
    u16 p = mul16(x, y);
    out[i + 3 * all] = add16(p, h);
    out[i + 4 * all] = p;
    u32 pair = x | (u32)y << 16, sums = add16x2(mul16x2(pair, 0x3c013bae), 0x2e663555);
    out[i + 5 * all] = (u16)sums, out[i + 6 * all] = sums >> 16;
}
