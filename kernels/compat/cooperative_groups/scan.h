// Scans of cooperative groups: inclusive_scan and exclusive_scan of tiles and coalesced groups.
#ifndef FERRY_COMPAT_COOPERATIVE_GROUPS_SCAN_H
#define FERRY_COMPAT_COOPERATIVE_GROUPS_SCAN_H
#include "reduce.h"
#ifdef FERRY_CLANG
namespace cooperative_groups {
template <class G, class T, class F> FERRY_D T inclusive_scan(const G &g, T v, F op) {
    for (unsigned k = 1; k < g.num_threads(); k *= 2) {
        T before = g.shfl_up(v, k);
        if (g.thread_rank() >= k) v = op(before, v);
    }
    return v;
}
template <class G, class T> FERRY_D T inclusive_scan(const G &g, T v) { return inclusive_scan(g, v, plus<T>()); }
// The first thread of an exclusive scan gets a value of zero.
template <class G, class T, class F> FERRY_D T exclusive_scan(const G &g, T v, F op) {
    T before = g.shfl_up(inclusive_scan(g, v, op), 1);
    return g.thread_rank() == 0 ? T() : before;
}
template <class G, class T> FERRY_D T exclusive_scan(const G &g, T v) { return exclusive_scan(g, v, plus<T>()); }
}
#endif
#endif
