// The peer of package bench for copies, kernels on host memory, prefetches and several GPUs: the same
// operations in C++, with the driver's own calls.
//
//   nvcc -O3 -std=c++17 -arch=native -Xcompiler -pthread -o link_c link.cu -lcuda     (CUDA 13)
//   ./link_c 1073741824
//
// The argument is the size of its buffers in bytes. Each line on standard input has a name and arguments.
// For each line it takes one sample and prints the nanoseconds of its figures. Before a sample it writes a
// new word into each page of the source and poisons the destination. After the sample it compares every
// byte. A difference ends the program.
#include <cuda.h>
#include <pthread.h>
#include <unistd.h>
#include <time.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#define OK(call) do { CUresult result_ = (call); if (result_) { fprintf(stderr, "%s: error %d\n", #call, result_); exit(1); } } while (0)

using bytes = size_t;
using figures = std::vector<double>;

static bytes size_of_buffers;
static CUdevice dev;
static CUcontext ctx;
static CUstream s, t;
static char *a, *b;         // source and destination on the host
static CUdeviceptr d, e;    // destination and source on the device
static uint32_t turn;

static CUdeviceptr address(const void *p) { return (CUdeviceptr)p; }    // one address space
static double now() { timespec x; clock_gettime(CLOCK_MONOTONIC, &x); return x.tv_sec * 1e9 + x.tv_nsec; }
static void wait() { OK(cuStreamSynchronize(s)); OK(cuStreamSynchronize(t)); }

static double timed(const std::function<void()> &f)
{
    wait();
    double begin = now();
    f();
    return now() - begin;
}

// Words are floats with small integers, so that sums are exact.
static float word(uint32_t i) { return (float)((i * 2654435761u + turn * 0x85ebca6bu) >> 9); }

static void stamp(char *p, bytes n)
{
    turn++;
    for (bytes i = 0; i < n / 4; i += 1024) ((float *)p)[i] = word(i);
}

static void poison(CUdeviceptr p, bytes n) { OK(cuMemsetD8Async(p, 0xee, n, s)); }

// in_parts checks n elements with threads on all processors, like Ferry's samples. The data is then in the
// caches of all processors.
static void in_parts(bytes n, const std::function<bool(bytes, bytes)> &right)
{
    std::vector<std::thread> all;
    const bytes parts = std::thread::hardware_concurrency();
    for (bytes i = 0; i < parts; i++) all.emplace_back([&, i] {
        if (!right(n * i / parts, n * (i + 1) / parts)) { fprintf(stderr, "turn %u: wrong data\n", turn); _exit(1); }
    });
    for (auto &x : all) x.join();
}

static void same(const char *got, const char *want, bytes n)
{
    if (n < 1 << 22 && !memcmp(got, want, n)) return;
    in_parts(n, [=](bytes first, bytes end) { return !memcmp(got + first, want + first, end - first); });
}

