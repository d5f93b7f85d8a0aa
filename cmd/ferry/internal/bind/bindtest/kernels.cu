// Kernels for the tests of ferry bind. Each stores its arguments, or computes with them, in
// a way that a test can compare.
#include "shapes.h"

typedef unsigned long count_t;
#define KERNEL extern "C" __global__ void
#define BLUR(name, width) KERNEL name##width(const float *in, float *out, int n)

// saxpy adds a*x to y.
// Any grid works.
KERNEL saxpy(int n, float a, const float *__restrict__ x, float *__restrict__ y)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] += a * x[i];
}

/*
 * scalars stores one argument of each kind.
 */
extern "C" __global__ void scalars(bool flag, char small, unsigned char byte, short half_word, unsigned short word, int number, unsigned bits,
                                   long long wide, count_t count, double value, Mode mode, Scalars *out)
{
    out->flag = flag;
    out->small = small;
    out->byte = byte;
    out->half_word = half_word;
    out->word = word;
    out->number = number;
    out->bits = bits;
    out->wide = wide;
    out->count = count;
    out->value = value;
    out->mode = mode;
}

namespace image {

// filter moves the pixels of one image to another, and scales them.
__global__ void filter(Filter f, const float4 *from, float4 *to, float (*sums)[3])
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= f.size.width * f.size.height)
        return;
    float4 p = from[i];
    to[i] = make_float4(p.x * f.weights[0] + f.offset.x, p.y * f.weights[1] + f.offset.y, p.z * f.weights[2] + f.offset.z, p.w * (float)f.gain);
    sums[i][0] = p.x;
    sums[i][1] = p.y;
    sums[i][2] = f.enabled ? p.z : 0;
    f.histogram[i] = f.tag;
}

} // namespace image

template <class T, int Step> __global__ void scale(T *x, T by, unsigned n)
{
    for (unsigned i = threadIdx.x * Step; i < n; i += blockDim.x * Step)
        x[i] *= by;
}
template __global__ void scale<float, 1>(float *, float, unsigned);
template __global__ void scale<double, 2>(double *, double, unsigned);

// The next kernel comes from a macro.
BLUR(blur, 3)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i + 1 < n)
        out[i] = (in[i - 1] + in[i] + in[i + 1]) / 3;
}

KERNEL untyped(void *address, struct Hidden *hidden, Bits bits, int type, float q, unsigned *c)
{
    *(unsigned *)address = bits.low + type;
    c[0] = hidden == nullptr;
    c[1] = (unsigned)q;
}

KERNEL nothing() {}
