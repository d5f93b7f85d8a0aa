// The peer of internal/measure/bench/load in C++. It answers requests, one per line, so that entrants
// can take turns; that program's request.go has the form of both. The methods:
//
//   ring         several threads read blocks of 32 MiB into two page-locked buffers with pread, in turns;
//                each block is copied to the device, and an event says when its buffer is free.
//                The time begins before the buffers are page-locked.
//   ring-kept    the same with buffers that are page-locked already
//   ring-direct  ring with O_DIRECT
//   mmap         the file is mapped, and cudaMemcpy copies each tensor; PATH.list has their places
//   cufile       the threads read straight to the device with cuFileRead, which goes through memory of
//                the library where disks cannot write to the GPU; only in a program built with -DCUFILE
//   disk         the same threads read with O_DIRECT into memory of their own, without a GPU
//
// The data is the end of the file, and keeps its order on the device. To each of two GPUs goes one
// half, by a ring of its own (each), or all, read once (all). After the time is taken, the bytes on
// the device are compared with the file: whole, or in 64 ranges.
//
//   nvcc -O3 -std=c++20 -Xcompiler -pthread -o load_c load.cu
//   nvcc -O3 -std=c++20 -Xcompiler -pthread -DCUFILE -o load_c load.cu -lcufile

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <cuda_runtime.h>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>
#ifdef CUFILE
#include <cufile.h>
#endif

#define OK(call)                                                                                     \
    do {                                                                                             \
        cudaError_t result_ = (call);                                                                \
        if (result_ != cudaSuccess) { fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(result_)); exit(1); } \
    } while (0)
