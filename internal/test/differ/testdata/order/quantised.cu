// Products of a quantised matrix and a quantised vector. A block is 32 weights of 4 or 8
// bits with a scale. Sums within a block are of integers, by dp4a, and exact.
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
#define KERNEL extern "C" __global__ void
#define DEVICE static __device__ __forceinline__
#define FULL 0xffffffffu

DEVICE u32 thread() { return blockIdx.x * blockDim.x + threadIdx.x; }
DEVICE u32 lane() { return threadIdx.x & 31; }

struct block4 {
    float scale;
    float low;    // the value of weight 0
    u8 q[16];     // weight i is in the low half of byte i, weight i+16 in the high half
};

struct block8 {
    float scale;
    float sum;    // of the 32 values, times the scale
    char q[32];
};

DEVICE int dot4(u32 a, u32 b, int c) {
    asm("dp4a.u32.s32 %0, %1, %2, %0;" : "+r"(c) : "r"(a), "r"(b));
    return c;
}

DEVICE float product(float a, float b) {
    asm("mul.rn.f32 %0, %0, %1;" : "+f"(a) : "f"(b));
    return a;
}

DEVICE float sum(float a, float b) {
    asm("add.rn.f32 %0, %0, %1;" : "+f"(a) : "f"(b));
    return a;
}

// One warp computes one row. Lanes take blocks in turn. A block of scale 0 has no weights:
// its lane skips it. A scale that is not finite ends the row, which becomes a NaN.
KERNEL quantised_rows(const block4 *weights, const block8 *values, float *out, u32 rows, u32 blocks) {
    for (u32 row = thread() / 32; row < rows; row += gridDim.x * blockDim.x / 32) {
        const block4 *w = weights + row * blocks;
        float acc = 0;
        bool bad = false;
        for (u32 b = lane(); b < blocks; b += 32) {
            float scale = w[b].scale;
            if (scale == 0) continue;
            if (!(scale < 1e30f && scale > -1e30f)) {
                bad = true;
                break;
            }
            int dot = 0;
            for (u32 i = 0; i < 4; i++) {
                u32 q = *(const u32 *)(w[b].q + 4 * i);
                dot = dot4(q & 0x0f0f0f0f, *(const u32 *)(values[b].q + 4 * i), dot);
                dot = dot4(q >> 4 & 0x0f0f0f0f, *(const u32 *)(values[b].q + 16 + 4 * i), dot);
            }
            acc = sum(acc, product(product(scale, values[b].scale), (float)dot));
            acc = sum(acc, product(w[b].low, values[b].sum));
        }
        for (u32 d = 16; d > 0; d /= 2) {
            acc = sum(acc, __shfl_xor_sync(FULL, acc, d));
            bad |= __shfl_xor_sync(FULL, (u32)bad, d);
        }
        if (lane() == 0) out[row] = bad ? __uint_as_float(0x7fffffff) : acc;
    }
}

// A thread computes columns of a product with several vectors, of weights that it unpacks
// itself. The loop over bits ends at the highest bit that any weight has.
KERNEL quantised_bits(const u32 *planes, const i32 *x, i32 *out, u32 n, u32 vectors) {
    u32 row = thread();
    if (row >= n) return;
    for (u32 v = 0; v < vectors; v++) {
        i32 total = 0;
        for (u32 bit = 0; bit < 4; bit++) {
            u32 plane = planes[row * 4 + bit];
            if (plane == 0) {
                if (bit > 1) break;
                continue;
            }
            i32 part = 0;
            while (plane != 0) {
                part += x[v * 32 + __ffs(plane) - 1];
                plane &= plane - 1;
            }
            total += bit == 3 ? -8 * part : part << bit;
        }
        out[v * n + row] = total;
    }
}
