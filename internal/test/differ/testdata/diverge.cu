// Threads of a warp that diverge.
#include "differ.h"

KERNEL diverge_collatz(const u32 *in, u32 *out) {
    u64 x = (in[thread()] & 0xfffff) + 1;
    u32 steps = 0;
    while (x != 1) { x = x & 1 ? 3 * x + 1 : x >> 1; steps++; }
    out[thread()] = steps;
}

KERNEL diverge_mandelbrot(u16 *out, u32 w, u32 h, u32 limit) {
    u32 x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float cr = x * 0.046875f - 2.25f, ci = y * 0.0625f - 1.0f, zr = 0, zi = 0;
    u32 i = 0;
    for (; i < limit && zr * zr + zi * zi < 4; i++) {
        float t = zr * zr - zi * zi + cr;
        zi = 2 * zr * zi + ci;
        zr = t;
    }
    out[y * w + x] = i;
}

// A ray through a grid of cells until it reaches a full one.
KERNEL diverge_march(const u8 *cells, const float *direction, float *out, u32 n) {
    u32 i = thread();
    float dx = direction[2 * i], dy = direction[2 * i + 1], x = n / 2 + 0.5f, y = x;
    int steps = 0;
    while (x >= 0 && y >= 0 && x < n && y < n && steps < 200) {
        if (cells[(int)y * n + (int)x] > 240) break;
        x = fmaf(dx, 0.25f, x);
        y = fmaf(dy, 0.25f, y);
        steps++;
    }
    out[3 * i] = x;
    out[3 * i + 1] = y;
    out[3 * i + 2] = sqrtf(x * x + y * y) / (steps + 1);
}

KERNEL diverge_gcd(const u64 *a, const u64 *b, u64 *out) {
    u64 x = a[thread()], y = b[thread()];
    while (y) { u64 t = x % y; x = y; y = t; }
    out[thread()] = x;
}

KERNEL diverge_switch(const u8 *program, i32 *out, u32 n) {
    i32 a = thread(), b = 1, stack[8];
    u32 sp = 0;
    for (u32 i = 0; i < n; i++) {
        switch (program[(thread() * 7 + i) % 256] % 11) {
        case 0: a += b; break;
        case 1: a -= 3 * b; break;
        case 2: b = a ^ b; break;
        case 3: stack[sp++ & 7] = a; break;
        case 4: if (sp) a ^= stack[--sp & 7]; break;
        case 5: if (a < b) continue; a = a / 3; break;
        case 6: b = b << (a & 7); break;
        case 7: if (a == b) goto out; break;
        case 8: a = a > 0 ? a % 1000 : -a; break;
        case 9: for (int k = 0; k < (b & 3); k++) a = a * 5 + k; break;
        default: b++;
        }
    }
out:
    out[thread()] = a * 31 + b;
}

// Threads exit at different times. The remaining ones count.
KERNEL diverge_exit(const u32 *in, u32 *out) {
    u32 v = in[thread()];
    out[thread()] = 1;
    if (v % 3 == 0) return;
    out[thread()] = 2;
    for (u32 i = 0; i < v % 17; i++)
        if ((v >> i & 7) == 5) return;
    __syncwarp(__activemask());
    out[thread()] = 3 + v % 17;
}

KERNEL diverge_primes(u32 *out, u32 first) {
    u32 n = first + thread(), d = 2;
    for (; d * d <= n; d++)
        if (n % d == 0) break;
    out[thread()] = d * d > n ? n : d;
}

// Nested loops with bounds from data, and barriers after them.
KERNEL diverge_barriers(const u8 *in, u32 *out) {
    __shared__ u32 s[64];
    u32 t = threadIdx.x, x = in[thread()];
    s[t] = 0;
    __syncthreads();
    for (u32 i = 0; i < 4; i++) {
        u32 sum = 0;
        for (u32 a = 0; a < (x >> i & 7); a++)
            for (u32 b = a; b < 5; b++) sum += a * b + i;
        s[(t + i + 1) % 64] += sum;
        __syncthreads();
        x += s[t];
        __syncthreads();
    }
    out[thread()] = x;
}
