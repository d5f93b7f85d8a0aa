// Frames of kernels, known calls and function pointers beside a recursion. recursions.txt has
// how deep each went on an H200.
typedef unsigned u;
__device__ u tab[64];
#define V(x) (*(volatile u *)&(x))
#define N __device__ __noinline__
N u plain(u d) { if (d == 0) return V(tab[0]) + 1; u r = plain(d - 1); return r * 3 + d; }
// the entry has B bytes of locals
template <int B> __device__ __forceinline__ void entry(u *o, u d) {
  volatile u a[B]; for (u i = 0; i < B; i++) a[i] = d + i;
  u r = plain(d); o[threadIdx.x & 31] = r + a[d & (B - 1)];
}
extern "C" __global__ void e_64(u *o, u d) { entry<16>(o, d); }
extern "C" __global__ void e_512(u *o, u d) { entry<128>(o, d); }
extern "C" __global__ void e_2048(u *o, u d) { entry<512>(o, d); }
// a chain of known functions before the recursion: 256 bytes each
N u c2(u d) { volatile u a[64]; for (u i = 0; i < 64; i++) a[i] = d + i; u r = plain(d); return r + a[d & 63]; }
N u c1(u d) { volatile u a[64]; for (u i = 0; i < 64; i++) a[i] = d + i; u r = c2(d); return r + a[d & 63]; }
extern "C" __global__ void e_chain(u *o, u d) { o[threadIdx.x & 31] = c1(d); }
// a deep known chain that is not used, beside a recursion: 4096 bytes
N u big(u d) { volatile u a[1024]; for (u i = 0; i < 1024; i++) a[i] = d + i; return a[d & 1023]; }
extern "C" __global__ void e_beside(u *o, u d) { o[threadIdx.x & 31] = d == 777777 ? big(d) : plain(d); }
// and used at the end of the recursion
N u tail(u d) { if (d == 0) return big(d); u r = tail(d - 1); return r * 3 + d; }
extern "C" __global__ void e_tail(u *o, u d) { o[threadIdx.x & 31] = tail(d); }
// a function pointer to a function with a frame of 64*W bytes, depth 1
typedef u (*gp)(u);
template <int W> N u leaf(u d) { volatile u a[W]; for (u i = 0; i < W; i++) a[i] = d + i; return a[d & (W - 1)]; }
__device__ gp leaves[4];
extern "C" __global__ void p_small(u *o, u d) { if (threadIdx.x == 0) leaves[0] = leaf<16>; __syncthreads(); o[threadIdx.x & 31] = leaves[d & 0](d); }
extern "C" __global__ void p_1024(u *o, u d) { if (threadIdx.x == 0) leaves[1] = leaf<256>; __syncthreads(); o[threadIdx.x & 31] = leaves[1 + (d & 0)](d); }
extern "C" __global__ void p_512(u *o, u d) { if (threadIdx.x == 0) leaves[2] = leaf<128>; __syncthreads(); o[threadIdx.x & 31] = leaves[2 + (d & 0)](d); }
// many live values in the entry
extern "C" __global__ void e_live(u *o, u d) { u v[40];
#pragma unroll
 for (int i = 0; i < 40; i++) v[i] = V(tab[i]);
 u r = plain(d);
#pragma unroll
 for (int i = 0; i < 40; i++) r = r * 5 + v[i];
 o[threadIdx.x & 31] = r; }
// recursion inside a loop, float values and predicates
N float tree(float x, u d) { if (d == 0) return x; float s = 0; for (int i = 0; i < 3; i++) { float y = __uint_as_float(V(tab[i])); s += tree(x * y, i ? 0 : d - 1) * y; } return s + x; }
extern "C" __global__ void e_tree(u *o, u d) { o[threadIdx.x & 31] = __float_as_uint(tree(1, d)); }
