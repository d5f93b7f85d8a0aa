// Kernels for the tests of package kerneltest. The first is right, the others are wrong in
// one way each.

extern "C" __global__ void scale(unsigned n, float a, const float *x, float *y)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i];
}

// Leaves out the last element.
extern "C" __global__ void scale_short(unsigned n, float a, const float *x, float *y)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i + 1 < n) y[i] = a * x[i];
}

// Has no bound, so that it works only if the grid has exactly n threads.
extern "C" __global__ void scale_unbounded(unsigned n, float a, const float *x, float *y)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = a * x[i];
}

// Reads the neighbour.
extern "C" __global__ void scale_shifted(unsigned n, float a, const float *x, float *y)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i ? i - 1 : 0];
}

// Writes its input.
extern "C" __global__ void scale_input(unsigned n, float a, float *x, float *y)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i];
    if (i == 3) x[i] = 7;
}

// Depends on the number of threads in a block.
extern "C" __global__ void scale_block(unsigned n, float a, const float *x, float *y)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = threadIdx.x < 64 ? a * x[i] : 0;
}

struct Plan {
    unsigned char kind;
    float factor;
    int offset[2];
};

// Takes a structure, and writes integers.
extern "C" __global__ void planned(Plan p, const int *x, int *y)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = (p.kind == 7 ? x[i] : 0) + p.offset[i % 2] * (int)p.factor;
}

struct Pair {
    float value;
    unsigned index;
};

// Writes pairs.
extern "C" __global__ void pairs(unsigned n, const float *x, Pair *y)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = Pair{x[i], i};
}

// Copies words of 16 bits, such as half-precision numbers.
extern "C" __global__ void copy16(unsigned n, const unsigned short *x, unsigned short *y)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
