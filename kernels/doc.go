// Package kernels has the kernels that Ferry ships, as PTX text. NVIDIA's drivers
// since CUDA 10 compile it for every GPU since Maxwell, and the software GPU runs it.
//
//	vector_add(const float *a, const float *b, float *c, uint64_t n)   c[i] = a[i] + b[i]
//	increment(float *x, uint64_t n)                                    x[i] += 1
//	copy(uint8_t *dst, const uint8_t *src, uint64_t n)                 dst[i] = src[i], n bytes
//	fill(uint32_t *x, uint32_t value, uint64_t n)                      x[i] = value, n words
//	gather(Ranges r, uint32_t blocks)                                  dst[k][i] = src[k][i] for up to 200 ranges k
//
// Each kernel works with any one-dimensional block. All but gather work with any grid;
// gather needs the given number of blocks for each range. A thread moves 16 bytes at
// a time where all addresses are multiples of 16. For n bytes GPU.GridStride of package
// ferry computes a good number of blocks: g.GridStride(n / 16).
//
// kernels.ptx is the output of nvcc 13.0 for kernels.cu. The ISA version and the
// target are lowered to what the instructions need. To make it again:
//
//	nvcc -arch=compute_75 -ptx kernels.cu -o - | sh lower.sh >kernels.ptx
package kernels
