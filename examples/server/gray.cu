// gray writes the brightness of n pixels. A pixel has a byte each for red, green and blue. The factors are multiples of
// 1/256, so the results are equal everywhere.
extern "C" __global__ void gray(int n, const unsigned char *rgb, unsigned char *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = (77 * rgb[3 * i] + 150 * rgb[3 * i + 1] + 29 * rgb[3 * i + 2] + 128) >> 8;
}
