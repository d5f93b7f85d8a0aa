// Which copies of pageable memory return before the bytes have arrived, or before the
// source is read? Made for a machine with CUDA 13:
//
//   nvcc -O2 -std=c++17 -arch=native pageable.cu -o pageable -lcuda && ./pageable >pageable-h200.txt
//
// For each call and size: fill the destination with 1s, synchronize, copy 7s, launch at once
// a kernel on a non-blocking stream that looks for 1s, and fill the source with 9s. "old
// tail" and "old head" count the tries in which the last or the first 4 KiB had 1s. "source
// read late" counts those in which 9s were copied. The last part looks from the host.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
#include <chrono>
#include <cuda.h>
#include <cuda_runtime.h>
#define OK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { printf("%s:%d %s: %s\n", __FILE__, __LINE__, #x, cudaGetErrorString(e_)); exit(1); } } while (0)

// out[0] |= old in the last 4 KiB, out[1] |= old in the first 4 KiB, out[2] += old words of all (one block each 256 words)
__global__ void tail(const volatile unsigned *p, size_t words, unsigned old, unsigned *out) {
  size_t i = words < 1024 ? threadIdx.x : words - 1024 + threadIdx.x;
  if (i < words && p[i] == old) atomicOr(&out[0], 1u);
  if (threadIdx.x < words && p[threadIdx.x] == old) atomicOr(&out[1], 1u);
}
__global__ void whole(const volatile unsigned *p, size_t words, unsigned old, unsigned *out) {
  for (size_t i = words - 1 - (blockIdx.x * (size_t)blockDim.x + threadIdx.x); i < words; i -= (size_t)gridDim.x * blockDim.x)
    if (p[i] == old) atomicAdd(&out[2], 1u);
}
__global__ void spin(long long cycles) { long long t = clock64(); while (clock64() - t < cycles) {} }
__device__ unsigned symbol[1 << 21]; // 8 MiB

static cudaStream_t other, own, blocking;
static unsigned *out, *dev, *dev2, *man; static char *page, *pin, *reg;
static const size_t MAX = 32u << 20;
typedef void (*Copy)(size_t n);
struct Form { const char *name; Copy copy; unsigned *dst; char *src; size_t max; };

static void f_memcpy(size_t n) { OK(cudaMemcpy(dev, page, n, cudaMemcpyHostToDevice)); }
static void f_default(size_t n) { OK(cudaMemcpy(dev, page, n, cudaMemcpyDefault)); }
static void f_async_legacy(size_t n) { OK(cudaMemcpyAsync(dev, page, n, cudaMemcpyHostToDevice, cudaStreamLegacy)); }
static void f_async_pt(size_t n) { OK(cudaMemcpyAsync(dev, page, n, cudaMemcpyHostToDevice, cudaStreamPerThread)); }
static void f_async_nb(size_t n) { OK(cudaMemcpyAsync(dev, page, n, cudaMemcpyHostToDevice, own)); }
static void f_async_busy(size_t n) { spin<<<1, 1, 0, own>>>(200000); OK(cudaMemcpyAsync(dev, page, n, cudaMemcpyHostToDevice, own)); }
static void f_2d(size_t n) { OK(cudaMemcpy2D(dev, 1024, page, 1024, 1024, n / 1024, cudaMemcpyHostToDevice)); }
static void f_2d_gap(size_t n) { OK(cudaMemcpy2D(dev, 1024, page, 2048, 1024, n / 1024, cudaMemcpyHostToDevice)); }
static void f_2d_async(size_t n) { OK(cudaMemcpy2DAsync(dev, 1024, page, 1024, 1024, n / 1024, cudaMemcpyHostToDevice, own)); }
static void f_3d(size_t n) {
  cudaMemcpy3DParms p = {}; p.srcPtr = make_cudaPitchedPtr(page, 1024, 1024, 8); p.dstPtr = make_cudaPitchedPtr(dev, 1024, 1024, 8);
  p.extent = make_cudaExtent(1024, 8, n / 8192); p.kind = cudaMemcpyHostToDevice; OK(cudaMemcpy3D(&p));
}
static void f_symbol(size_t n) { OK(cudaMemcpyToSymbol(symbol, page, n)); }
static void f_pinned(size_t n) { OK(cudaMemcpy(dev, pin, n, cudaMemcpyHostToDevice)); }
static void f_registered(size_t n) { OK(cudaMemcpy(dev, reg, n, cudaMemcpyHostToDevice)); }
static void f_from_managed(size_t n) { OK(cudaMemcpy(dev, man, n, cudaMemcpyDefault)); }
static void f_to_managed(size_t n) { OK(cudaMemcpy(man, page, n, cudaMemcpyDefault)); }
static void f_d2d(size_t n) { OK(cudaMemcpy(dev, dev2, n, cudaMemcpyDeviceToDevice)); }
static void f_memset(size_t n) { OK(cudaMemset(dev, 7, n)); }
static void f_driver(size_t n) { if (cuMemcpyHtoD((CUdeviceptr)dev, page, n)) exit(2); }
static void batch(size_t n, CUmemcpySrcAccessOrder order) {
  size_t half = n / 2; CUdeviceptr d[2] = {(CUdeviceptr)dev, (CUdeviceptr)dev + half}, s[2] = {(CUdeviceptr)page, (CUdeviceptr)page + half}; size_t z[2] = {half, n - half}, ix = 0;
  CUmemcpyAttributes a = {}; a.srcAccessOrder = order;
  if (cuMemcpyBatchAsync(d, s, z, 2, &a, &ix, 1, own)) exit(3);
}
static void f_batch_stream(size_t n) { batch(n, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM); }
static void f_batch_call(size_t n) { batch(n, CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL); }
static void f_batch_behind(size_t n) { spin<<<1, 1, 0, own>>>(200000); batch(n, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM); }

