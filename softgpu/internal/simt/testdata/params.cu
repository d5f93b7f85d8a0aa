// Structs by value: parameters of kernels and of device functions that are not inlined,
// read with constant and variable indices, changed, passed on by address and returned.
// The files params_*.ptx are what clang 14 and 22 made of it with -O0 and -O2:
//   clang-14 -x cuda --cuda-gpu-arch=sm_80 --cuda-device-only -nocudainc -nocudalib \
//     -S -O2 params.cu -o params_clang14_O2.ptx
//   clang-22 ... --cuda-feature=+ptx80 ...

#include "prelude.h"
#define N __device__ __attribute__((noinline))

struct Pair { double x, y; int a[6]; };
struct List { int a[12]; };

N double fixed(Pair p, int i) { return p.x + 2 * p.y + p.a[2] + i; }
N double indexed(Pair p, int i) { return p.a[i] + p.y; }
N double changed(Pair p, int i) { p.a[i] += 5; p.y = i; return p.a[i] + p.a[0] + p.y; }
N int sum(const int *p, int n) { int t = 0; for (int i = 0; i < n; i++) t += p[i]; return t; }
N int address(List l, int n) { return sum(l.a, n); }
N List returned(List l, int i) { l.a[i] = i * 3; return l; }
N int nested(List l, int i) { List m = returned(l, i); return address(m, 12) + m.a[i] - l.a[i]; }
N int down(List l, int i) { if (i == 0) return l.a[0]; l.a[i] += i; List m = l; m.a[0]++; return down(m, i - 1) + l.a[i]; }

extern "C" __global__ void params(Pair p, List l, double *out)
{
    int t = threadIdx.x, i = t % 6, j = t % 12;
    double *o = out + t * 10;
    o[0] = fixed(p, i);
    o[1] = indexed(p, i);
    o[2] = changed(p, i);
    o[3] = address(l, j);
    o[4] = nested(l, j);
    o[5] = p.a[i];
    o[6] = sum(l.a, j);
    o[7] = t & 1 ? down(l, j) : indexed(p, 5 - i);
    Pair q = p;
    q.a[i] = 11;
    o[8] = indexed(q, t % 3);
    l.a[j] = 7;
    o[9] = l.a[11 - j] + address(l, 12);
}
