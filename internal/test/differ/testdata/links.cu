// Pointers: lists, trees, recursion, function pointers, virtual calls, structs by value.
#include "differ.h"

struct node { node *next; u32 value; u32 pad; };

// Builds lists inside the buffer, then follows the pointers.
KERNEL list_walk(node *pool, const u32 *order, u32 *out, u32 n) {
    u32 base = blockIdx.x * n;
    for (u32 i = threadIdx.x; i < n; i += blockDim.x) {
        pool[base + order[i]].value = i * 2654435761u;
        pool[base + order[i]].next = i + 1 < n ? &pool[base + order[i + 1]] : 0;
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    u32 sum = 0, steps = 0;
    for (node *p = &pool[base + order[0]]; p; p = p->next) sum = sum * 31 + p->value, steps++;
    out[blockIdx.x * 2] = sum;
    out[blockIdx.x * 2 + 1] = steps;
    __syncthreads();
    for (u32 i = 0; i < n; i++) pool[base + i].next = 0; // addresses differ from machine to machine
}

// A lock-free stack. The set of popped elements does not depend on the order.
KERNEL list_push(u32 *next, u32 *head, const u32 *values, u64 *out) {
    u32 i = thread() + 1, old = *(volatile u32 *)head;
    for (;;) {
        next[i] = old;
        __threadfence();
        u32 seen = atomicCAS(head, old, i);
        if (seen == old) break;
        old = seen;
    }
    __syncthreads();
    if (threadIdx.x != 0) return;
    u64 sum = 0;
    u32 count = 0;
    for (u32 k = *(volatile u32 *)head; k; k = next[k]) sum += values[k - 1], count++;
    out[0] = sum;
    out[1] = count;
    for (u32 k = 0; k <= blockDim.x; k++) next[k] = 0;
    *head = 0;
}

struct tree { i32 key; i32 left, right; };

static __device__ __noinline__ i32 depth(const tree *t, i32 i) {
    if (i < 0) return 0;
    i32 a = depth(t, t[i].left), b = depth(t, t[i].right);
    return 1 + (a > b ? a : b);
}

static __device__ __noinline__ i64 in_order(const tree *t, i32 i, i64 h) {
    if (i < 0) return h;
    h = in_order(t, t[i].left, h);
    h = h * 1000003 + t[i].key;
    return in_order(t, t[i].right, h);
}

// Each thread builds its own search tree, and walks it by recursion.
KERNEL tree_walk(const i32 *keys, tree *pool, i64 *out, u32 n) {
    tree *t = pool + thread() * n;
    const i32 *k = keys + thread() * n;
    for (u32 i = 0; i < n; i++) {
        t[i].key = k[i];
        t[i].left = t[i].right = -1;
        for (i32 at = 0; i > 0;) {
            i32 *to = k[i] < t[at].key ? &t[at].left : &t[at].right;
            if (*to < 0) { *to = i; break; }
            at = *to;
        }
    }
    out[thread() * 2] = depth(t, 0);
    out[thread() * 2 + 1] = in_order(t, 0, 0);
}

static __device__ __noinline__ u32 f_add(u32 a, u32 b) { return a + b; }
static __device__ __noinline__ u32 f_mul(u32 a, u32 b) { return a * b; }
static __device__ __noinline__ u32 f_rot(u32 a, u32 b) { return rotl(a, (b & 15) + 1); }
static __device__ __noinline__ u32 f_mix(u32 a, u32 b) { return (a ^ b) * 0x9e3779b1u; }
typedef u32 (*binary)(u32, u32);
__device__ binary functions[4] = {f_add, f_mul, f_rot, f_mix};

KERNEL function_pointers(const u8 *program, const u32 *in, u32 *out, u32 n) {
    u32 a = in[thread()];
    for (u32 i = 0; i < n; i++) a = functions[program[i * 64 + thread() % 64] & 3](a, i + 1);
    out[thread()] = a;
}

#ifdef __clang__
extern "C" __device__ void __cxa_pure_virtual() { __builtin_trap(); }
#endif

struct shape {
    float a, b;
    __device__ shape(float x, float y) : a(x), b(y) {}
    virtual __device__ float area() const = 0;
    virtual __device__ float grown(float f) const { return area() * f; }
};
struct square : shape {
    __device__ square(float x) : shape(x, x) {}
    __device__ float area() const override { return a * a; }
};
struct box : shape {
    __device__ box(float x, float y) : shape(x, y) {}
    __device__ float area() const override { return a * b; }
    __device__ float grown(float f) const override { return (a * f) * (b * f); }
};
struct triangle : shape {
    __device__ triangle(float x, float y) : shape(x, y) {}
    __device__ float area() const override { return 0.5f * a * b; }
};

KERNEL virtual_calls(const float *in, float *out) {
    u32 i = thread();
    square s(in[i]);
    box b(in[i], in[i + 1]);
    triangle t(in[i], in[i + 1]);
    const shape *all[3] = {&s, &b, &t};
    float sum = 0;
    for (int k = 0; k < 3; k++) {
        const shape *p = all[(k + i) % 3];
        sum = sum * 0.5f + p->area() - p->grown(in[i + 2]);
    }
    out[i] = sum;
}

struct config { float scale; u8 flags[5]; i64 offset; short table[6]; };

static __device__ __noinline__ config doubled(config c) {
    c.scale *= 2;
    c.offset -= c.flags[4];
    for (int i = 0; i < 6; i++) c.table[i] += i;
    return c;
}

KERNEL struct_by_value(config c, const i32 *in, double *out) {
    u32 i = thread();
    config d = doubled(c);
    out[i] = (double)d.scale * in[i] + d.offset + d.table[i % 6] * d.flags[i % 5];
}

static __device__ __noinline__ u32 ackermann(u32 m, u32 n) {
    if (m == 0) return n + 1;
    if (n == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, n - 1));
}

KERNEL recursion(u32 *out) { out[thread()] = ackermann(thread() % 3, thread() % 5); }

// Union-find by atomics. In the end every root is the smallest element of its set.
KERNEL union_find(u32 *parent, const uint2 *edges, u32 n, u32 m) {
    for (u32 i = threadIdx.x; i < n; i += blockDim.x) parent[i] = i;
    __syncthreads();
    for (u32 e = threadIdx.x; e < m; e += blockDim.x) {
        u32 a = edges[e].x, b = edges[e].y;
        for (;;) {
            volatile u32 *p = parent;
            while (p[a] != a) a = p[a];
            while (p[b] != b) b = p[b];
            if (a == b) break;
            if (a > b) { u32 x = a; a = b; b = x; }
            if (atomicCAS(parent + b, b, a) == b) break;
        }
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < n; i += blockDim.x) {
        u32 r = i;
        while (parent[r] != r) r = parent[r];
        __syncwarp(__activemask());
        parent[i] = r;
    }
}