static void run(Form f) {
  for (size_t n : {size_t(4) << 10, size_t(64) << 10, size_t(96) << 10, size_t(128) << 10, size_t(192) << 10, size_t(256) << 10, size_t(512) << 10, size_t(1) << 20, size_t(4) << 20, MAX}) {
    if (n > f.max || f.copy == f_3d && n < 8192) continue;
    size_t span = f.copy == f_2d_gap ? 2 * n : n;
    int tries = n >= MAX ? 20 : 60, last = 0, first = 0, late = 0; unsigned most = 0;
    for (int i = 0; i < tries; i++) {
      if (f.src) memset(f.src, 7, span);
      if (f.copy == f_from_managed) OK(cudaMemPrefetchAsync(man, MAX, cudaMemLocation{cudaMemLocationTypeHost, 0}, 0, 0));
      OK(cudaMemset(f.dst, 1, n)); memset(out, 0, 16); OK(cudaDeviceSynchronize());
      f.copy(n);
      // on odd tries the kernel looks through the whole buffer, on even ones at both ends
      if (i % 2) whole<<<132, 1024, 0, other>>>(f.dst, n / 4, 0x01010101u, out); else tail<<<1, 1024, 0, other>>>(f.dst, n / 4, 0x01010101u, out);
      if (f.src && f.copy != f_from_managed && f.src == page) memset(page, 9, span);
      OK(cudaStreamSynchronize(other));
      last += out[0]; first += out[1]; if (out[2] > most) most = out[2];
      OK(cudaDeviceSynchronize());
      static unsigned char back[32u << 20]; OK(cudaMemcpy(back, f.dst, n, cudaMemcpyDefault)); late += memchr(back, 9, n) != nullptr;
    }
    printf("%-34s %8zu KiB  old tail %2d, old head %2d of %d   most old bytes %9zu   source read late %2d of %d\n", f.name, n >> 10, last, first, tries / 2, size_t(most) * 4, late, tries);
  }
}

// D2H: does the host see the bytes when the call returns?
static void d2h(const char *name, char *dst, int how) {
  for (size_t n : {size_t(64) << 10, size_t(256) << 10, size_t(1) << 20, MAX}) {
    int old = 0;
    for (int i = 0; i < 30; i++) {
      memset(dst, 1, n); OK(cudaMemset(dev, 7, n)); OK(cudaDeviceSynchronize());
      if (how == 2) {
        CUdeviceptr d[2] = {(CUdeviceptr)dst, (CUdeviceptr)dst + n / 2}, s[2] = {(CUdeviceptr)dev, (CUdeviceptr)dev + n / 2}; size_t z[2] = {n / 2, n / 2}, ix = 0;
        CUmemcpyAttributes a = {}; a.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM; if (cuMemcpyBatchAsync(d, s, z, 2, &a, &ix, 1, own)) exit(3);
      } else if (how == 1) OK(cudaMemcpyAsync(dst, dev, n, cudaMemcpyDeviceToHost, own)); else OK(cudaMemcpy(dst, dev, n, cudaMemcpyDeviceToHost));
      old += dst[n - 1] != 7 || dst[0] != 7;
      OK(cudaDeviceSynchronize());
    }
    printf("%-34s %8zu KiB  host sees old bytes %2d of 30\n", name, n >> 10, old);
  }
}

