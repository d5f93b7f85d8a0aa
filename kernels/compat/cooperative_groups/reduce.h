// reduce of cooperative groups, for tiles and coalesced groups, with plus, less, greater and
// the operations on bits.
#ifndef FERRY_COMPAT_COOPERATIVE_GROUPS_REDUCE_H
#define FERRY_COMPAT_COOPERATIVE_GROUPS_REDUCE_H
#include "../cooperative_groups.h"
#ifdef FERRY_CLANG
namespace cooperative_groups {
#define FERRY_FUNCTION(NAME, EXPR)                                                         \
    template <class T = void> struct NAME { FERRY_M T operator()(T a, T b) const { return EXPR; } };
FERRY_FUNCTION(plus, a + b)
FERRY_FUNCTION(less, b < a ? b : a)
FERRY_FUNCTION(greater, a < b ? b : a)
FERRY_FUNCTION(bit_and, a &b)
FERRY_FUNCTION(bit_or, a | b)
FERRY_FUNCTION(bit_xor, a ^ b)
#undef FERRY_FUNCTION

// reduce returns op over the values of all threads of the group, in each of them.
template <unsigned n, class P, class T, class F> FERRY_D T reduce(const thread_block_tile<n, P> &g, T v, F op) {
    for (unsigned k = n / 2; k > 0; k /= 2) v = op(v, g.shfl_xor(v, k));
    return v;
}
template <class T, class F> FERRY_D T reduce(const coalesced_group &g, T v, F op) {
    T r = g.shfl(v, 0);
    for (unsigned k = 1; k < g.num_threads(); k++) r = op(r, g.shfl(v, (int)k));
    return r;
}
}
#endif
#endif
