// driver_functions.h: makers of the structures that copies of rectangles and boxes take.
#ifndef FERRY_COMPAT_DRIVER_FUNCTIONS_H
#define FERRY_COMPAT_DRIVER_FUNCTIONS_H
#include "driver_types.h"
#if defined(FERRY_API) && defined(__cplusplus)
static inline cudaPitchedPtr make_cudaPitchedPtr(void *p, size_t pitch, size_t xsize, size_t ysize) { return {p, pitch, xsize, ysize}; }
static inline cudaPos make_cudaPos(size_t x, size_t y, size_t z) { return {x, y, z}; }
static inline cudaExtent make_cudaExtent(size_t width, size_t height, size_t depth) { return {width, height, depth}; }
#endif
#endif
