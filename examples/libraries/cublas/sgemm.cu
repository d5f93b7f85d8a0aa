// What software.go does in place of cuBLAS. Matrices are stored by columns: ld is from column to
// column. There is a thread for each element of c, which has m rows and n columns.

// The product of a and b, in the workspace, by columns without gaps.
extern "C" __global__ void product(const float *a, const float *b, float *workspace, int m, int n, int k, int lda, int ldb)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x, column = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || column >= n) return;
    float sum = 0;
    for (int i = 0; i < k; i++)
        sum = fmaf(a[row + (size_t)i * lda], b[i + (size_t)column * ldb], sum);
    workspace[row + (size_t)column * m] = sum;
}

// c = alpha * workspace + beta * c
extern "C" __global__ void combine(const float *workspace, float *c, int m, int n, int ldc, float alpha, float beta)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x, column = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || column >= n) return;
    float *at = &c[row + (size_t)column * ldc];
    *at = alpha * workspace[row + (size_t)column * m] + (beta == 0 ? 0 : beta * *at);
}
