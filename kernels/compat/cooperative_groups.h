// Cooperative groups: blocks, tiles of a warp, coalesced threads, and the grid of a
// cooperative launch.
#ifndef FERRY_COMPAT_COOPERATIVE_GROUPS_H
#define FERRY_COMPAT_COOPERATIVE_GROUPS_H
#include "../ferry/core.h"
#ifdef FERRY_CLANG
namespace cooperative_groups {

// ferry_rank returns the rank of a thread in a block.
FERRY_D unsigned ferry_rank() { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }

// A thread_block is the threads of a block.
class thread_block {
  public:
    FERRY_M void sync() const { __syncthreads(); }
    FERRY_M static unsigned thread_rank() { return ferry_rank(); }
    FERRY_M static unsigned num_threads() { return blockDim.x * blockDim.y * blockDim.z; }
    FERRY_M static unsigned size() { return num_threads(); }
    FERRY_M static dim3 group_index() { return blockIdx; }
    FERRY_M static dim3 thread_index() { return threadIdx; }
    FERRY_M static dim3 group_dim() { return blockDim; }
    FERRY_M static dim3 dim_threads() { return blockDim; }
    struct arrival_token {};
    FERRY_M arrival_token barrier_arrive() const { __syncthreads(); return {}; }
    FERRY_M void barrier_wait(arrival_token &&) const {}
};
FERRY_D thread_block this_thread_block() { return thread_block(); }

// A grid_group is the threads of a grid. sync needs a cooperative launch.
class grid_group {
  public:
    FERRY_M static unsigned long long num_blocks() { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
    FERRY_M static unsigned long long block_rank() { return ((unsigned long long)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x; }
    FERRY_M static unsigned long long num_threads() { return num_blocks() * thread_block::num_threads(); }
    FERRY_M static unsigned long long size() { return num_threads(); }
    FERRY_M static unsigned long long thread_rank() { return block_rank() * thread_block::num_threads() + ferry_rank(); }
    FERRY_M static dim3 group_dim() { return gridDim; }
    FERRY_M static dim3 dim_blocks() { return gridDim; }
    FERRY_M static dim3 block_index() { return blockIdx; }
    struct arrival_token {};
    FERRY_M arrival_token barrier_arrive() const { sync(); return {}; }
    FERRY_M void barrier_wait(arrival_token &&) const {}
    FERRY_M bool is_valid() const { return barrier() != nullptr; }
    FERRY_M void sync() const {
        unsigned *b = barrier();
        if (!b) __trap(); // not a cooperative launch
        __syncthreads();
        if (ferry_rank() == 0) {
            // The highest bit of the word flips when the last block has arrived.
            unsigned n = block_rank() == 0 ? 0x80000000u - ((unsigned)num_blocks() - 1) : 1;
            __threadfence();
            unsigned before = atomicAdd(b, n);
            while (((before ^ *(volatile unsigned *)b) & 0x80000000u) == 0) {}
            __threadfence();
        }
        __syncthreads();
    }

  private:
    // barrier returns a word of the driver's workspace for cooperative launches, whose
    // address is in two registers. Without such a launch it is nil.
    FERRY_M static unsigned *barrier() {
        unsigned lo, hi;
        asm volatile("mov.u32 %0, %%envreg1;" : "=r"(hi));
        asm volatile("mov.u32 %0, %%envreg2;" : "=r"(lo));
        unsigned long long at = (unsigned long long)hi << 32 | lo;
        return at ? (unsigned *)(at + 4) : nullptr;
    }
};
FERRY_D grid_group this_grid() { return grid_group(); }

// FERRY_LANE_GROUP defines what groups of lanes of a warp have in common.
#define FERRY_LANE_GROUP                                                                   \
    FERRY_M void sync() const { __syncwarp(mask()); }                                      \
    FERRY_M int any(int p) const { return __any_sync(mask(), p); }                         \
    FERRY_M int all(int p) const { return __all_sync(mask(), p); }                         \
    FERRY_M unsigned size() const { return num_threads(); }

// ferry_words applies a shuffle of words to a value of any type.
template <class T, class F> FERRY_D T ferry_words(T v, F shuffle) {
    unsigned w[(sizeof(T) + 3) / 4] = {};
    __builtin_memcpy(w, &v, sizeof(T));
    _Pragma("unroll") for (unsigned i = 0; i < sizeof(w) / 4; i++) w[i] = shuffle(w[i]);
    __builtin_memcpy(&v, w, sizeof(T));
    return v;
}

// ferry_lane returns the lane of rank k in a mask, and ferry_pack moves the bits of its lanes
// together.
FERRY_D unsigned ferry_lane(unsigned lanes, unsigned k) { return __fns(lanes, 0, (int)k + 1); }
FERRY_D unsigned ferry_pack(unsigned lanes, unsigned bits) {
    unsigned r = 0, i = 0;
    for (unsigned m = lanes; m; m &= m - 1, i++) r |= (bits >> (__ffs((int)m) - 1) & 1) << i;
    return r;
}

// A ferry_tile is n lanes of a warp with ranks next to each other.
template <unsigned n> class ferry_tile {
    static_assert(n == 1 || n == 2 || n == 4 || n == 8 || n == 16 || n == 32, "a tile has 1, 2, 4, 8, 16 or 32 threads: Ferry has none of several warps");

  public:
    FERRY_LANE_GROUP
    FERRY_M static constexpr unsigned num_threads() { return n; }
    FERRY_M static unsigned thread_rank() { return ferry_rank() % n; }
    template <class T> FERRY_M T shfl(T v, int k) const { return ferry_words(v, [=](unsigned w) { return __shfl_sync(mask(), w, k, n); }); }
    template <class T> FERRY_M T shfl_up(T v, unsigned k) const { return ferry_words(v, [=](unsigned w) { return __shfl_up_sync(mask(), w, k, n); }); }
    template <class T> FERRY_M T shfl_down(T v, unsigned k) const { return ferry_words(v, [=](unsigned w) { return __shfl_down_sync(mask(), w, k, n); }); }
    template <class T> FERRY_M T shfl_xor(T v, unsigned k) const { return ferry_words(v, [=](unsigned w) { return __shfl_xor_sync(mask(), w, k, n); }); }
    FERRY_M unsigned ballot(int p) const { return (__ballot_sync(mask(), p) & mask()) >> first(); }
#if FERRY_SM >= 700
    template <class T> FERRY_M unsigned match_any(T v) const { return (__match_any_sync(mask(), v) & mask()) >> first(); }
    template <class T> FERRY_M unsigned match_all(T v, int &same) const { return (__match_all_sync(mask(), v, &same) & mask()) >> first(); }
#endif
    FERRY_M static unsigned mask() { return (unsigned)((1ull << n) - 1) << first(); }

  private:
    FERRY_M static unsigned first() { return __lane_id() / n * n; }
};

// A thread_block_tile is a tile of a block or of another tile, P. Its meta group are the tiles of P.
template <unsigned n, class P = void> class thread_block_tile;
template <unsigned n> class thread_block_tile<n, thread_block> : public ferry_tile<n> {
  public:
    FERRY_M static unsigned meta_group_rank() { return ferry_rank() / n; }
    FERRY_M static unsigned meta_group_size() { return (thread_block::num_threads() + n - 1) / n; }
};
template <unsigned n, unsigned m, class P> class thread_block_tile<n, thread_block_tile<m, P>> : public ferry_tile<n> {
  public:
    FERRY_M static unsigned meta_group_rank() { return ferry_rank() % m / n; }
    FERRY_M static unsigned meta_group_size() { return m / n; }
};
template <unsigned n> class thread_block_tile<n, void> : public ferry_tile<n> {
  public:
    template <class P> FERRY_M thread_block_tile(const thread_block_tile<n, P> &g) : rank(g.meta_group_rank()), count(g.meta_group_size()) {}
    FERRY_M unsigned meta_group_rank() const { return rank; }
    FERRY_M unsigned meta_group_size() const { return count; }

  private:
    unsigned rank, count;
};
template <unsigned n> FERRY_D thread_block_tile<n, thread_block> tiled_partition(const thread_block &) { return {}; }
template <unsigned n, unsigned m, class P> FERRY_D thread_block_tile<n, thread_block_tile<m, P>> tiled_partition(const thread_block_tile<m, P> &) {
    static_assert(n <= m, "a tile is not larger than what it is part of");
    return {};
}

// A coalesced_group is any lanes of a warp: those that run together when it is made, or a part
// of another group.
class coalesced_group {
  public:
    FERRY_LANE_GROUP
    FERRY_M explicit coalesced_group(unsigned mask, unsigned rank = 0, unsigned count = 1) : lanes(mask), rank(rank), count(count) {}
    FERRY_M unsigned num_threads() const { return __popc(lanes); }
    FERRY_M unsigned thread_rank() const { return __popc(lanes & __lanemask_lt()); }
    FERRY_M unsigned meta_group_rank() const { return rank; }
    FERRY_M unsigned meta_group_size() const { return count; }
    template <class T> FERRY_M T shfl(T v, int k) const { return from(v, ferry_lane(lanes, (unsigned)k % num_threads())); }
    template <class T> FERRY_M T shfl_up(T v, unsigned k) const { return from(v, thread_rank() >= k ? ferry_lane(lanes, thread_rank() - k) : __lane_id()); }
    template <class T> FERRY_M T shfl_down(T v, unsigned k) const { return from(v, thread_rank() + k < num_threads() ? ferry_lane(lanes, thread_rank() + k) : __lane_id()); }
    FERRY_M unsigned ballot(int p) const { return ferry_pack(lanes, __ballot_sync(lanes, p) & lanes); }
#if FERRY_SM >= 700
    template <class T> FERRY_M unsigned match_any(T v) const { return ferry_pack(lanes, __match_any_sync(lanes, v) & lanes); }
    template <class T> FERRY_M unsigned match_all(T v, int &same) const { return ferry_pack(lanes, __match_all_sync(lanes, v, &same) & lanes); }
#endif
    FERRY_M unsigned mask() const { return lanes; }

  private:
    // from returns the value of a lane.
    template <class T> FERRY_M T from(T v, unsigned lane) const {
        unsigned m = lanes;
        return ferry_words(v, [=](unsigned w) { return __shfl_sync(m, w, (int)lane); });
    }
    unsigned lanes, rank, count;
};
FERRY_D coalesced_group coalesced_threads() { return coalesced_group(__activemask()); }
#undef FERRY_LANE_GROUP

// ferry_part makes the caller's part of a mask a group. Parts are in the order of their first
// lanes.
FERRY_D coalesced_group ferry_part(unsigned all, unsigned part) {
    unsigned firsts = __ballot_sync(all, __ffs((int)part) - 1 == (int)__lane_id()) & all;
    return coalesced_group(part, __popc(firsts & ((1u << (__ffs((int)part) - 1)) - 1)), __popc(firsts));
}

// binary_partition divides a group by a condition, labeled_partition by the values of a label.
template <class G> FERRY_D coalesced_group binary_partition(const G &g, bool p) {
    unsigned all = g.mask(), set = __ballot_sync(all, p) & all;
    if (set == all || set == 0) return coalesced_group(all);
    return coalesced_group(p ? set : all & ~set, p, 2);
}
#if FERRY_SM >= 700
template <class G, class T> FERRY_D coalesced_group labeled_partition(const G &g, T label) {
    if constexpr (__is_same(T, bool)) return binary_partition(g, label);
    else return ferry_part(g.mask(), __match_any_sync(g.mask(), (unsigned long long)label) & g.mask());
}
#endif
// tiled_partition divides a coalesced group by ranks.
FERRY_D coalesced_group tiled_partition(const coalesced_group &g, unsigned n) {
    unsigned mine = g.thread_rank() / n, part = 0, rank = 0;
    for (unsigned m = g.mask(); m; m &= m - 1, rank++)
        if (rank / n == mine) part |= m & (0 - m);
    return coalesced_group(part, mine, (g.num_threads() + n - 1) / n);
}
template <unsigned n> FERRY_D coalesced_group tiled_partition(const coalesced_group &g) { return tiled_partition(g, n); }

// invoke_one calls a function in one thread of a group.
template <class G, class F, class... A> FERRY_D void invoke_one(const G &g, F &&f, A &&...a) {
    if (g.thread_rank() == 0) f((A &&)a...);
}
template <class G, class F, class... A> FERRY_D auto invoke_one_broadcast(const G &g, F &&f, A &&...a) -> decltype(f((A &&)a...)) {
    decltype(f((A &&)a...)) v{};
    if (g.thread_rank() == 0) v = f((A &&)a...);
    return g.shfl(v, 0);
}


// A thread_group is any of these groups but the grid, for functions that take each of them.
class thread_group {
  public:
    FERRY_M thread_group(const thread_block &) : block(true), lanes(0) {}
    template <unsigned n, class P> FERRY_M thread_group(const thread_block_tile<n, P> &g) : block(false), lanes(g.mask()) {}
    FERRY_M thread_group(const coalesced_group &g) : block(false), lanes(g.mask()) {}
    FERRY_M void sync() const { if (block) __syncthreads(); else __syncwarp(lanes); }
    FERRY_M unsigned num_threads() const { return block ? thread_block::num_threads() : __popc(lanes); }
    FERRY_M unsigned size() const { return num_threads(); }
    FERRY_M unsigned thread_rank() const { return block ? ferry_rank() : __popc(lanes & __lanemask_lt()); }
    // tile returns the n threads of the group whose ranks divided by n are equal to the caller's.
    FERRY_M thread_group tile(unsigned n) const {
        unsigned of = block ? ~0u : lanes, mine = __popc(of & __lanemask_lt()) / n, r = 0, rank = 0;
        for (unsigned m = of; m; m &= m - 1, rank++)
            if (rank / n == mine) r |= m & (0 - m);
        return thread_group(coalesced_group(r));
    }

  private:
    bool block;
    unsigned lanes;
};
FERRY_D thread_group tiled_partition(const thread_group &g, unsigned n) { return g.tile(n); }

template <class G> FERRY_D void sync(const G &g) { g.sync(); }
template <class G> FERRY_D auto thread_rank(const G &g) { return g.thread_rank(); }
template <class G> FERRY_D auto group_size(const G &g) { return g.size(); }

#if FERRY_SM >= 900
// A cluster_group is the blocks of a cluster. Its barrier has two parts, between which other
// work is possible.
class cluster_group {
  public:
    struct arrival_token {};
    FERRY_M arrival_token barrier_arrive() const { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); return {}; }
    FERRY_M void barrier_wait() const { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
    FERRY_M void barrier_wait(arrival_token &&) const { barrier_wait(); }
    FERRY_M void sync() const { barrier_arrive(), barrier_wait(); }
    FERRY_M static unsigned block_rank() { unsigned r; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
    FERRY_M static unsigned num_blocks() { unsigned r; asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(r)); return r; }
    FERRY_M static dim3 block_index() { dim3 r; asm("mov.u32 %0, %%cluster_ctaid.x; mov.u32 %1, %%cluster_ctaid.y; mov.u32 %2, %%cluster_ctaid.z;" : "=r"(r.x), "=r"(r.y), "=r"(r.z)); return r; }
    FERRY_M static dim3 dim_blocks() { dim3 r; asm("mov.u32 %0, %%cluster_nctaid.x; mov.u32 %1, %%cluster_nctaid.y; mov.u32 %2, %%cluster_nctaid.z;" : "=r"(r.x), "=r"(r.y), "=r"(r.z)); return r; }
    FERRY_M static dim3 thread_index() { dim3 b = block_index(); return {b.x * blockDim.x + threadIdx.x, b.y * blockDim.y + threadIdx.y, b.z * blockDim.z + threadIdx.z}; }
    FERRY_M static dim3 dim_threads() { dim3 n = dim_blocks(); return {n.x * blockDim.x, n.y * blockDim.y, n.z * blockDim.z}; }
    FERRY_M static unsigned thread_rank() { return block_rank() * thread_block::num_threads() + ferry_rank(); }
    FERRY_M static unsigned num_threads() { return num_blocks() * thread_block::num_threads(); }
    FERRY_M static unsigned size() { return num_threads(); }
    // map_shared_rank returns the address of a shared variable in another block of the cluster.
    template <class T> FERRY_M T *map_shared_rank(T *p, unsigned rank) const { T *r; asm("mapa.u64 %0, %1, %2;" : "=l"(r) : "l"(p), "r"(rank)); return r; }
    FERRY_M unsigned query_shared_rank(const void *p) const { unsigned r; asm("getctarank.u64 %0, %1;" : "=r"(r) : "l"(p)); return r; }
};
FERRY_D cluster_group this_cluster() { return cluster_group(); }
#endif
}
#endif
#endif
