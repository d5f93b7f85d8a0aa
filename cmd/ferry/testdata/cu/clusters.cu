// Clusters of blocks (compute capability 9.0): ranks, a barrier in two parts, and shared memory of the
// other blocks. The argument is the number of blocks of a cluster.
#include <cooperative_groups.h>
#include <cstdio>
#include <cstdlib>
namespace cg = cooperative_groups;

constexpr int threads = 64, blocks = 8, bins = 16;

// places tells where each thread is in its cluster.
__global__ void places(unsigned *out) {
    cg::cluster_group c = cg::this_cluster();
    unsigned *mine = out + 8 * (blockIdx.x * blockDim.x + threadIdx.x);
    mine[0] = c.block_rank(), mine[1] = c.num_blocks(), mine[2] = c.thread_rank(), mine[3] = c.num_threads();
    mine[4] = c.block_index().x, mine[5] = c.dim_blocks().x, mine[6] = c.thread_index().x, mine[7] = c.dim_threads().x;
}

// neighbours reads the shared memory of the next block in the cluster. The barrier's parts have other
// work between them.
__global__ void neighbours(int *out) {
    __shared__ int own[threads];
    cg::cluster_group c = cg::this_cluster();
    unsigned next = (c.block_rank() + 1) % c.num_blocks();
    own[threadIdx.x] = 1000 * blockIdx.x + threadIdx.x;
    auto token = c.barrier_arrive();
    int *theirs = c.map_shared_rank(own, next);
    bool right = c.query_shared_rank(theirs) == next && c.query_shared_rank(own) == c.block_rank();
    c.barrier_wait(static_cast<decltype(token) &&>(token));
    out[blockIdx.x * threads + threadIdx.x] = right ? theirs[threads - 1 - threadIdx.x] : -1;
    c.sync(); // nobody ends while others read
}

// histogram counts values in bins that lie in the shared memory of all blocks of the cluster.
__global__ void histogram(const int *values, int n, int *out) {
    __shared__ int part[bins];
    cg::cluster_group c = cg::this_cluster();
    if (threadIdx.x < bins)
        part[threadIdx.x] = 0;
    c.sync();
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < unsigned(n); i += gridDim.x * blockDim.x) {
        int bin = values[i] % (bins * c.num_blocks());
        atomicAdd(c.map_shared_rank(part, bin / bins) + bin % bins, 1);
    }
    c.sync();
    if (threadIdx.x < bins)
        atomicAdd(out + c.block_rank() * bins + threadIdx.x, part[threadIdx.x]);
}

#define CHECK(call) \
    do { \
        if (cudaError_t e = (call)) \
            return std::printf("%s: %s\n", #call, cudaGetErrorName(e)), 1; \
    } while (0)

static int failures;

static void want(const char *what, int at, int got, int wanted) {
    if (got != wanted && failures++ < 5)
        std::printf("%s %d: got %d, want %d\n", what, at, got, wanted);
}

int main(int argc, char **argv) {
    unsigned size = argc > 1 ? std::atoi(argv[1]) : 1;
    const int n = 10000;
    unsigned *where;
    int *read, *values, *counts;
    CHECK(cudaMallocManaged(&where, 8 * blocks * threads * sizeof *where));
    CHECK(cudaMallocManaged(&read, blocks * threads * sizeof *read));
    CHECK(cudaMallocManaged(&values, n * sizeof *values));
    CHECK(cudaMallocManaged(&counts, blocks * bins * sizeof *counts));
    for (int i = 0; i < n; i++)
        values[i] = (i * 7919u + 13) % 1009;
    for (int i = 0; i < blocks * bins; i++)
        counts[i] = 0;

    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = size, cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks, config.blockDim = threads;
    config.attrs = &cluster, config.numAttrs = 1;
    CHECK(cudaLaunchKernelEx(&config, places, where));
    CHECK(cudaLaunchKernelEx(&config, neighbours, read));
    CHECK(cudaLaunchKernelEx(&config, histogram, (const int *)values, n, counts));
    CHECK(cudaDeviceSynchronize());

    int expected[blocks * bins] = {};
    for (int i = 0; i < n; i++)
        expected[values[i] % (bins * size)]++;
    for (unsigned b = 0; b < blocks; b++)
        for (unsigned t = 0; t < threads; t++) {
            unsigned at = b * threads + t, rank = b % size, next = b - rank + (rank + 1) % size;
            unsigned wanted[] = {rank, size, rank * threads + t, size * threads, rank, size, rank * threads + t, size * threads};
            for (int i = 0; i < 8; i++)
                want("place", 8 * at + i, where[8 * at + i], wanted[i]);
            want("neighbour", at, read[at], 1000 * next + threads - 1 - t);
        }
    for (int i = 0; i < blocks * bins; i++)
        want("bin", i, counts[i], expected[i]);
    std::printf("clusters of %u blocks: %d wrong\n", size, failures);
    return failures != 0;
}
