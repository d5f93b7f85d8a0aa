// Types of kernels.cu.
#pragma once

enum Mode : unsigned char { fast, exact = 7 };

struct Scalars {
    bool flag;
    char small;
    unsigned char byte;
    short half_word;
    unsigned short word;
    int number;
    unsigned bits;
    long long wide;
    unsigned long count;
    double value;
    Mode mode;
};

namespace image {

struct Size {
    unsigned width, height;
};

typedef struct {
    float x, y, z;
} Offset;

// Filter has fields of all kinds.
struct Filter {
    Size size;
    bool enabled;
    alignas(16) float weights[3];
    Offset offset;
    double gain;
    unsigned *histogram;
    unsigned char tag;

    __device__ float sum() const { return weights[0] + weights[1] + weights[2]; }
};

} // namespace image
using image::Filter;

// Bits cannot be a Go structure.
struct Bits {
    unsigned low : 4, high : 28;
};