static char *host(bytes n)
{
    void *p;
    OK(cuMemHostAlloc(&p, n, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
    return (char *)p;
}

static char *source(bytes n)
{
    char *p = host(n);
    for (bytes i = 0; i < n / 4; i++) ((float *)p)[i] = word(i);
    return p;
}

// fresh stamps a, copies it to e, and poisons b and d.
static void fresh(bytes n)
{
    stamp(a, n);
    OK(cuMemcpyHtoDAsync(e, a, n, s));
    poison(d, n); poison(address(b), n);
    wait();
}

// check compares b, or device memory, with a.
static void check(bytes n) { same(b, a, n); }
static void check(CUdeviceptr p, bytes n)
{
    poison(address(b), n);
    OK(cuMemcpyDtoHAsync(b, p, n, s)); wait();
    check(n);
}

static figures copy(bytes n)
{
    fresh(n);
    double in = timed([&] { OK(cuMemcpyHtoDAsync(d, a, n, s)); OK(cuStreamSynchronize(s)); });
    double out = timed([&] { OK(cuMemcpyDtoHAsync(b, d, n, s)); OK(cuStreamSynchronize(s)); });
    check(n);
    return {in, out};
}

static figures both(bytes n)
{
    fresh(n);
    double took = timed([&] { OK(cuMemcpyHtoDAsync(d, a, n, s)); OK(cuMemcpyDtoHAsync(b, e, n, t)); wait(); });
    check(n); check(d, n);
    return {took};
}

template <int U> __global__ void move(uint4 *to, const uint4 *from, bytes n)
{
    bytes stride = gridDim.x * (bytes)blockDim.x;
    for (bytes i = blockIdx.x * (bytes)blockDim.x + threadIdx.x; i < n; i += U * stride) {
        uint4 v[U];
#pragma unroll
        for (int k = 0; k < U; k++) if (i + k * stride < n) v[k] = from[i + k * stride];
#pragma unroll
        for (int k = 0; k < U; k++) if (i + k * stride < n) to[i + k * stride] = v[k];
    }
}

template <int U> __global__ void sum(const float4 *x, const float4 *y, float4 *z, bytes n)
{
    bytes stride = gridDim.x * (bytes)blockDim.x;
    for (bytes i = blockIdx.x * (bytes)blockDim.x + threadIdx.x; i < n; i += U * stride) {
        float4 v[U], w[U];
#pragma unroll
        for (int k = 0; k < U; k++) if (i + k * stride < n) { v[k] = x[i + k * stride]; w[k] = y[i + k * stride]; }
#pragma unroll
        for (int k = 0; k < U; k++) if (i + k * stride < n) z[i + k * stride] = make_float4(v[k].x + w[k].x, v[k].y + w[k].y, v[k].z + w[k].z, v[k].w + w[k].w);
    }
}

// shape is the shape of a launch: blocks per multiprocessor, threads per block, vectors that a thread loads at once.
struct shape { int blocks, threads, unroll; };
static int processors;

static void move_by(shape x, CUdeviceptr to, CUdeviceptr from, bytes n)
{
    auto f = x.unroll == 1 ? move<1> : x.unroll == 2 ? move<2> : move<4>;
    f<<<x.blocks * processors, x.threads, 0, s>>>((uint4 *)to, (const uint4 *)from, n / 16);
}

static void sum_by(shape x, CUdeviceptr p, CUdeviceptr q, CUdeviceptr r, bytes n)
{
    auto f = x.unroll == 1 ? sum<1> : x.unroll == 2 ? sum<2> : sum<4>;
    f<<<x.blocks * processors, x.threads, 0, s>>>((const float4 *)p, (const float4 *)q, (float4 *)r, n / 16);
}

// best returns the fastest shape for a kernel. It searches once for each name.
static shape best(const std::string &name, const std::function<void(shape)> &launch)
{
    static std::map<std::string, shape> found;
    if (found.count(name)) return found[name];
    double least = 1e18;
    for (int threads : {256, 512, 1024}) for (int blocks = 1; blocks * threads <= 2048; blocks *= 2) for (int unroll : {1, 2, 4})
        for (int i = 0; i < 3; i++) {
            shape x = {blocks, threads, unroll};
            double took = timed([&] { launch(x); OK(cuStreamSynchronize(s)); });
            if (took < least) { least = took; found[name] = x; }
        }
    shape x = found[name];
    fprintf(stderr, "peer: %s: %d blocks per multiprocessor, %d threads, %d vectors at once\n", name.c_str(), x.blocks, x.threads, x.unroll);
    return x;
}

static figures kernel(const std::string &name, const std::function<void(shape)> &launch, bytes n)
{
    shape x = best(name, launch);
    fresh(n);
    return {timed([&] { launch(x); OK(cuStreamSynchronize(s)); })};
}

static figures kernel_read(bytes n)
{
    figures f = kernel("read", [&](shape x) { move_by(x, d, address(a), n); }, n);
    check(d, n);
    return f;
}

static figures kernel_write(bytes n)
{
    figures f = kernel("write", [&](shape x) { move_by(x, address(b), e, n); }, n);
    check(n);
    return f;
}

// kernel_sum adds the halves of a into b, both in host memory.
static figures kernel_sum(bytes n)
{
    figures f = kernel("sum", [&](shape x) { sum_by(x, address(a), address(a) + n / 2, address(b), n / 2); }, n);
    const float *x = (float *)a, *y = (float *)(a + n / 2), *z = (float *)b;
    in_parts(n / 8, [=](bytes first, bytes end) {
        for (bytes i = first; i < end; i++) if (z[i] != x[i] + y[i]) return false;
        return true;
    });
    return f;
}

__global__ void increment(float *x, bytes n)
{
    for (bytes i = blockIdx.x * (bytes)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (bytes)blockDim.x) x[i] += 1;
}

static figures prefetch(bytes n)
{
    static float *m;
    static int passed;
    if (!m) {
        OK(cuMemAllocManaged((CUdeviceptr *)&m, n, CU_MEM_ATTACH_GLOBAL));
        for (bytes i = 0; i < n / 4; i++) m[i] = i & 0xffff;
    }
    CUmemLocation there = {}, here = {};
    there.type = CU_MEM_LOCATION_TYPE_DEVICE; there.id = dev;
    here.type = CU_MEM_LOCATION_TYPE_HOST;
    double in = timed([&] { OK(cuMemPrefetchAsync(address(m), n, there, 0, s)); OK(cuStreamSynchronize(s)); });
    increment<<<8 * processors, 256, 0, s>>>(m, n / 4);
    double out = timed([&] { OK(cuMemPrefetchAsync(address(m), n, here, 0, s)); OK(cuStreamSynchronize(s)); });
    passed++;
    in_parts(n / 4, [](bytes first, bytes end) {
        for (bytes i = first; i < end; i++) if (m[i] != (i & 0xffff) + passed) return false;
        return true;
    });
    return {in, out};
}

// many makes many copies of equal size, with gaps of the same size, by a loop of calls or by one call.
static figures many(bool in, bool batch, int count, bytes each)
{
    std::vector<CUdeviceptr> to(count), from(count);
    std::vector<size_t> sizes(count, each);
    for (int i = 0; i < count; i++) {
        bytes at = 2 * i * each;
        to[i] = in ? d + at : address(b) + at;
        from[i] = in ? address(a) + at : e + at;
    }
    bytes all = 2 * count * each;
    fresh(all);
    CUmemcpyAttributes how = {};
    how.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    size_t first = 0;
    double took = timed([&] {
        if (batch) OK(cuMemcpyBatchAsync(to.data(), from.data(), sizes.data(), count, &how, &first, 1, s));
        else for (int i = 0; i < count; i++) {
            if (in) OK(cuMemcpyHtoDAsync(to[i], (void *)from[i], each, s));
            else OK(cuMemcpyDtoHAsync((void *)to[i], from[i], each, s));
        }
        OK(cuStreamSynchronize(s));
    });
    if (in) { poison(address(b), all); OK(cuMemcpyDtoHAsync(b, d, all, s)); wait(); }
    for (int i = 0; i < count; i++) same(b + 2 * i * each, a + 2 * i * each, each);
    return {took};
}

// small_during_large times a small copy from its submission to its end, while a large copy is in flight in
// another stream.
static figures small_during_large(bool in, bytes large, bytes small)
{
    bytes all = large + small;
    fresh(all);
    if (in) OK(cuMemcpyHtoDAsync(d, a, large, s)); else OK(cuMemcpyDtoHAsync(b, e, large, s));
    double begin = now();
    if (in) OK(cuMemcpyHtoDAsync(d + large, a + large, small, t)); else OK(cuMemcpyDtoHAsync(b + large, e + large, small, t));
    OK(cuStreamSynchronize(t));
    double took = now() - begin;
    wait();
    if (in) check(d, all); else check(all);
    return {took};
}

// threads returns the time for each copy of 4 KiB when count threads submit copies, each to its own stream.
static figures threads(int count, int copies)
{
    static std::vector<CUstream> streams;
    while ((int)streams.size() < count) { CUstream x; OK(cuStreamCreate(&x, CU_STREAM_NON_BLOCKING)); streams.push_back(x); }
    const bytes each = 4096;
    fresh(count * each);
    pthread_barrier_t ready;
    pthread_barrier_init(&ready, 0, count + 1);
    std::vector<std::thread> all;
    for (int i = 0; i < count; i++) all.emplace_back([&, i] {
        OK(cuCtxSetCurrent(ctx));
        pthread_barrier_wait(&ready);
        for (int k = 0; k < copies; k++) OK(cuMemcpyHtoDAsync(d + i * each, a + i * each, each, streams[i]));
        OK(cuStreamSynchronize(streams[i]));
    });
    double took = timed([&] { pthread_barrier_wait(&ready); for (auto &x : all) x.join(); });
    pthread_barrier_destroy(&ready);
    check(d, count * each);
    return {took / count / copies};
}

// second is the other GPU.
static struct { CUcontext ctx; CUstream s; CUdeviceptr d; char *a, *b; } second;

static void on_second(const std::function<void()> &f) { OK(cuCtxSetCurrent(second.ctx)); f(); OK(cuCtxSetCurrent(ctx)); }

static void open_second()
{
    if (second.ctx) return;
    CUdevice other;
    OK(cuDeviceGet(&other, 1)); OK(cuDevicePrimaryCtxRetain(&second.ctx, other));
    second.a = source(size_of_buffers); second.b = host(size_of_buffers);
    on_second([] { OK(cuStreamCreate(&second.s, CU_STREAM_NON_BLOCKING)); OK(cuMemAlloc(&second.d, size_of_buffers)); OK(cuCtxEnablePeerAccess(ctx, 0)); });
    OK(cuCtxEnablePeerAccess(second.ctx, 0));
}

static void wait_second() { on_second([] { OK(cuStreamSynchronize(second.s)); }); }

static void check_second(CUdeviceptr p, const char *want, bytes n)
{
    memset(second.b, 0xee, n);
    on_second([&] { OK(cuMemcpyDtoHAsync(second.b, p, n, second.s)); });
    wait_second();
    same(second.b, want, n);
}

// two_in copies to both GPUs at once, from one buffer for each or from one for both.
static figures two_in(bytes n, bool one)
{
    open_second();
    fresh(n); stamp(second.a, n);
    char *from = one ? a : second.a;
    on_second([&] { OK(cuMemsetD8Async(second.d, 0xee, n, second.s)); });
    wait_second();
    double took = timed([&] {
        OK(cuMemcpyHtoDAsync(d, a, n, s));
        on_second([&] { OK(cuMemcpyHtoDAsync(second.d, from, n, second.s)); });
        OK(cuStreamSynchronize(s)); wait_second();
    });
    check(d, n); check_second(second.d, from, n);
    return {took};
}

// two_out copies from both GPUs at once.
static figures two_out(bytes n)
{
    open_second();
    fresh(n); stamp(second.a, n);
    on_second([&] { OK(cuMemcpyHtoDAsync(second.d, second.a, n, second.s)); });
    wait_second();
    memset(second.b, 0xee, n);
    double took = timed([&] {
        OK(cuMemcpyDtoHAsync(b, e, n, s));
        on_second([&] { OK(cuMemcpyDtoHAsync(second.b, second.d, n, second.s)); });
        OK(cuStreamSynchronize(s)); wait_second();
    });
    check(n); same(second.b, second.a, n);
    return {took};
}

// peer copies from the first GPU to the second.
static figures peer(bytes n)
{
    open_second();
    fresh(n);
    on_second([&] { OK(cuMemsetD8Async(second.d, 0xee, n, second.s)); });
    wait_second();
    double took = timed([&] { OK(cuMemcpyPeerAsync(second.d, second.ctx, e, ctx, n, s)); OK(cuStreamSynchronize(s)); });
    check_second(second.d, a, n);
    return {took};
}

template <class T> static T next() { T x; if (!(std::cin >> x)) { fprintf(stderr, "an argument is missing\n"); exit(1); } return x; }

static figures sample(const std::string &what)
{
    auto said = [](const char *x) { return next<std::string>() == x; };
    if (what == "copy") return copy(next<bytes>());
    if (what == "both") return both(next<bytes>());
    if (what == "read") return kernel_read(next<bytes>());
    if (what == "write") return kernel_write(next<bytes>());
    if (what == "sum") return kernel_sum(next<bytes>());
    if (what == "prefetch") return prefetch(next<bytes>());
    if (what == "many") { bool in = said("in"), batch = said("batch"); int n = next<int>(); return many(in, batch, n, next<bytes>()); }
    if (what == "small_during_large") { bool in = said("in"); bytes n = next<bytes>(); return small_during_large(in, n, next<bytes>()); }
    if (what == "threads") { int n = next<int>(); return threads(n, next<int>()); }
    if (what == "two_in") { bytes n = next<bytes>(); return two_in(n, said("one")); }
    if (what == "two_out") return two_out(next<bytes>());
    if (what == "peer") return peer(next<bytes>());
    fprintf(stderr, "%s: no such sample\n", what.c_str());
    exit(1);
}

int main(int argc, char **argv)
{
    size_of_buffers = argc > 1 ? strtoull(argv[1], 0, 10) : 512 << 20;
    OK(cuInit(0)); OK(cuDeviceGet(&dev, 0)); OK(cuDevicePrimaryCtxRetain(&ctx, dev)); OK(cuCtxSetCurrent(ctx));
    OK(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, dev));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING)); OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&d, size_of_buffers)); OK(cuMemAlloc(&e, size_of_buffers));
    a = source(size_of_buffers); b = host(size_of_buffers);
    std::string what;
    while (std::cin >> what) {
        for (double ns : sample(what)) printf("%.1f ", ns);
        printf("\n");
        fflush(stdout);
    }
}
