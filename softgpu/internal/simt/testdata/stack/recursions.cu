// Recursions of many kinds. recursions.txt has how deep each went on an H200.
typedef unsigned u;
__device__ u tab[64];
#define V(x) (*(volatile u *)&(x))
#define N __device__ __noinline__
// no local variables
N u plain(u d) { if (d == 0) return 1; return plain(d - 1) * 3 + d; }
extern "C" __global__ void k_plain(u *o, u d) { o[threadIdx.x & 31] = plain(d); }
// nothing is used after the call but the result
N u count(u d) { if (d == 0) return V(tab[0]) + 1; return count(d - 1) ^ 0x55u; }
extern "C" __global__ void k_count(u *o, u d) { o[threadIdx.x & 31] = count(d); }
// two calls, linear depth
N u two(int d) { if (d <= 0) return V(tab[1]) + 1; u a = two(d - 1); u b = two(d - 100000); return a * 3 + b; }
extern "C" __global__ void k_two(u *o, u d) { o[threadIdx.x & 31] = two(d); }
// few and many live values
template <int L> N u live(u d) {
  if (d == 0) return 1;
  u v[L];
#pragma unroll
  for (int i = 0; i < L; i++) v[i] = V(tab[i]);
  u r = live<L>(d - 1);
#pragma unroll
  for (int i = 0; i < L; i++) r = r * 5 + v[i];
  return r;
}
extern "C" __global__ void k_live2(u *o, u d) { o[threadIdx.x & 31] = live<2>(d); }
extern "C" __global__ void k_live5(u *o, u d) { o[threadIdx.x & 31] = live<5>(d); }
extern "C" __global__ void k_live10(u *o, u d) { o[threadIdx.x & 31] = live<10>(d); }
extern "C" __global__ void k_live24(u *o, u d) { o[threadIdx.x & 31] = live<24>(d); }
// local arrays
template <int B> N u arr(u d) {
  if (d == 0) return 1;
  volatile u a[B];
  for (int i = 0; i < B; i++) a[i] = d + i;
  u r = arr<B>(d - 1);
  for (int i = 0; i < B; i++) r = r * 7 + a[(i + d) & (B - 1)];
  return r;
}
extern "C" __global__ void k_arr16(u *o, u d) { o[threadIdx.x & 31] = arr<4>(d); }
extern "C" __global__ void k_arr64(u *o, u d) { o[threadIdx.x & 31] = arr<16>(d); }
extern "C" __global__ void k_arr256(u *o, u d) { o[threadIdx.x & 31] = arr<64>(d); }
// mutual recursion
N u odd(u d);
N u even(u d) { if (d == 0) return 1; volatile u a[8]; a[d & 7] = d; u r = odd(d - 1); return r * 3 + a[d & 7]; }
N u odd(u d) { if (d == 0) return 2; u x = V(tab[3]); u r = even(d - 1); return r * 5 + x; }
extern "C" __global__ void k_mutual(u *o, u d) { o[threadIdx.x & 31] = even(d); }
// function pointers: the depth is d, but nobody knows at compile time
typedef u (*fp)(u, void *);
struct table { fp f[2]; };
N u pa(u d, void *p) { if (d == 0) return 1; return ((table *)p)->f[d & 1](d - 1, p) * 3 + d; }
N u pb(u d, void *p) { if (d == 0) return 2; return ((table *)p)->f[d & 1](d - 1, p) * 5 + d; }
__device__ table funcs;
extern "C" __global__ void k_pointer(u *o, u d) {
  if (threadIdx.x == 0) { funcs.f[0] = pa; funcs.f[1] = pb; }
  __syncthreads();
  o[threadIdx.x & 31] = funcs.f[d & 1](d, &funcs);
}
// an indirect call of depth 1 of a function with D words of locals (D is not the depth)
N u leaf1(u d) { volatile u a[1024]; for (u i = 0; i < 1024; i++) a[i] = d + i; return a[d & 1023]; }
N u leaf2(u d) { volatile u a[4]; a[d & 3] = d; return a[d & 3]; }
typedef u (*gp)(u);
__device__ gp leaves[2];
extern "C" __global__ void k_leaf4096(u *o, u d) {
  if (threadIdx.x == 0) { leaves[0] = leaf1; leaves[1] = leaf2; }
  __syncthreads();
  o[threadIdx.x & 31] = leaves[d & 0](d);
}
// known depth, large frame
N u known(u d) { volatile u a[4096]; for (u i = 0; i < 4096; i++) a[i] = d + i; return a[d & 4095]; }
extern "C" __global__ void k_known16384(u *o, u d) { o[threadIdx.x & 31] = known(d); }
// a recursion, and a large frame in the entry
extern "C" __global__ void k_entry4096(u *o, u d) {
  volatile u a[1024];
  for (u i = 0; i < 1024; i++) a[i] = d + i;
  o[threadIdx.x & 31] = plain(d) + a[d & 1023];
}
// a recursion that calls a leaf with a frame of 512 bytes
N u leaf3(u d) { volatile u a[128]; for (u i = 0; i < 128; i++) a[i] = d + i; return a[d & 127]; }
N u withleaf(u d) { if (d == 0) return leaf3(d); u r = withleaf(d - 1); return r * 3 + d; }
extern "C" __global__ void k_withleaf(u *o, u d) { o[threadIdx.x & 31] = withleaf(d); }
// typical programs
struct node { int l, r; u v; };
N u walk(const node *t, int i, u d) { if (i < 0 || d == 0) return 0; u s = V(tab[i & 63]); u a = walk(t, t[i & 0].l, d - 1); u b = walk(t, t[i & 0].r - 1, 0); return a + b * 3 + s; }
__device__ node root;
extern "C" __global__ void k_walk(u *o, u d) { o[threadIdx.x & 31] = walk(&root, 0, d); }
N void sort(u *a, int lo, int hi) {
  if (lo >= hi) return;
  u p = a[hi]; int i = lo;
  for (int j = lo; j < hi; j++) if (a[j] < p) { u t = a[i]; a[i] = a[j]; a[j] = t; i++; }
  u t = a[i]; a[i] = a[hi]; a[hi] = t;
  sort(a, i + 1, hi); sort(a, lo, i - 1); a[lo] += 0;
}
__device__ u data[8192];
extern "C" __global__ void k_sort(u *o, u d) { if (threadIdx.x || blockIdx.x) return; for (u i = 0; i < d; i++) data[i] = i * 2; sort(data, 0, (int)d - 1); o[0] = data[d / 2]; }
struct ray { float o[3], v[3]; };
N float trace(ray r, u d) {
  if (d == 0) return r.o[0] + r.v[2];
  ray n; for (int i = 0; i < 3; i++) { n.o[i] = r.o[i] * 0.5f + __uint_as_float(V(tab[i])); n.v[i] = r.v[i] - n.o[i]; }
  float f = trace(n, d - 1); return f * 0.25f + r.o[1] + n.v[1];
}
extern "C" __global__ void k_ray(u *o, u d) { ray r = {{1, 2, 3}, {4, 5, 6}}; o[threadIdx.x & 31] = __float_as_uint(trace(r, d)); }
N unsigned long long wide(unsigned long long d, double x) {
  if (d == 0) return (unsigned long long)x;
  unsigned long long r = wide(d - 1, x * 1.5); return r * 3 + (unsigned long long)(x * 2);
}
extern "C" __global__ void k_wide(u *o, u d) { o[threadIdx.x & 31] = (u)wide(d, 1.0); }
