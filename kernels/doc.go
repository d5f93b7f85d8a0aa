// Package kernels holds the kernels that Ferry ships, as PTX text that any
// driver compiles: NVIDIA's from CUDA 10 on, for every GPU since Maxwell, and
// the software GPU.
//
//	vector_add(const float *a, const float *b, float *c, uint64_t n)   c[i] = a[i] + b[i]
//	increment(float *x, uint64_t n)                                    x[i] += 1
//	copy(uint8_t *dst, const uint8_t *src, uint64_t n)                 dst[i] = src[i], n bytes
//	fill(uint32_t *x, uint32_t value, uint64_t n)                      x[i] = value, n words
//	gather(Ranges r, uint32_t blocks)                                  dst[k][i] = src[k][i] for up to 200 ranges k
//
// Each is right for any one-dimensional block and, but for gather, which wants
// blocks for each range, for any grid, and moves 16 bytes
// a thread at a time where all its addresses are multiples of 16. The right number
// of blocks is that of GPU.Grid in package ferry: of n bytes g.Grid(n / 16).
//
// kernels.ptx is what nvcc 13.0 made of kernels.cu, with the ISA version and
// the target lowered to what the instructions need. To make it again:
//
//	nvcc -arch=compute_75 -ptx kernels.cu -o - | sh lower.sh >kernels.ptx
package kernels
