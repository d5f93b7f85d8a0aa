// The peer of "ferry compare": the same steps in C++ with CUDA's runtime API, to compare Go
// with C++ in one run. It prints the same JSON keys.
//
//   nvcc -O2 -arch=native compare.cu -lcuda -o compare_c && ./compare_c 10 22

#include "../../../kernels/kernels.cu"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cuda.h>
#include <cuda_runtime.h>
#include <functional>
#include <vector>

#define OK(call)                                                                              \
    do {                                                                                      \
        auto e = (call);                                                                      \
        if (e != cudaSuccess) { fprintf(stderr, "%s: error %d\n", #call, (int)e); exit(1); } \
    } while (0)

static double now_ns()
{
    using namespace std::chrono;
    return duration<double, std::nano>(steady_clock::now().time_since_epoch()).count();
}

static unsigned state = 1;
static void fresh(float *x, size_t n)
{
    unsigned s = state += 0x9e3779b9u;
    for (size_t i = 0; i < n; i++) { s = s * 1664525u + 1013904223u; x[i] = (float)(s >> 10); }
}

struct Kind { const char *name; float *a, *b, *c; std::function<void()> step; std::vector<double> ns; };

int main(int argc, char **argv)
{
    int lo = argc > 1 ? atoi(argv[1]) : 10, hi = argc > 2 ? atoi(argv[2]) : 22;
    OK(cudaFree(0));
    int sms;
    OK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    cudaStream_t s;
    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    printf("{\"schema\":\"ferry.compare-peer/1\",\"rows\":[");
    for (int e = lo; e <= hi; e++) {
        size_t n = (size_t)1 << e, size = n * sizeof(float);
        unsigned grid = (unsigned)std::min<size_t>((n / 4 + 255) / 256, sms * 16);
        float *pa = (float *)malloc(size), *pb = (float *)malloc(size), *pc = (float *)malloc(size);
        float *ha, *hb, *hc, *wa, *wb, *ma, *mb, *mc, *da, *db, *dc;
        OK(cudaHostAlloc(&ha, size, cudaHostAllocMapped | cudaHostAllocPortable));
        OK(cudaHostAlloc(&hb, size, cudaHostAllocMapped | cudaHostAllocPortable));
        OK(cudaHostAlloc(&hc, size, cudaHostAllocMapped | cudaHostAllocPortable));
        OK(cudaHostAlloc(&wa, size, cudaHostAllocWriteCombined | cudaHostAllocPortable));
        OK(cudaHostAlloc(&wb, size, cudaHostAllocWriteCombined | cudaHostAllocPortable));
        OK(cudaMallocManaged(&ma, size)); OK(cudaMallocManaged(&mb, size)); OK(cudaMallocManaged(&mc, size));
        OK(cudaMalloc(&da, size)); OK(cudaMalloc(&db, size)); OK(cudaMalloc(&dc, size));
        auto launch = [&](float *a, float *b, float *c) { vector_add<<<grid, 256, 0, s>>>(a, b, c, n); };
        auto wait = [&] { OK(cudaStreamSynchronize(s)); };
        cudaMemLocation dev = {cudaMemLocationTypeDevice, 0}, host = {cudaMemLocationTypeHost, 0};
        volatile float sink;
        std::vector<Kind> kinds = {
            {"pageable_ns", pa, pb, pc, [&] {
                OK(cudaMemcpyAsync(da, pa, size, cudaMemcpyHostToDevice, s)); OK(cudaMemcpyAsync(db, pb, size, cudaMemcpyHostToDevice, s));
                launch(da, db, dc); OK(cudaMemcpyAsync(pc, dc, size, cudaMemcpyDeviceToHost, s)); wait(); }},
            {"pinned_ns", ha, hb, hc, [&] {
                OK(cudaMemcpyAsync(da, ha, size, cudaMemcpyHostToDevice, s)); OK(cudaMemcpyAsync(db, hb, size, cudaMemcpyHostToDevice, s));
                launch(da, db, dc); OK(cudaMemcpyAsync(hc, dc, size, cudaMemcpyDeviceToHost, s)); wait(); }},
            {"write_combined_ns", wa, wb, hc, [&] {
                OK(cudaMemcpyAsync(da, wa, size, cudaMemcpyHostToDevice, s)); OK(cudaMemcpyAsync(db, wb, size, cudaMemcpyHostToDevice, s));
                launch(da, db, dc); OK(cudaMemcpyAsync(hc, dc, size, cudaMemcpyDeviceToHost, s)); wait(); }},
            {"zero_copy_ns", ha, hb, hc, [&] { launch(ha, hb, hc); wait(); }},
            {"zero_copy_in_ns", ha, hb, hc, [&] {
                launch(ha, hb, dc); OK(cudaMemcpyAsync(hc, dc, size, cudaMemcpyDeviceToHost, s)); wait(); }},
            {"managed_ns", ma, mb, mc, [&] { launch(ma, mb, mc); wait(); for (size_t i = 0; i < n; i += 1024) sink = mc[i]; }},
            {"managed_prefetched_ns", ma, mb, mc, [&] {
                OK(cudaMemPrefetchAsync(ma, size, dev, 0, s)); OK(cudaMemPrefetchAsync(mb, size, dev, 0, s)); OK(cudaMemPrefetchAsync(mc, size, dev, 0, s));
                launch(ma, mb, mc); OK(cudaMemPrefetchAsync(mc, size, host, 0, s)); wait(); }},
            {"kernel_ns", nullptr, nullptr, nullptr, [&] { launch(da, db, dc); wait(); }},
        };
        int samples = e <= 20 ? 31 : e <= 24 ? 15 : 7;
        bool good = true;
        for (int i = -2; i < samples; i++)
            for (auto &k : kinds) {
                if (k.a) { fresh(k.a, n); fresh(k.b, n); for (size_t j = 0; j < n; j++) k.c[j] = -1; }
                OK(cudaDeviceSynchronize());
                double t = now_ns();
                k.step();
                t = now_ns() - t;
                if (i >= 0) k.ns.push_back(t);
                if (k.a && k.a != wa) for (size_t j = 0; j < n; j++) good &= k.c[j] == k.a[j] + k.b[j];
            }
        printf("%s\n {\"elements\":%zu", e > lo ? "," : "", n);
        for (auto &k : kinds) { std::sort(k.ns.begin(), k.ns.end()); printf(",\"%s\":%.0f", k.name, k.ns[k.ns.size() / 2]); }
        printf(",\"verified\":%s}", good ? "true" : "false");
        free(pa); free(pb); free(pc);
        for (float *p : {ha, hb, hc, wa, wb}) OK(cudaFreeHost(p));
        for (float *p : {ma, mb, mc, da, db, dc}) OK(cudaFree(p));
    }
    printf("\n]}\n");
}
