// CUDA's names for clang (14 or newer) without a CUDA toolkit and without libdevice. nvcc and
// NVRTC have them already: for these the header includes only CUDA's own headers of half
// and bfloat16 where they are, so that one source compiles with all of them.
//
// compat/cuda_runtime.h is what nvcc gives every source. Package compile inserts it where a source
// does not include this header. Each part says what it holds; docs/notes/header.md has the
// table. Host code and <<<>>> are parsed and dropped: Go launches kernels.
#ifndef FERRY_FERRY_H
#define FERRY_FERRY_H
#include "ferry/core.h"
#ifdef FERRY_CLANG
#include "ferry/assert.h"
#include "ferry/bfloat16.h"
#include "ferry/half.h"
#else
#if __has_include(<cuda_fp16.h>)
#include <cuda_fp16.h>
#endif
#if __has_include(<cuda_bf16.h>)
#include <cuda_bf16.h>
#endif
#endif
#endif
