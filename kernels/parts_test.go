package kernels_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/compile"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/compiletest"
)

// vectorTypes are the vector types: name, element, and alignments of 1, 2 and 4 elements.
var vectorTypes = []struct {
	name, element string
	a1, a2, a4    int
}{
	{"char", "signed char", 1, 2, 4}, {"uchar", "unsigned char", 1, 2, 4}, {"short", "short", 2, 4, 8}, {"ushort", "unsigned short", 2, 4, 8},
	{"int", "int", 4, 8, 16}, {"uint", "unsigned", 4, 8, 16}, {"long", "long", 8, 16, 16}, {"ulong", "unsigned long", 8, 16, 16},
	{"longlong", "long long", 8, 16, 16}, {"ulonglong", "unsigned long long", 8, 16, 16}, {"float", "float", 4, 8, 16}, {"double", "double", 8, 16, 16},
}

// TestVectors checks sizes, alignments and elements of the vector types.
func TestVectors(t *testing.T) {
	var s strings.Builder
	s.WriteString("typedef unsigned long long u64;\n")
	var body strings.Builder
	n := 0
	for _, v := range vectorTypes {
		for k, align := range map[int]int{1: v.a1, 2: v.a2, 3: v.a1, 4: v.a4} {
			fmt.Fprintf(&s, "static_assert(alignof(%s%d) == %d && sizeof(%[1]s%[2]d) == %[2]d * sizeof(%[4]s), \"\");\n", v.name, k, align, v.element)
			fmt.Fprintf(&body, "{ auto v = make_%s%d(%s);", v.name, k, strings.Join([]string{"1", "2", "3", "4"}[:k], ", "))
			for i := range k {
				fmt.Fprintf(&body, " out[%d] = (u64)v.%c;", n+i, "xyzw"[i])
			}
			body.WriteString(" }\n")
			n += 4
		}
	}
	s.WriteString("extern \"C\" __global__ void test(const u64 *in, u64 *out) {\n" + body.String() + "}\n")
	for _, b := range builds(t, "sm_52", "sm_80") {
		t.Run(b.String(), func(t *testing.T) {
			out := zeroed(t, b.compile(t, s.String()), ferry.Cover(1, 1), []uint64{0}, n)
			for i, v := range out {
				if v != 0 && v != uint64(i%4+1) {
					t.Errorf("element %d is %d", i%4, v)
				}
			}
		})
	}
}

