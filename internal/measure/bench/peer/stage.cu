// The peer of bench.SpeedStage and bench.SpeedSizes, in C++. It copies pageable memory to the
// device and back with cuMemcpy, through a staging ring of its own with threads, and from
// page-locked memory. It answers requests, one per line, so that entrants can take turns:
//
//   request   METHOD DIRECTION BYTES    cuMemcpy in 1048576
//   answer    nanoseconds, or -1 with a reason
//
// The first line that it writes lists the methods as NAME, or as NAME:in and NAME:out for one
// direction, followed by <=BYTES if there is a limit. It checks the bytes after each request.
// Memory is on small pages. Like in Ferry's samples, several threads write parts of it before
// a request, so that it is in the caches of as many cores.
//
//   nvcc -O3 -std=c++20 -arch=native -Xcompiler -pthread stage.cu -lcuda -o stage_c

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <cuda.h>
#include <functional>
#include <immintrin.h>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

#define OK(call)                                                                              \
    do {                                                                                      \
        CUresult result_ = (call);                                                                  \
        if (result_ != CUDA_SUCCESS) { fprintf(stderr, "%s: error %d\n", #call, (int)result_); exit(1); } \
    } while (0)

static const size_t most = (size_t)1 << 30, chunk = (size_t)4 << 20;
static const int threads = 12, slots = 2; // threads that stage, and slots of each: the best values of a search
static const int most_threads = 16;

static double now_ns()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static char *memory()
{
    char *p = (char *)mmap(0, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(p, most, MADV_NOHUGEPAGE);
    memset(p, 1, most);
    return p;
}

// Workers, each with its own slots and stream: the usual way to stage.
struct Worker {
    CUstream stream;
    CUevent done[slots];
    char *ring;
};
static Worker workers[threads];
static std::function<void(int)> task;
static std::atomic<int> round_{0}, busy{0};

static void serve(CUcontext ctx, int number)
{
    OK(cuCtxSetCurrent(ctx));
    for (int seen = 0;; seen++) {
        round_.wait(seen);
        task(number);
        busy--;
    }
}

static void call(std::function<void(int)> f)
{
    task = f;
    busy = most_threads;
    round_++;
    round_.notify_all(); // one system call wakes all
}

static void together(std::function<void(int)> f)
{
    call(f);
    while (busy) std::this_thread::yield();
}

// parts calls f for ranges of n words concurrently: one range for each half MiB, at most one per thread.
static void parts(size_t n, std::function<void(size_t, size_t)> f)
{
    int parts = (int)std::min<size_t>(most_threads, n / 65536 + 1);
    if (parts == 1) return f(0, n);
    together([&](int i) {
        if (i < parts) f(n / parts * i, i + 1 == parts ? n : n / parts * (i + 1));
    });
}

static uint64_t word(size_t i, uint64_t seed) { return ((uint64_t)i ^ seed << 40) * 0x9e3779b97f4a7c15ull; }

static void fresh(char *p, size_t n, uint64_t seed)
{
    parts(n / 8, [=](size_t first, size_t end) {
        for (size_t i = first; i < end; i++) { uint64_t x = word(i, seed); memcpy(p + 8 * i, &x, 8); }
    });
    for (size_t i = n & ~(size_t)7; i < n; i++) p[i] = (char)(word(i, seed) >> 56);
}

static bool same(const char *p, size_t n, uint64_t seed)
{
    std::atomic<bool> differ{false};
    parts(n / 8, [&](size_t first, size_t end) {
        for (size_t i = first; i < end; i++) {
            uint64_t x;
            memcpy(&x, p + 8 * i, 8);
            if (x != word(i, seed)) { differ = true; return; }
        }
    });
    for (size_t i = n & ~(size_t)7; i < n; i++) if (p[i] != (char)(word(i, seed) >> 56)) return false;
    return !differ;
}

static void clear(char *p, size_t n)
{
    parts(n / 8, [=](size_t first, size_t end) { memset(p + 8 * first, 0xee, 8 * (end - first)); });
    memset(p + (n & ~(size_t)7), 0xee, n & 7);
}

static void staged(bool in, CUdeviceptr dev, char *host, size_t n)
{
    std::atomic<size_t> next{0};
    together([&](int number) {
        if (number >= threads) return;
        Worker &w = workers[number];
        struct { size_t off, n; } under[slots] = {};
        auto drain = [&](int s) {
            OK(cuEventSynchronize(w.done[s]));
            if (!in && under[s].n) memcpy(host + under[s].off, w.ring + s * chunk, under[s].n);
            under[s].n = 0;
        };
        for (int i = 0;; i++) {
            int s = i % slots;
            drain(s);
            size_t off = next.fetch_add(chunk);
            if (off >= n) break;
            size_t k = std::min(chunk, n - off);
            char *slot = w.ring + s * chunk;
            if (in) {
                memcpy(slot, host + off, k);
                OK(cuMemcpyHtoDAsync(dev + off, slot, k, w.stream));
            } else {
                OK(cuMemcpyDtoHAsync(slot, dev + off, k, w.stream));
            }
            OK(cuEventRecord(w.done[s], w.stream));
            under[s] = {off, k};
        }
        for (int s = 0; s < slots; s++) drain(s);
    });
}

// A ring like Ferry's, to find the best speed of such a ring. Threads fill a few slots
// together. They write the last bytes past the caches. The main thread only submits full slots
// to the copy engine. The constants are the best values of a search. With spin, the threads
// are awake before the clock starts.
struct Chunk {
    size_t off, n, first; // first is the number of its first block
    std::atomic<bool> open;
    std::atomic<long> left; // blocks
};
static const size_t ring_slot = (size_t)8 << 20, ring_block = (size_t)128 << 10, ring_end = (size_t)24 << 20;
static const int ring_slots = 4;
static char *ring;
static CUevent ring_done[ring_slots];
static Chunk chunks[most / ring_slot + 16];

static void past(char *to, const char *from, size_t n)
{
    for (size_t i = 0; i < n; i += 64)
        for (size_t k = i; k < i + 64; k += 16)
            _mm_stream_si128((__m128i *)(to + k), _mm_loadu_si128((const __m128i *)(from + k)));
    _mm_sfence();
}

static int cut(size_t n)
{
    int count = 0;
    size_t blocks = 0;
    for (size_t off = 0; off < n; count++) {
        Chunk &p = chunks[count];
        size_t size = std::max(off, std::min(n / 8, ring_slot / 2));
        size = std::max((size + ring_block - 1) / ring_block, (size_t)1) * ring_block;
        p.off = off, p.n = std::min(std::min(size, ring_slot), n - off), p.first = blocks, p.open = false;
        p.left = (p.n + ring_block - 1) / ring_block;
        off += p.n;
        blocks += p.left;
    }
    return count;
}

static double ring_in(CUdeviceptr dev, const char *host, size_t n, CUstream stream, bool spin)
{
    int count = cut(n), opened = 0, sent = 0, freed = 0;
    std::atomic<size_t> next{0};
    std::atomic<bool> go{!spin};
    std::atomic<int> there{0};
    double begin = now_ns();
    call([&](int number) {
        if (number >= threads) return;
        there++;
        while (!go) _mm_pause();
        for (int i = 0;;) {
            size_t block = next++;
            while (i < count && block >= chunks[i].first + (chunks[i].n + ring_block - 1) / ring_block) i++;
            if (i == count) return;
            Chunk &p = chunks[i];
            while (!p.open) _mm_pause();
            size_t at = (block - p.first) * ring_block, k = std::min(ring_block, p.n - at);
            char *to = ring + i % ring_slots * ring_slot + at;
            if (p.off + at + ring_end >= n && k % 64 == 0) past(to, host + p.off + at, k);
            else memcpy(to, host + p.off + at, k);
            p.left--;
        }
    });
    if (spin) {
        while (there < threads) _mm_pause();
        begin = now_ns();
        go = true;
    }
    OK(cuEventRecord(ring_done[0], stream)); // the first call is slow
    while (sent < count) {
        if (opened < count && opened < freed + ring_slots) chunks[opened++].open = true;
        if (sent < opened && chunks[sent].left == 0) {
            Chunk &p = chunks[sent];
            int slot = sent++ % ring_slots;
            OK(cuMemcpyHtoDAsync(dev + p.off, ring + slot * ring_slot, p.n, stream));
            OK(cuEventRecord(ring_done[slot], stream));
        }
        if (freed < sent && cuEventQuery(ring_done[freed % ring_slots]) == CUDA_SUCCESS) freed++;
        _mm_pause();
    }
    OK(cuStreamSynchronize(stream));
    double took = now_ns() - begin;
    while (busy) std::this_thread::yield();
    return took;
}

int main()
{
    CUdevice device;
    CUcontext ctx;
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxRetain(&ctx, device));
    OK(cuCtxSetCurrent(ctx));
    CUdeviceptr dev;
    OK(cuMemAlloc(&dev, most));
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    char *plain = memory(), *locked;
    OK(cuMemHostAlloc((void **)&locked, most, CU_MEMHOSTALLOC_PORTABLE));
    for (auto &w : workers) {
        OK(cuStreamCreate(&w.stream, CU_STREAM_NON_BLOCKING));
        OK(cuMemHostAlloc((void **)&w.ring, slots * chunk, CU_MEMHOSTALLOC_PORTABLE));
        for (auto &event : w.done) OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    }
    ring = (char *)aligned_alloc((size_t)2 << 20, ring_slots * ring_slot);
    madvise(ring, ring_slots * ring_slot, MADV_HUGEPAGE);
    memset(ring, 1, ring_slots * ring_slot);
    OK(cuMemHostRegister(ring, ring_slots * ring_slot, CU_MEMHOSTREGISTER_PORTABLE));
    for (auto &event : ring_done) OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < most_threads; i++) std::thread(serve, ctx, i).detach();
    printf("cuMemcpy threads ring:in ring-spinning:in pinned\n");
    fflush(stdout);
    char method[32], direction[8];
    size_t n;
    for (uint64_t seed = 1; scanf("%31s %7s %zu", method, direction, &n) == 3; seed++) {
        bool in = !strcmp(direction, "in");
        std::string how = method;
        char *host = how == "pinned" ? locked : plain;
        if (in) {
            fresh(host, n, seed);
            OK(cuMemsetD8(dev, 0xee, n));
        } else {
            fresh(locked, n, seed);
            OK(cuMemcpyHtoD(dev, locked, n));
            clear(host, n);
        }
        OK(cuCtxSynchronize());
        double begin = now_ns(), ringed = 0;
        if (how == "ring" || how == "ring-spinning") ringed = ring_in(dev, host, n, stream, how != "ring");
        else if (how == "threads") staged(in, dev, host, n);
        else if (how == "pinned" && in) { OK(cuMemcpyHtoDAsync(dev, host, n, stream)); OK(cuStreamSynchronize(stream)); }
        else if (how == "pinned") { OK(cuMemcpyDtoHAsync(host, dev, n, stream)); OK(cuStreamSynchronize(stream)); }
        else if (in) OK(cuMemcpyHtoD(dev, host, n));
        else OK(cuMemcpyDtoH(host, dev, n));
        if (in && how == "cuMemcpy") OK(cuStreamSynchronize(0));
        double took = ringed ? ringed : now_ns() - begin;
        if (in) {
            clear(host, n);
            host = locked; // page-locked memory is faster; it does not have the bytes of this request yet
            OK(cuMemcpyDtoH(host, dev, n));
        }
        if (!same(host, n, seed)) printf("-1 the bytes differ\n");
        else printf("%.0f\n", took);
        fflush(stdout);
    }
    _exit(0);
}
