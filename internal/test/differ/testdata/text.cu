// Kernels on text.
#include "differ.h"

// Counts the occurrences of the needle, and finds the first one.
KERNEL text_search(const u8 *text, u32 n, const u8 *needle, u32 m, u32 *count, u32 *first) {
    u32 i = thread();
    if (i + m > n) return;
    for (u32 k = 0; k < m; k++)
        if (text[i + k] != needle[k]) return;
    atomicAdd(count, 1u);
    atomicMin(first, i);
}

DEVICE bool letter(u8 c) { return (c | 32) >= 'a' && (c | 32) <= 'z'; }

// Counts the words of each line of 64 bytes and finds the longest, by ballots.
KERNEL text_words(const u8 *text, u32 *count, u32 *longest) {
    u32 line = thread() / 32, words = 0, best = 0, run = 0;
    bool before = false;
    for (u32 k = 0; k < 64; k += 32) {
        u32 in = __ballot_sync(FULL, letter(text[line * 64 + k + lane()]));
        words += __popc(in & ~(in << 1 | (before ? 1 : 0)));
        before = in >> 31;
        for (u32 b = 0; b < 32; b++) {
            run = in >> b & 1 ? run + 1 : 0;
            best = max(best, run);
        }
    }
    if (lane() == 0) { count[line] = words; longest[line] = best; }
}

__constant__ char digits64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

KERNEL text_base64(const u8 *in, u8 *out, u32 n) {
    u32 i = thread();
    if (i * 3 >= n) return;
    u32 left = n - i * 3, v = in[i * 3] << 16 | (left > 1 ? in[i * 3 + 1] << 8 : 0) | (left > 2 ? in[i * 3 + 2] : 0);
    out[i * 4] = digits64[v >> 18];
    out[i * 4 + 1] = digits64[v >> 12 & 63];
    out[i * 4 + 2] = left > 1 ? digits64[v >> 6 & 63] : '=';
    out[i * 4 + 3] = left > 2 ? digits64[v & 63] : '=';
}

KERNEL text_hex(const u8 *in, u16 *out) {
    u8 c = in[thread()];
    u32 hi = c >> 4, lo = c & 15;
    out[thread()] = (hi + (hi < 10 ? '0' : 'a' - 10)) | (lo + (lo < 10 ? '0' : 'a' - 10)) << 8;
}

// Checks that each record of n bytes is well-formed UTF-8, and counts its code points.
KERNEL text_utf8(const u8 *in, i32 *out, u32 n) {
    const u8 *p = in + thread() * n;
    i32 points = 0;
    for (u32 i = 0; i < n; points++) {
        u8 c = p[i];
        u32 more = c < 0x80 ? 0 : c >= 0xc2 && c <= 0xdf ? 1 : (c & 0xf0) == 0xe0 ? 2 : c >= 0xf0 && c <= 0xf4 ? 3 : 9;
        if (more == 9 || i + more >= n) { points = -1 - i; break; }
        u8 lo = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80, hi = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
        for (u32 k = 1; k <= more; k++, lo = 0x80, hi = 0xbf)
            if (p[i + k] < lo || p[i + k] > hi) { points = -1000 - i; goto done; }
        i += more + 1;
    }
done:
    out[thread()] = points;
}

// Parses decimal numbers: a sign and digits up to the first other byte.
KERNEL text_atoi(const u8 *in, i64 *out) {
    const u8 *p = in + thread() * 16, *end = p + 16;
    bool minus = *p == '-';
    u64 v = 0;
    for (p += minus; p < end && *p >= '0' && *p <= '9'; p++) v = v * 10 + (*p - '0');
    out[thread()] = minus ? -v : v;
}

// Formats decimal numbers by the remainders of divisions by ten.
KERNEL text_itoa(const i64 *in, u8 *out) {
    char s[24];
    i64 x = in[thread()];
    u64 v = x < 0 ? -(u64)x : x;
    int n = 0;
    do s[n++] = '0' + v % 10; while (v /= 10);
    if (x < 0) s[n++] = '-';
    for (int i = 0; i < 24; i++) out[thread() * 24 + i] = i < n ? s[n - 1 - i] : ' ';
}

// The Levenshtein distance of two words of 12 letters.
KERNEL text_distance(const u8 *a, const u8 *b, u32 *out) {
    u8 row[13];
    const u8 *x = a + thread() * 12, *y = b + thread() * 12;
    for (int i = 0; i <= 12; i++) row[i] = i;
    for (int i = 1; i <= 12; i++) {
        u8 corner = row[0];
        row[0] = i;
        for (int j = 1; j <= 12; j++) {
            u8 up = row[j];
            row[j] = min(min(up, row[j - 1]) + 1, corner + ((x[i - 1] & 3) != (y[j - 1] & 3)));
            corner = up;
        }
    }
    out[thread()] = row[12];
}
