// What software.go does in place of cuFFT: the transform by its definition. There is a thread for
// each element of the result. Signals of n elements follow each other. roots has the n-th roots of 1
// with negative exponents, and sign is that of the direction.
extern "C" __global__ void dft(const float2 *in, float2 *out, const float2 *roots, int n, int batch, int sign)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= n * batch) return;
    int k = at % n, step = 0;
    const float2 *x = in + (at - k);
    float re = 0, im = 0;
    for (int j = 0; j < n; j++) {
        float c = roots[step].x, s = sign < 0 ? roots[step].y : -roots[step].y;
        re = fmaf(x[j].x, c, fmaf(-x[j].y, s, re));
        im = fmaf(x[j].x, s, fmaf(x[j].y, c, im));
        step += k;
        if (step >= n) step -= n;
    }
    out[at] = make_float2(re, im);
}
