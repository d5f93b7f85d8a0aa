// memcpy_async of cooperative groups: the threads of a group copy from global to shared memory
// together. wait and wait_prior end the copies and synchronise the group.
#ifndef FERRY_COMPAT_COOPERATIVE_GROUPS_MEMCPY_ASYNC_H
#define FERRY_COMPAT_COOPERATIVE_GROUPS_MEMCPY_ASYNC_H
#include "../cooperative_groups.h"
#include "../cuda_pipeline_primitives.h"
#ifdef FERRY_CLANG
namespace cooperative_groups {
// ferry_copy copies n bytes. From global to shared memory, words are copied asynchronously where
// addresses and sizes allow it.
template <class G> FERRY_D void ferry_copy(const G &g, void *to, const void *from, size_t n) {
    size_t odd = (size_t)to | (size_t)from, unit = odd % 16 == 0 ? 16 : odd % 8 == 0 ? 8 : odd % 4 == 0 ? 4 : 1;
    size_t whole = unit == 1 || !__isShared(to) || !__isGlobal(from) ? 0 : n / unit * unit;
    for (size_t i = g.thread_rank() * unit; i < whole; i += g.num_threads() * unit)
        __pipeline_memcpy_async((char *)to + i, (const char *)from + i, unit);
    for (size_t i = whole + g.thread_rank(); i < n; i += g.num_threads()) ((char *)to)[i] = ((const char *)from)[i];
    __pipeline_commit();
}
template <class G, class A, class B> FERRY_D void memcpy_async(const G &g, A *__restrict__ to, const B *__restrict__ from, size_t bytes) { ferry_copy(g, to, from, bytes); }
// With two sizes the pointers have them, in elements, and the smaller is copied.
template <class G, class A, class B> FERRY_D void memcpy_async(const G &g, A *__restrict__ to, size_t a, const B *__restrict__ from, size_t b) {
    ferry_copy(g, to, from, a * sizeof(A) < b * sizeof(B) ? a * sizeof(A) : b * sizeof(B));
}
template <class G> FERRY_D void wait(const G &g) { __pipeline_wait_prior(0), g.sync(); }
template <unsigned n, class G> FERRY_D void wait_prior(const G &g) { __pipeline_wait_prior(n), g.sync(); }
}
#endif
#endif
