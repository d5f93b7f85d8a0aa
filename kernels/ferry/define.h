// Macros that other parts use, and CUDA's keywords.
#ifndef FERRY_DEFINE_H
#define FERRY_DEFINE_H

// Clang compiles for a GPU here. nvcc and NVRTC have CUDA's names; for them the parts
// define nothing that they have.
#if defined(__clang__) && defined(__CUDA__) && !defined(__NVCC__) && !defined(__CUDACC_RTC__)
#define FERRY_CLANG 1
#endif

// FERRY_PLAIN stands for a source without kernels, which a compiler of the host compiles alone.
#if !defined(FERRY_CLANG) && !defined(__NVCC__) && !defined(__CUDACC_RTC__)
#define FERRY_PLAIN 1
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define CUDARTAPI
#define CUDART_CB
#define CUDART_VERSION 12000
#include <stddef.h>
#endif

// FERRY_API stands for a source that has the runtime API and the driver API.
#if defined(FERRY_CLANG) || defined(FERRY_PLAIN)
#define FERRY_API 1
#endif

// FERRY_SM is the architecture, as __CUDA_ARCH__, for which there are functions. When clang compiles
// the host's code it looks at kernels too, and must know the functions of all architectures.
#ifdef __CUDA_ARCH__
#define FERRY_SM __CUDA_ARCH__
#else
#define FERRY_SM 10000
#endif

#ifdef FERRY_CLANG
#if __clang_major__ < 14
#error "ferry.h needs clang 14 or newer"
#endif
#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
// Clang has no managed variables for CUDA. "ferry cc" learns from a warning that a file has some. It
// then compiles the host's code by the rules of HIP, which has them, and its runtime does the rest.
// Package compile finds them by their section and gives them their attribute in PTX. The annotation
// keeps clang from taking the initial value of a variable that kernels do not change for a constant.
#if defined(FERRY_CC) && defined(__HIP__)
#define __managed__ __attribute__((managed))
#elif defined(FERRY_CC)
#define __managed__ _Pragma("GCC warning \"ferry cc: a managed variable\"") __attribute__((device))
#else
#define __managed__ __attribute__((device, section("ferry.managed"), annotate("ferry.managed")))
#endif
#define __forceinline__ __inline__ __attribute__((always_inline))
#if __clang_major__ < 15 // a keyword since clang 15
#define __noinline__ __attribute__((noinline))
#endif
#define __align__(n) __attribute__((aligned(n)))
#define __inline_hint__
#define __device_builtin__
#define __cudart_builtin__
#define __builtin_align__(n) __attribute__((aligned(n)))
#define CUDARTAPI
#define CUDAAPI
#define CUDART_CB
#define CUDA_CB

// __launch_bounds__ drops the third number, blocks in a cluster, for a clang that does not
// know it. It is a hint.
#if __clang_major__ >= 18
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#else
#define __launch_bounds__(...) FERRY_BOUNDS(__VA_ARGS__, 0, 0, 0)
#define FERRY_BOUNDS(threads, blocks, ...) __attribute__((launch_bounds(threads, blocks)))
#endif

// A parameter with __grid_constant__ is read where it lies. Without the attribute a kernel
// that takes its address works on a copy, which holds the same values.
#if __has_attribute(grid_constant)
#define __grid_constant__ __attribute__((grid_constant))
#else
#define __grid_constant__
#endif
#if __has_attribute(cluster_dims)
#define __cluster_dims__(...) __attribute__((cluster_dims(__VA_ARGS__)))
#else
#define __cluster_dims__(...) __attribute__((aligned(this_clang_does_not_support_cluster_dims)))
#endif

// nvcc defines these. Sources choose between variants by them.
#define __CUDACC__ 1
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 0
#define __CUDACC_VER_BUILD__ 0
#define CUDART_VERSION 12000
#define CUDA_VERSION 12000
// nvcc's own headers include these of the host.
#ifdef FERRY_SYSTEM_HEADERS
#include <stddef.h>
#include <stdint.h>
#endif
#ifdef __SIZE_TYPE__
typedef __SIZE_TYPE__ size_t;
#endif
#ifndef NULL
#define NULL __null
#endif
#endif

// FERRY_D starts a function for the device, FERRY_HD one that host code may name too, FERRY_M
// and FERRY_HM a method. Nothing is compiled for the host. nodebug gives their instructions the
// source line of the caller, so that a fault names that line.
#ifdef FERRY_CLANG
#define FERRY_INLINE always_inline, nodebug
#define FERRY_M __attribute__((device, FERRY_INLINE))
#define FERRY_HM __attribute__((host, device, FERRY_INLINE))
#define FERRY_D static __inline__ FERRY_M
#define FERRY_HD static __inline__ FERRY_HM
#elif defined(FERRY_PLAIN)
#define FERRY_HM __inline__ __attribute__((always_inline))
#define FERRY_HD static FERRY_HM
#else
#define FERRY_M __device__ __forceinline__
#define FERRY_HM FERRY_M
#define FERRY_D static FERRY_M
#define FERRY_HD FERRY_D
#endif
#endif
