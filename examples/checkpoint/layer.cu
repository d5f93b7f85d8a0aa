// One layer of a network.

// layer writes y = max(0, w * x + b), for a matrix w of m rows and n columns. Thread i has row i.
extern "C" __global__ void layer(const float *w, const float *b, const float *x, float *y, int m, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m)
        return;
    float sum = b[i];
    for (int k = 0; k < n; k++)
        sum = fmaf(w[(long long)i * n + k], x[k], sum);
    y[i] = fmaxf(sum, 0);
}