int main() {
  OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking)); OK(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
  OK(cudaStreamCreate(&blocking));
  OK(cudaHostAlloc(&out, 4096, cudaHostAllocMapped)); OK(cudaMalloc(&dev, MAX)); OK(cudaMalloc(&dev2, MAX)); OK(cudaMemset(dev2, 7, MAX));
  OK(cudaMallocManaged(&man, MAX)); OK(cudaMallocHost(&pin, MAX));
  page = (char *)aligned_alloc(4096, 2 * MAX + 4096); reg = (char *)aligned_alloc(4096, MAX); memset(page, 7, 2 * MAX); memset(reg, 7, MAX);
  OK(cudaHostRegister(reg, MAX, 0)); unsigned *sym; OK(cudaGetSymbolAddress((void **)&sym, symbol));
  tail<<<1, 1024, 0, other>>>(dev, 1024, 0, out); whole<<<132, 1024, 0, other>>>(dev, 1024, 0, out); OK(cudaDeviceSynchronize());
  cudaDeviceProp p; int drv; OK(cudaGetDeviceProperties(&p, 0)); OK(cudaDriverGetVersion(&drv)); printf("%s, driver CUDA %d, runtime %d\n", p.name, drv, CUDART_VERSION);
  std::vector<Form> forms = {
    {"cudaMemcpy HostToDevice", f_memcpy, dev, page, MAX}, {"cudaMemcpy Default", f_default, dev, page, MAX}, {"cuMemcpyHtoD", f_driver, dev, page, MAX},
    {"cudaMemcpyAsync legacy", f_async_legacy, dev, page, MAX}, {"cudaMemcpyAsync per-thread", f_async_pt, dev, page, MAX},
    {"cudaMemcpyAsync non-blocking", f_async_nb, dev, page, MAX}, {"cudaMemcpyAsync behind a kernel", f_async_busy, dev, page, MAX},
    {"cudaMemcpy2D dense", f_2d, dev, page, MAX}, {"cudaMemcpy2D source with gaps", f_2d_gap, dev, page, MAX}, {"cudaMemcpy2DAsync dense", f_2d_async, dev, page, MAX},
    {"cudaMemcpy3D", f_3d, dev, page, MAX}, {"cudaMemcpyToSymbol", f_symbol, sym, page, 8u << 20},
    {"cuMemcpyBatchAsync, stream order", f_batch_stream, dev, page, MAX}, {"cuMemcpyBatchAsync, during call", f_batch_call, dev, page, MAX},
    {"cuMemcpyBatchAsync behind a kernel", f_batch_behind, dev, page, MAX},
    {"cudaMemcpy from page-locked", f_pinned, dev, pin, MAX}, {"cudaMemcpy from registered", f_registered, dev, reg, MAX},
    {"cudaMemcpy from managed", f_from_managed, dev, (char *)man, MAX}, {"cudaMemcpy to managed", f_to_managed, man, page, MAX},
    {"cudaMemcpy DeviceToDevice", f_d2d, dev, nullptr, MAX}, {"cudaMemset", f_memset, dev, nullptr, MAX}};
  auto began = std::chrono::steady_clock::now();
  for (auto &f : forms) {
    if (std::chrono::steady_clock::now() - began > std::chrono::seconds(50)) { printf("%s: not run, no time\n", f.name); continue; }
    run(f);
  }
  d2h("cudaMemcpy D2H pageable", page, 0); d2h("cudaMemcpyAsync D2H pageable", page, 1); d2h("cuMemcpyBatchAsync D2H pageable", page, 2); d2h("cudaMemcpy D2H page-locked", pin, 0);
  d2h("cudaMemcpy D2H registered", reg, 0); d2h("cudaMemcpyAsync D2H page-locked", pin, 1);
  // managed destination: does the host see the new bytes at once?
  for (size_t n : {size_t(256) << 10, size_t(4) << 20}) {
    int old = 0;
    for (int i = 0; i < 30; i++) { memset(page, 7, n); OK(cudaMemset(man, 1, n)); OK(cudaDeviceSynchronize()); OK(cudaMemcpy(man, page, n, cudaMemcpyDefault)); old += ((volatile char *)man)[n - 1] != 7; }
    printf("host reads managed after cudaMemcpy %6zu KiB: old %d of 30\n", n >> 10, old);
  }
  return 0;
}