// TestBuiltins checks the indices, barriers, fences, clocks, loads, stores and addresses.
func TestBuiltins(t *testing.T) {
	source := preamble + `
__device__ u64 variable;
__constant__ u64 constant = 77;
struct Words { u32 v[4]; };
extern "C" __global__ void test(const u64 *in, u64 *out) {
    __shared__ u64 shared[64];
    uint3 t = threadIdx, c = blockIdx;
    dim3 n = blockDim, g = gridDim;
    u64 id = ((u64)(c.z * g.y + c.y) * g.x + c.x) * n.x * n.y * n.z + (t.z * n.y + t.y) * n.x + t.x;
    u64 *o = out + 40 * id;
    o[0] = id + 1000 * blockDim.x * gridDim.z + warpSize * 1000000;
    o[1] = __syncthreads_count(t.x == 1);
    o[2] = __syncthreads_and(t.x < 4) * 2 + __syncthreads_and(t.x < 3);
    o[3] = __syncthreads_or(t.x == 9) * 2 + __syncthreads_or(t.x == 3) ;
    __threadfence_block(); __threadfence(); __threadfence_system(); __syncwarp();
    long long before = clock64(); int c32 = clock(); o[4] = clock64() >= before; (void)c32;
    o[5] = __globaltimer() != 0;
    u64 local = in[1];
    shared[t.x] = t.x + 5;
    __syncthreads();
    o[6] = __isGlobal(in) + 2 * __isGlobal(shared) + 4 * __isShared(shared) + 8 * __isLocal(&local) + 16 * __isShared(in) + 32 * __isLocal(in) + 64 * __isConstant(&constant);
    o[7] = *(u64 *)__cvta_shared_to_generic(__cvta_generic_to_shared(&shared[2])) + *(u64 *)__cvta_global_to_generic(__cvta_generic_to_global(in)) + *(u64 *)__cvta_local_to_generic(__cvta_generic_to_local(&local)) + *(u64 *)__cvta_constant_to_generic(__cvta_generic_to_constant(&constant));
    o[8] = __ldg(in) + __ldca(in + 1) + __ldcg(in + 2) + __ldcs(in + 3) + __ldlu(in + 4) + __ldcv(in + 5);
    o[9] = __ldg((const unsigned char *)in + 8) + __ldg((const unsigned short *)in + 8) + __ldg((const int *)in + 6) + __ldg((const uchar4 *)in + 8).x;
    float4 f = __ldg((const float4 *)in); o[10] = __float_as_uint(f.x) + __float_as_uint(f.z);
    Words w = __ldcg((const Words *)in); o[11] = w.v[0] + w.v[2];
    o[12] = R(__ldg((const half *)in)) + R(__ldg((const half2 *)in)) + (u64)__ldg((const double2 *)in + 1).x;
    __stwb(&o[13], (u64)13); __stcg((u32 *)&o[14], 14u); __stcs((short *)&o[15], (short)15); __stwt((char *)&o[16], (char)16);
    __stcg((ulonglong2 *)&o[18], make_ulonglong2(18, 19));
    __stcs((float *)&o[20], 20.0f);
    memset(&o[21], 0x21, 9);
    memcpy(&o[23], in, 24);
    __prof_trigger(1);
#if __CUDA_ARCH__ >= 700
    __nanosleep(10);
#endif
    if (id == 0) variable = 27;
    o[27] = 27;
    if (in[0] == 0) { __brkpt(); __trap(); }
}`
	in := []uint64{0x3f8000003f801234, 2, 3, 4, 5, 6, 7, 8}
	lo := in[0] & 0xffffffff
	for _, b := range builds(t, "sm_52", "sm_80") {
		t.Run(b.String(), func(t *testing.T) {
			c := ferry.LaunchConfig{Grid: cu.Dim3{X: 2, Y: 3, Z: 2}, Block: cu.Dim3{X: 4, Y: 1, Z: 1}}
			out := zeroed(t, b.compile(t, source), c, in, 40*48)
			for id := range uint64(48) {
				want := []uint64{id + 8000 + 32000000, 1, 2, 1, 1, 1, 1 + 4 + 8, 7 + in[0] + 2 + 77, in[0] + 2 + 3 + 4 + 5 + 6,
					2 + 3 + 4 + 5, lo + 2, lo + 2, in[0]&0xffff + lo, 13, 14, 15, 16, 0, 18, 19, 0x41a00000,
					0x2121212121212121, 0x21, in[0], in[1], in[2], 0, 27}
				for i, w := range want {
					if got := out[40*id+uint64(i)]; got != w {
						t.Fatalf("thread %d: word %d is %#x, want %#x", id, i, got, w)
					}
				}
			}
		})
	}
}

// TestPrint checks printf, and assert and __trap, which fail the launch.
func TestPrint(t *testing.T) {
	source := `
#include <cassert>
#include <cstdio>
extern "C" __global__ void print(int v) { int n = printf("%d %s %.2f %c %llx\n", v, "text", 2.5f, 'c', 0x123456789abull); printf("%d\n", n); }
extern "C" __global__ void check(int v) { assert(v > 3 && "more than three"); }
extern "C" __global__ void trap(int v) { if (v == 2) __trap(); }
#undef assert
#define NDEBUG
#include <assert.h>
extern "C" __global__ void unchecked(int v) { assert(v > 3); }
`
	for _, b := range builds(t, "sm_52", "sm_80") {
		ptx := b.compile(t, source)
		t.Run(b.String(), func(t *testing.T) {
			try := func(kernel string, v int32) error {
				return launch(t, ptx, kernel, ferry.Cover(1, 1), func(*ferry.GPU) []any { return []any{v} }, nil)
			}
			if err := try("print", 7); err != nil {
				t.Error(err)
			}
			if err := try("check", 4); err != nil {
				t.Error(err)
			}
			if err := try("check", 3); !errors.Is(err, cu.ErrorAssert) {
				t.Errorf("an assertion that does not hold gave %v", err)
			}
			if err := try("unchecked", 3); err != nil {
				t.Error(err)
			}
			if err := try("trap", 2); err == nil {
				t.Error("a trap gave no error")
			}
		})
	}
}

