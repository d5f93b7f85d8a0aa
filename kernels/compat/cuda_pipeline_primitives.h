// Asynchronous copies from global to shared memory, as functions: __pipeline_memcpy_async and
// others. Below sm_80 the copy is done at once.
#ifndef FERRY_COMPAT_CUDA_PIPELINE_PRIMITIVES_H
#define FERRY_COMPAT_CUDA_PIPELINE_PRIMITIVES_H
#include "../ferry/core.h"
#ifdef FERRY_CLANG
// The last zeros bytes are not copied, but set to zero.
FERRY_D void __pipeline_memcpy_async(void *__restrict__ to, const void *__restrict__ from, size_t size, size_t zeros = 0) {
#if FERRY_SM >= 800
    unsigned at = (unsigned)__cvta_generic_to_shared(to), n = (unsigned)(size - zeros);
    if (size == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(n) : "memory");
    else if (size == 8) asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(at), "l"(from), "r"(n) : "memory");
    else asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(from), "r"(n) : "memory");
#else
    for (size_t i = 0; i < size; i++) ((char *)to)[i] = i < size - zeros ? ((const char *)from)[i] : 0;
#endif
}
FERRY_D void __pipeline_commit() {
#if FERRY_SM >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
// __pipeline_wait_prior waits for all commits but the last n, which is a constant below 9.
FERRY_D void __pipeline_wait_prior(size_t n) {
#if FERRY_SM >= 800
    switch (n) {
    case 0: asm volatile("cp.async.wait_all;" ::: "memory"); break;
    case 1: asm volatile("cp.async.wait_group 1;" ::: "memory"); break;
    case 2: asm volatile("cp.async.wait_group 2;" ::: "memory"); break;
    case 3: asm volatile("cp.async.wait_group 3;" ::: "memory"); break;
    case 4: asm volatile("cp.async.wait_group 4;" ::: "memory"); break;
    case 5: asm volatile("cp.async.wait_group 5;" ::: "memory"); break;
    case 6: asm volatile("cp.async.wait_group 6;" ::: "memory"); break;
    case 7: asm volatile("cp.async.wait_group 7;" ::: "memory"); break;
    default: asm volatile("cp.async.wait_group 8;" ::: "memory"); break;
    }
#endif
}
#endif
#endif
