// Sorts within blocks and the merge of two sorted runs.
#include "differ.h"

KERNEL sort_bitonic(i32 *data) {
    __shared__ i32 s[256];
    u32 t = threadIdx.x, base = blockIdx.x * 256;
    s[t] = data[base + t];
    for (u32 k = 2; k <= 256; k <<= 1)
        for (u32 j = k >> 1; j > 0; j >>= 1) {
            __syncthreads();
            u32 o = t ^ j;
            if (o > t) {
                i32 a = s[t], b = s[o];
                if ((a > b) == ((t & k) == 0)) { s[t] = b; s[o] = a; }
            }
        }
    __syncthreads();
    data[base + t] = s[t];
}

KERNEL sort_odd_even(u32 *data) {
    __shared__ u32 s[128];
    u32 t = threadIdx.x;
    s[2 * t] = data[blockIdx.x * 128 + 2 * t];
    s[2 * t + 1] = data[blockIdx.x * 128 + 2 * t + 1];
    for (u32 k = 0; k < 128; k++) {
        __syncthreads();
        u32 i = 2 * t + (k & 1);
        if (i + 1 < 128 && s[i] > s[i + 1]) { u32 x = s[i]; s[i] = s[i + 1]; s[i + 1] = x; }
    }
    __syncthreads();
    data[blockIdx.x * 128 + 2 * t] = s[2 * t];
    data[blockIdx.x * 128 + 2 * t + 1] = s[2 * t + 1];
}

// Least significant digit first, one bit at a time, stable by ballots.
KERNEL sort_radix(u32 *keys, u32 *values) {
    __shared__ u32 k[128], v[128], zeros[4];
    u32 t = threadIdx.x, w = t / 32, at = blockIdx.x * 128 + t, key = keys[at], value = values[at];
    for (int bit = 0; bit < 32; bit++) {
        u32 one = key >> bit & 1, ballot = __ballot_sync(FULL, !one);
        if (lane() == 0) zeros[w] = __popc(ballot);
        __syncthreads();
        u32 before = 0, all = 0;
        for (u32 x = 0; x < 4; x++) { if (x < w) before += zeros[x]; all += zeros[x]; }
        u32 rank = before + __popc(ballot & below());
        u32 to = one ? all + t - rank : rank;
        k[to] = key;
        v[to] = value;
        __syncthreads();
        key = k[t];
        value = v[t];
    }
    keys[at] = key;
    values[at] = value;
}

// Each thread finds the place of its element by binary search.
KERNEL sort_merge(const i32 *a, const i32 *b, i32 *out, u32 na, u32 nb) {
    u32 i = thread();
    if (i >= na + nb) return;
    bool first = i < na;
    i32 x = first ? a[i] : b[i - na];
    const i32 *o = first ? b : a;
    u32 lo = 0, hi = first ? nb : na;
    while (lo < hi) {
        u32 mid = (lo + hi) / 2;
        if (first ? o[mid] < x : o[mid] <= x) lo = mid + 1; else hi = mid;
    }
    out[(first ? i : i - na) + lo] = x;
}

// Insertion sort of eight elements in local memory.
KERNEL sort_local(const float *in, float *out, u8 *order) {
    float v[8];
    u8 p[8];
    u32 base = thread() * 8;
    for (int i = 0; i < 8; i++) { v[i] = in[base + i]; p[i] = i; }
    for (int i = 1; i < 8; i++) {
        float x = v[i];
        u8 q = p[i];
        int j = i - 1;
        for (; j >= 0 && v[j] > x; j--) { v[j + 1] = v[j]; p[j + 1] = p[j]; }
        v[j + 1] = x;
        p[j + 1] = q;
    }
    for (int i = 0; i < 8; i++) { out[base + i] = v[i]; order[base + i] = p[i]; }
}