#define SYS(call)                                                       \
    do {                                                                \
        if ((call) < 0) { perror(#call); exit(1); }                     \
    } while (0)

static const size_t block = (size_t)32 << 20, piece = (size_t)1 << 20, page = 4096;
static const size_t direct_piece = (size_t)4 << 20; // of reads with O_DIRECT

static double now_ns()
{
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

struct Request {
    char method[32], gpus[8], check[8], path[4096];
    size_t data, bytes;
};

// A share is a range of the file and the devices that get it.
struct Share {
    size_t off, bytes;
    std::vector<int> gpus;
    std::vector<char *> to;
};

static int threads() { return std::clamp((int)std::thread::hardware_concurrency(), 1, 16); }

// read_all reads n bytes, or up to the end of the file. A direct read that ends within a page has
// reached it, and the next one would not be aligned.
static void read_all(int fd, char *to, size_t n, size_t off, bool direct = false)
{
    while (n > 0) {
        ssize_t got = pread(fd, to, n, off);
        SYS(got);
        if (got == 0 || (direct && got % page)) return;
        to += got, off += got, n -= got;
    }
}

// Readers are threads that fill blocks together, in order. A block may be filled once it is open.
struct Readers {
    int fd;
    size_t begin, end, step;           // the range of the file, and what a thread reads at once
    char *buffers[2];
    std::atomic<size_t> next{0};       // piece
    std::atomic<size_t> open{0};       // blocks that may be filled
    std::vector<std::atomic<long>> left; // pieces of each block that are not read yet
    std::vector<std::thread> all;

    size_t blocks() const { return (end - begin + block - 1) / block; }
    size_t size(size_t b) const { return std::min(block, end - begin - b * block); }

    Readers(int fd, size_t begin, size_t end, size_t step, char *one, char *two, int n)
        : fd(fd), begin(begin), end(end), step(step), buffers{one, two}, left((end - begin + block - 1) / block)
    {
        for (size_t b = 0; b < blocks(); b++) left[b] = (size(b) + step - 1) / step;
        for (int i = 0; i < n; i++) all.emplace_back([this] { work(); });
    }
    void work()
    {
        size_t each = block / step;
        for (;;) {
            size_t p = next++, b = p / each, at = p % each * step;
            if (b >= blocks()) return;
            if (at >= size(b)) continue;
            for (size_t seen; (seen = open) <= b;) open.wait(seen);
            size_t n = std::min(step, size(b) - at);
            if (step == direct_piece) n = (n + page - 1) / page * page;
            read_all(fd, buffers[b % 2] + at, n, begin + b * block + at, step == direct_piece);
            if (--left[b] == 0) left[b].notify_all();
        }
    }
    void allow(size_t blocks) { open = blocks; open.notify_all(); }
    void await(size_t b) { for (long n; (n = left[b]) > 0;) left[b].wait(n); }
    ~Readers() { for (auto &t : all) t.join(); }
};

// Ring has two page-locked buffers.
struct Ring {
    char *buffers[2];
    Ring() { for (auto &b : buffers) OK(cudaHostAlloc((void **)&b, block + page, cudaHostAllocPortable)); }
    ~Ring() { for (auto b : buffers) OK(cudaFreeHost(b)); }
};

// load moves a share through a ring.
static void load(const Request &r, const Share &s, Ring &ring, bool direct, int readers)
{
    int fd = open(r.path, O_RDONLY | O_CLOEXEC | (direct ? O_DIRECT : 0));
    SYS(fd);
    size_t begin = direct ? s.off / page * page : s.off, end = s.off + s.bytes;
    std::vector<cudaStream_t> streams(s.gpus.size());
    std::vector<cudaEvent_t> done(2 * s.gpus.size());
    for (size_t g = 0; g < s.gpus.size(); g++) {
        OK(cudaSetDevice(s.gpus[g]));
        OK(cudaStreamCreateWithFlags(&streams[g], cudaStreamNonBlocking));
        for (int i = 0; i < 2; i++) OK(cudaEventCreateWithFlags(&done[2 * g + i], cudaEventDisableTiming));
    }
    {
        Readers file(fd, begin, end, direct ? direct_piece : piece, ring.buffers[0], ring.buffers[1], readers);
        file.allow(2);
        for (size_t b = 0; b < file.blocks(); b++) {
            file.await(b);
            size_t from = begin + b * block, skip = from < s.off ? s.off - from : 0;
            for (size_t g = 0; g < s.gpus.size(); g++) {
                OK(cudaSetDevice(s.gpus[g]));
                OK(cudaMemcpyAsync(s.to[g] + (from + skip - s.off), ring.buffers[b % 2] + skip, file.size(b) - skip,
                                   cudaMemcpyHostToDevice, streams[g]));
                OK(cudaEventRecord(done[2 * g + b % 2], streams[g]));
            }
            if (b == 0) continue;
            for (size_t g = 0; g < s.gpus.size(); g++) OK(cudaEventSynchronize(done[2 * g + (b - 1) % 2]));
            file.allow(b + 2);
        }
    }
    for (size_t g = 0; g < s.gpus.size(); g++) {
        OK(cudaSetDevice(s.gpus[g]));
        OK(cudaStreamSynchronize(streams[g]));
        OK(cudaStreamDestroy(streams[g]));
        for (int i = 0; i < 2; i++) OK(cudaEventDestroy(done[2 * g + i]));
    }
    close(fd);
}

// mapped copies each tensor of a mapped file.
static void mapped(const Request &r, const Share &s)
{
    int fd = open(r.path, O_RDONLY | O_CLOEXEC);
    SYS(fd);
    char *m = (char *)mmap(0, r.data + r.bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (m == MAP_FAILED) { perror("mmap"); exit(1); }
    FILE *list = fopen((std::string(r.path) + ".list").c_str(), "r");
    if (!list) { perror("the list of tensors"); exit(1); }
    OK(cudaSetDevice(s.gpus[0]));
    size_t off, n;
    while (fscanf(list, "%zu %zu", &off, &n) == 2)
        OK(cudaMemcpy(s.to[0] + (off - s.off), m + off, n, cudaMemcpyHostToDevice));
    OK(cudaDeviceSynchronize());
    fclose(list);
    munmap(m, r.data + r.bytes);
    close(fd);
}

// straight reads a share by cuFile, in pieces that begin at pages of the file.
static bool straight(const Request &r, const Share &s)
{
#ifdef CUFILE
    static const bool opened = cuFileDriverOpen().err == CU_FILE_SUCCESS;
    int fd = open(r.path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (!opened || fd < 0) return false;
    CUfileDescr_t file = {};
    file.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD, file.handle.fd = fd;
    CUfileHandle_t handle;
    if (cuFileHandleRegister(&handle, &file).err != CU_FILE_SUCCESS) return false;
    std::atomic<bool> ok{true};
    std::atomic<size_t> next{s.off / block};
    std::vector<std::thread> all;
    for (int i = 0; i < threads(); i++)
        all.emplace_back([&] {
            OK(cudaSetDevice(s.gpus[0]));
            for (size_t b; (b = next++) * block < s.off + s.bytes;) {
                size_t from = std::max(b * block, s.off), to = std::min((b + 1) * block, s.off + s.bytes);
                for (ssize_t got; from < to; from += got)
                    if ((got = cuFileRead(handle, s.to[0], to - from, from, from - s.off)) <= 0) { ok = false; return; }
            }
        });
    for (auto &t : all) t.join();
    cuFileHandleDeregister(handle);
    close(fd);
    return ok;
#else
    (void)r, (void)s;
    return false;
#endif
}

// disk reads the file with O_DIRECT, and does not keep it.
static void disk(const Request &r)
{
    int fd = open(r.path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    SYS(fd);
    size_t begin = r.data / page * page, end = r.data + r.bytes;
    std::atomic<size_t> next{begin};
    std::vector<std::thread> all;
    for (int i = 0; i < threads(); i++)
        all.emplace_back([&] {
            char *to = (char *)aligned_alloc(page, direct_piece);
            for (size_t off; (off = next.fetch_add(direct_piece)) < end;)
                read_all(fd, to, (std::min(direct_piece, end - off) + page - 1) / page * page, off, true);
            free(to);
        });
    for (auto &t : all) t.join();
    close(fd);
}

static std::vector<Share> shares(const Request &r)
{
    size_t half = r.bytes / 2 / page * page;
    if (!strcmp(r.gpus, "each")) return {{r.data, half, {0}, {}}, {r.data + half, r.bytes - half, {1}, {}}};
    if (!strcmp(r.gpus, "all")) return {{r.data, r.bytes, {0, 1}, {}}};
    return {{r.data, r.bytes, {0}, {}}};
}

// same compares memory of a device with the file, whole or in 64 ranges, by several threads.
static bool same(const Request &r, const Share &s)
{
    const size_t most = 8 << 20;
    const bool whole = !strcmp(r.check, "whole");
    const size_t times = whole ? (s.bytes + most - 1) / most : 64;
    int fd = open(r.path, O_RDONLY | O_CLOEXEC);
    SYS(fd);
    std::vector<std::pair<size_t, size_t>> ranges;
    for (size_t i = 0; i < times; i++) {
        size_t from = whole ? i * most : ((size_t)rand() << 16 ^ rand()) % s.bytes;
        ranges.emplace_back(from, std::min(whole ? most : (size_t)rand() % (1 << 20), s.bytes - from));
    }
    std::atomic<bool> ok{true};
    std::atomic<size_t> next{0};
    std::vector<std::thread> all;
    for (int t = 0; t < threads(); t++)
        all.emplace_back([&] {
            std::vector<char> got(most), want(most);
            for (size_t i; (i = next++) < times * s.gpus.size();) {
                auto [from, n] = ranges[i % times];
                OK(cudaSetDevice(s.gpus[i / times]));
                OK(cudaMemcpy(got.data(), s.to[i / times] + from, n, cudaMemcpyDeviceToHost));
                read_all(fd, want.data(), n, s.off + from);
                if (memcmp(got.data(), want.data(), n)) ok = false;
            }
        });
    for (auto &t : all) t.join();
    close(fd);
    return ok;
}

static void answer(const Request &r)
{
    static Ring *kept[2];
    std::string how = r.method;
    std::vector<Share> all = shares(r);
    if (how == "ring-kept")
        for (size_t i = 0; i < all.size(); i++) if (!kept[i]) kept[i] = new Ring;
    double begin = now_ns();
    if (how == "disk") {
        disk(r);
        printf("%.0f\n", now_ns() - begin);
        return;
    }
    std::vector<std::thread> loaders;
    std::atomic<bool> ok{true};
    for (size_t i = 0; i < all.size(); i++) {
        Share &s = all[i];
        for (int g : s.gpus) {
            char *d;
            OK(cudaSetDevice(g));
            OK(cudaMalloc((void **)&d, s.bytes));
            s.to.push_back(d);
        }
        loaders.emplace_back([&, i] {
            if (how == "mmap") return mapped(r, s);
            if (how == "cufile") { if (!straight(r, s)) ok = false; return; }
            Ring *ring = how == "ring-kept" ? kept[i] : new Ring;
            load(r, s, *ring, how == "ring-direct", threads());
            if (how != "ring-kept") delete ring;
        });
    }
    for (auto &t : loaders) t.join();
    double took = now_ns() - begin;
    const bool moved = ok;
    for (auto &s : all) {
        ok = ok && same(r, s);
        for (size_t g = 0; g < s.to.size(); g++) { OK(cudaSetDevice(s.gpus[g])); OK(cudaFree(s.to[g])); }
    }
    if (!moved) printf("-1 cuFile refuses the file, or is not built in\n");
    else if (!ok) printf("-1 the bytes of the device differ from the file's\n");
    else if (how == "mmap" || how == "cufile") printf("%.0f\n", took);
    else printf("%.0f pinned=%zu\n", took, 2 * (block + page) * all.size());
}

int main()
{
    int n;
    OK(cudaGetDeviceCount(&n));
    for (int i = 0; i < n; i++) { OK(cudaSetDevice(i)); OK(cudaFree(0)); }
    srand(time(0));
    printf("ready\n");
    fflush(stdout);
    Request r;
    while (scanf("%31s %7s %7s %zu %zu %4095[^\n]", r.method, r.gpus, r.check, &r.data, &r.bytes, r.path) == 6) {
        const std::string how = r.method;
        if (how != "ring" && how != "ring-kept" && how != "ring-direct" && how != "mmap" && how != "disk" &&
            how != "cufile")
            printf("-1 there is no method %s\n", r.method);
        else if (strcmp(r.gpus, "one") && n < 2) printf("-1 there is one GPU\n");
        else answer(r);
        fflush(stdout);
    }
    return 0;
}
