// Random numbers.
#include "differ.h"

KERNEL random_philox(u32 *out, u32 k0, u32 k1) {
    u32 c0 = thread(), c1 = 0, c2 = 1, c3 = 2;
    for (int i = 0; i < 10; i++) {
        u32 h0 = __umulhi(0xd2511f53u, c0), l0 = 0xd2511f53u * c0, h1 = __umulhi(0xcd9e8d57u, c2), l1 = 0xcd9e8d57u * c2;
        c0 = h1 ^ c1 ^ k0; c1 = l1; c2 = h0 ^ c3 ^ k1; c3 = l0;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    ((uint4 *)out)[thread()] = make_uint4(c0, c1, c2, c3);
}

KERNEL random_xorshift(const u32 *seed, u32 *out, u32 n) {
    u32 x = seed[thread()] | 1, y = 362436069, z = 521288629, w = 88675123;
    for (u32 i = 0; i < n; i++) {
        u32 t = x ^ x << 11;
        x = y; y = z; z = w;
        w ^= w >> 19 ^ t ^ t >> 8;
        out[i * gridDim.x * blockDim.x + thread()] = w;
    }
}

KERNEL random_lcg(const u64 *seed, double *out, u32 n) {
    u64 s = seed[thread()];
    double sum = 0;
    for (u32 i = 0; i < n; i++) {
        s = s * 6364136223846793005ull + 1442695040888963407ull;
        sum += (double)(s >> 11) * (1.0 / 9007199254740992.0);
    }
    out[thread()] = sum;
}

// MT19937 by one block. The state is advanced in three parts. No part depends
// on itself.
KERNEL random_twister(u32 *out, u32 seed) {
    __shared__ u32 s[624];
    u32 t = threadIdx.x;
    if (t == 0) {
        s[0] = seed;
        for (u32 i = 1; i < 624; i++) s[i] = 1812433253u * (s[i - 1] ^ s[i - 1] >> 30) + i;
    }
    __syncthreads();
    const u32 from[4] = {0, 227, 454, 623}, to[4] = {227, 454, 623, 624};
    for (int part = 0; part < 4; part++) {
        u32 i = from[part] + t, x = 0;
        bool mine = i < to[part];
        if (mine) {
            u32 y = (s[i] & 0x80000000u) | (s[(i + 1) % 624] & 0x7fffffffu);
            x = s[(i + 397) % 624] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
        }
        __syncthreads();
        if (mine) s[i] = x;
        __syncthreads();
    }
    for (u32 i = t; i < 624; i += blockDim.x) {
        u32 y = s[i];
        y ^= y >> 11;
        y ^= y << 7 & 0x9d2c5680u;
        y ^= y << 15 & 0xefc60000u;
        out[i] = y ^ y >> 18;
    }
}

KERNEL random_splitmix(const u64 *seed, u64 *out, u32 n) {
    u64 s = seed[thread()];
    for (u32 i = 0; i < n; i++) {
        u64 z = s += 0x9e3779b97f4a7c15ull;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ z >> 27) * 0x94d049bb133111ebull;
        out[thread() * n + i] = z ^ z >> 31;
    }
}

// Pi by the Monte Carlo method, counted by ballots.
KERNEL random_darts(u32 *hits, u32 n, u32 seed) {
    u32 s = (seed ^ thread() * 2654435761u) | 1, sum = 0;
    for (u32 i = 0; i < n; i++) {
        s ^= s << 13; s ^= s >> 17; s ^= s << 5;
        float x = (s >> 8) * 0x1p-24f;
        s ^= s << 13; s ^= s >> 17; s ^= s << 5;
        float y = (s >> 8) * 0x1p-24f;
        sum += __popc(__ballot_sync(FULL, fmaf(x, x, y * y) < 1));
    }
    if (lane() == 0) atomicAdd(hits, sum);
}