// TestSources compiles a source as written for nvcc, with host code and every header, and a
// source that includes ferry.h itself.
func TestSources(t *testing.T) {
	const host = `
#include <algorithm>
#include <assert.h>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cuda_runtime_api.h>
#include <device_functions.h>
#include <device_launch_parameters.h>
#include <float.h>
#include <limits>
#include <limits.h>
#include <math.h>
#include <math_constants.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <type_traits>
#include <utility>
#include <vector_functions.h>
#include <vector_types.h>
namespace cg = cooperative_groups;
static_assert(std::is_same<std::make_unsigned_t<int>, unsigned>::value && std::numeric_limits<int>::max() == INT_MAX, "");
template <class T> __global__ __launch_bounds__(256, 2) void scale(T *x, T by, const int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = std::max(x[i] * by, T(0));
}
__global__ void wait(const __grid_constant__ int n, uint64_t *__restrict__ out) {
    extern __shared__ float dynamic[];
    dynamic[threadIdx.x] = CUDART_PI_F + M_PI + FLT_MAX;
    cg::this_grid().sync();
    *out = (uint64_t)dynamic[n];
}
#define CHECK(call) do { cudaError_t e = call; if (e != cudaSuccess) { fprintf(stderr, "%s\n", cudaGetErrorString(e)); exit(EXIT_FAILURE); } } while (0)
__device__ unsigned long long globaltimer() { return 0; }
int main(int argc, char **argv) {
    half h = __float2half(1.5f) + half(2);
    __nv_bfloat162 pair = __floats2bfloat162_rn((float)h, __half2float(h)) * __float2bfloat162_rn(2);
    if (pair.x > pair.y) return 1;
    int n = argc > 1 ? atoi(argv[1]) : 1000;
    float *x, *y = (float *)malloc(n * sizeof(float));
    for (int i = 0; i < n; i++) y[i] = sqrtf((float)(rand() % 100));
    CHECK(cudaMalloc(&x, n * sizeof(float)));
    CHECK(cudaMemcpy(x, y, n * sizeof(float), cudaMemcpyHostToDevice));
    dim3 grid((n + 255) / 256), block(256);
    scale<<<grid, block>>>(x, 2.0f, n);
    wait<<<1, 32, 128>>>(3, nullptr);
    CHECK(cudaDeviceSynchronize());
    printf("%f\n", y[0]);
    assert(y[0] >= 0);
    memset(y, 0, 4);
    free(y);
    return 0;
}
`
	// Without an include, nvcc has the limits of integers.
	const plain = "__global__ void most(int *x) { *x = INT_MAX; }"
	const own = `
#include "ferry.h"
extern "C" __global__ void sum(const half *a, const __nv_bfloat16 *b, float *c) { assert(a != nullptr); c[threadIdx.x] = __half2float(a[threadIdx.x]) + __bfloat162float(b[threadIdx.x]); }
`
	for _, b := range builds(t, "sm_52", "sm_60", "sm_70", "sm_75", "sm_86", "sm_90") {
		t.Run(b.String(), func(t *testing.T) {
			ptx := b.compile(t, host)
			for _, kernel := range []string{"_Z5scaleIfEvPT_S0_i", "_Z4wait"} {
				if !strings.Contains(ptx, ".entry "+kernel) {
					t.Errorf("the PTX has no kernel %s", kernel)
				}
			}
			b.compile(t, plain)
			b.compile(t, own)
		})
	}
}

// userLines has a fault in a function of the header for each value of in.
const userLines = `#include <cuda_fp16.h>
extern "C" __global__ void test(const unsigned long long *in, unsigned long long *out)
{
    if (threadIdx.x != 0) return;
    // The pointers are one past the ends of the buffers.
    switch (in[0]) {
    case 0:
        atomicAdd(out + 1, 1ull);
        break;
    case 1: out[0] = __ldg(in + 1); break;
    case 2: __stcs(out + 1, 1); break;
    case 3: out[0] = (unsigned long long)normf(1, (const float *)(in + 1)); break;
    case 4: out[0] = atomicCAS_system(out + 1, 1ull, 2ull); break;
    case 5: atomicAdd((__half2 *)(out + 1), __float2half2_rn(1)); break;
    }
}
`

// TestUserLine checks that a fault in a function of the header names the line that calls it.
func TestUserLine(t *testing.T) {
	for _, compiler := range compiletest.Clangs(t) {
		r, err := compiletest.Source(t.Context(), "test.cu", []byte(userLines), &compile.Options{Compiler: compiler, LineInfo: true})
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range []int{8, 10, 11, 12, 13, 14} {
			err := launch(t, string(r.PTX), "test", ferry.Cover(1, 32), func(g *ferry.GPU) []any {
				in, err := ferry.Upload(g, []uint64{uint64(i)})
				if err != nil {
					t.Fatal(err)
				}
				out, err := ferry.Alloc[uint64](g, 1)
				if err != nil {
					t.Fatal(err)
				}
				return []any{in, out}
			}, nil)
			if want := fmt.Sprintf("test.cu:%d;", line); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, case %d: got %v, want an error with %q", compiler, i, err, want)
			}
		}
	}
}
