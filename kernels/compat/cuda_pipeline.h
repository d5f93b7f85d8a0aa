// Asynchronous copies from global to shared memory, as a class: nvcuda::experimental::pipeline.
#ifndef FERRY_COMPAT_CUDA_PIPELINE_H
#define FERRY_COMPAT_CUDA_PIPELINE_H
#include "cuda_pipeline_primitives.h"
#ifdef FERRY_CLANG
namespace nvcuda {
namespace experimental {
class pipeline {
  public:
    FERRY_M size_t commit() { __pipeline_commit(); return count++; }
    FERRY_M void commit_and_wait() { commit(), wait_prior<0>(); }
    FERRY_M void wait(size_t) { __pipeline_wait_prior(0); }
    template <unsigned n> FERRY_M void wait_prior() { __pipeline_wait_prior(n); }

  private:
    size_t count = 0;
};
// memcpy_async copies one value.
template <class T> FERRY_D void memcpy_async(T &to, const T &from, pipeline &) {
    const size_t unit = sizeof(T) % 16 == 0 && alignof(T) >= 16 ? 16 : sizeof(T) % 8 == 0 && alignof(T) >= 8 ? 8 : sizeof(T) % 4 == 0 && alignof(T) >= 4 ? 4 : 0;
    if constexpr (unit == 0) __builtin_memcpy(&to, &from, sizeof(T));
    else for (size_t i = 0; i < sizeof(T); i += unit) __pipeline_memcpy_async((char *)&to + i, (const char *)&from + i, unit);
}
}
}
#endif
#endif
