// What exists from an architecture on: groups of lanes, matrices and copies to shared memory. Clang
// looks at kernels when it compiles the host's code, too, for which there is no architecture.
#include <cooperative_groups.h>
#include <cstdio>
#include <cuda_pipeline.h>
#include <mma.h>
namespace cg = cooperative_groups;
namespace wmma = nvcuda::wmma;

// sizes has those of the groups that lanes with the same remainder, and with the same parity, make.
__global__ void sizes(int *out) {
    auto all = cg::coalesced_threads();
    auto same = cg::labeled_partition(all, int(threadIdx.x) % 3);
    auto half = cg::binary_partition(cg::tiled_partition<32>(cg::this_thread_block()), threadIdx.x % 2 == 0);
    out[threadIdx.x] = 10000 * half.size() + 100 * same.size() + all.size();
}

// square multiplies a matrix with its transpose, and adds 1. It reads a copy in shared memory.
__global__ void square(const half *a, float *c) {
    alignas(16) __shared__ half copy[256];
    __pipeline_memcpy_async(copy + 8 * threadIdx.x, a + 8 * threadIdx.x, 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> z;
    wmma::fill_fragment(z, 1.f);
    wmma::load_matrix_sync(x, copy, 16);
    wmma::load_matrix_sync(y, copy, 16);
    wmma::mma_sync(z, x, y, z);
    wmma::store_matrix_sync(c, z, 16, wmma::mem_row_major);
}

int main() {
    int *n;
    half *a;
    float *c;
    cudaMallocManaged(&n, 32 * sizeof *n);
    cudaMallocManaged(&a, 256 * sizeof *a);
    cudaMallocManaged(&c, 256 * sizeof *c);
    for (int i = 0; i < 256; i++)
        a[i] = i % 5 - 2;
    sizes<<<1, 32>>>(n);
    square<<<1, 32>>>(a, c);
    if (cudaError_t e = cudaDeviceSynchronize())
        return std::printf("%s\n", cudaGetErrorString(e)), 1;
    int wrong = 0;
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) {
            float want = 1;
            for (int k = 0; k < 16; k++)
                want += float((16 * i + k) % 5 - 2) * float((16 * j + k) % 5 - 2);
            wrong += c[16 * i + j] != want;
        }
    std::printf("%d %d %d\n", n[0], n[2], wrong);
}
