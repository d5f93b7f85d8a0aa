#include <cuda_runtime.h>

#include "parts.h"

int version(void) {
    int v = 0;
    dim3 unused = {1, 1, 1};
    float4 also = make_float4(1, 2, 3, 4);
    (void)unused, (void)also;
    return cudaRuntimeGetVersion(&v) ? -1 : v;
}
