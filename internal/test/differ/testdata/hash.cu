// Hashes, one message per thread.
#include "differ.h"

KERNEL hash_fnv(const u8 *in, u32 *out, u32 length) {
    const u8 *p = in + thread() * length;
    u32 h = 2166136261u;
    for (u32 i = 0; i < length; i++) h = (h ^ p[i]) * 16777619u;
    out[thread()] = h;
}

KERNEL hash_fnv64(const u8 *in, u64 *out, u32 length) {
    const u8 *p = in + thread() * length;
    u64 h = 14695981039346656037ull;
    for (u32 i = 0; i < length; i++) h = (h ^ p[i]) * 1099511628211ull;
    out[thread()] = h;
}

// Loads a word a byte at a time.
DEVICE u32 word(const u8 *p) { return p[0] | p[1] << 8 | p[2] << 16 | (u32)p[3] << 24; }

KERNEL hash_murmur3(const u8 *in, u32 *out, u32 length, u32 seed) {
    const u8 *p = in + thread() * length;
    u32 h = seed, k = 0, i = 0;
    for (; i + 4 <= length; i += 4) {
        k = word(p + i) * 0xcc9e2d51u;
        h = rotl(h ^ rotl(k, 15) * 0x1b873593u, 13) * 5 + 0xe6546b64u;
    }
    k = 0;
    switch (length & 3) {
    case 3: k ^= p[i + 2] << 16;
    case 2: k ^= p[i + 1] << 8;
    case 1: k ^= p[i]; h ^= rotl(k * 0xcc9e2d51u, 15) * 0x1b873593u;
    }
    h ^= length;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    out[thread()] = h ^ h >> 16;
}

__constant__ u32 sha_k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

DEVICE void sha_block(u32 *h, const u32 *block) {
    u32 w[16], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], f = h[5], g = h[6], z = h[7];
    for (int i = 0; i < 16; i++) w[i] = block[i];
    for (int i = 0; i < 64; i++) {
        if (i >= 16) {
            u32 x = w[(i + 1) & 15], y = w[(i + 14) & 15];
            w[i & 15] += (rotr(x, 7) ^ rotr(x, 18) ^ x >> 3) + w[(i + 9) & 15] + (rotr(y, 17) ^ rotr(y, 19) ^ y >> 10);
        }
        u32 t = z + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + ((e & f) ^ (~e & g)) + sha_k[i] + w[i & 15];
        u32 s = (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        z = g; g = f; f = e; e = d + t; d = c; c = b; b = a; a = t + s;
    }
    h[0] += a; h[1] += b; h[2] += c; h[3] += d; h[4] += e; h[5] += f; h[6] += g; h[7] += z;
}

// Messages of up to 55 bytes: one block each.
KERNEL hash_sha256(const u8 *in, u32 *out, u32 length) {
    u32 h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}, block[16] = {};
    const u8 *p = in + thread() * length;
    for (u32 i = 0; i < length; i++) block[i / 4] |= (u32)p[i] << (24 - i % 4 * 8);
    block[length / 4] |= 0x80u << (24 - length % 4 * 8);
    block[15] = length * 8;
    sha_block(h, block);
    for (int i = 0; i < 8; i++) out[thread() * 8 + i] = h[i];
}

KERNEL hash_xx32(const u8 *in, u32 *out, u32 length, u32 seed) {
    const u32 p1 = 2654435761u, p2 = 2246822519u, p3 = 3266489917u, p4 = 668265263u, p5 = 374761393u;
    const u8 *p = in + thread() * length;
    u32 i = 0, h = seed + p5;
    if (length >= 16) {
        u32 v[4] = {seed + p1 + p2, seed + p2, seed, seed - p1};
        for (; i + 16 <= length; i += 16)
            for (int k = 0; k < 4; k++) v[k] = rotl(v[k] + word(p + i + 4 * k) * p2, 13) * p1;
        h = rotl(v[0], 1) + rotl(v[1], 7) + rotl(v[2], 12) + rotl(v[3], 18);
    }
    h += length;
    for (; i + 4 <= length; i += 4) h = rotl(h + word(p + i) * p3, 17) * p4;
    for (; i < length; i++) h = rotl(h + p[i] * p5, 11) * p1;
    h = (h ^ h >> 15) * p2;
    h = (h ^ h >> 13) * p3;
    out[thread()] = h ^ h >> 16;
}

KERNEL hash_sip(const u64 *in, u64 *out, u32 words, u64 k0, u64 k1) {
    u64 v0 = k0 ^ 0x736f6d6570736575ull, v1 = k1 ^ 0x646f72616e646f6dull, v2 = k0 ^ 0x6c7967656e657261ull, v3 = k1 ^ 0x7465646279746573ull;
    const u64 *p = in + thread() * words;
    for (u32 i = 0; i <= words + 1; i++) {
        u64 m = i < words ? p[i] : i == words ? (u64)(words * 8) << 56 : 0;
        if (i <= words) v3 ^= m; else v2 ^= 0xff;
        for (int r = 0; r < (i <= words ? 2 : 4); r++) {
            v0 += v1; v1 = rotl64(v1, 13); v1 ^= v0; v0 = rotl64(v0, 32);
            v2 += v3; v3 = rotl64(v3, 16); v3 ^= v2;
            v0 += v3; v3 = rotl64(v3, 21); v3 ^= v0;
            v2 += v1; v1 = rotl64(v1, 17); v1 ^= v2; v2 = rotl64(v2, 32);
        }
        if (i <= words) v0 ^= m;
    }
    out[thread()] = v0 ^ v1 ^ v2 ^ v3;
}

// The block computes the table in shared memory.
KERNEL hash_crc32(const u8 *in, u32 *out, u32 length) {
    __shared__ u32 table[256];
    u32 c = threadIdx.x;
    for (int k = 0; k < 8; k++) c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
    table[threadIdx.x] = c;
    __syncthreads();
    const u8 *p = in + thread() * length;
    c = ~0u;
    for (u32 i = 0; i < length; i++) c = table[(c ^ p[i]) & 255] ^ c >> 8;
    out[thread()] = ~c;
}
