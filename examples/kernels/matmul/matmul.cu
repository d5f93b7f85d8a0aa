// c = a * b for row-major matrices: a has m rows and k columns, b k rows and n columns.
// A block of 16x16 threads computes a tile of 16x16 elements of c, from tiles of a and b
// that it copies to shared memory. Each element that is copied is used 16 times.
#define TILE 16

extern "C" __global__ void matmul(int m, int n, int k, const float *a, const float *b, float *c)
{
    __shared__ float as[TILE][TILE], bs[TILE][TILE];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * TILE + ty, column = blockIdx.x * TILE + tx;
    float sum = 0;
    for (int at = 0; at < k; at += TILE) {
        as[ty][tx] = row < m && at + tx < k ? a[row * k + at + tx] : 0.0f;
        bs[ty][tx] = at + ty < k && column < n ? b[(at + ty) * n + column] : 0.0f;
        __syncthreads(); // both tiles are complete
        for (int i = 0; i < TILE; i++)
            sum = fmaf(as[ty][i], bs[i][tx], sum);
        __syncthreads(); // nobody needs the tiles any more
    }
    if (row < m && column < n) c[row * n + column] = sum;
}
