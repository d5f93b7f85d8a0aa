// Measures forms of a pipeline: copy in, short kernel, copy out, of 1 GiB each way. The limit is
// the time of copies in both directions at once without a kernel. The forms run in turns. The
// CPU writes all data before each sample and compares every element after it.
//
//   g++ -std=c++20 -O2 -o pipe_forms pipe_forms.cc -ldl -pthread
//   ./pipe_forms ../work.ptx ../../kernels/kernels.ptx
//
// It prints for each form the median, the ratio to the limit, the smallest and the largest
// time; then the times of events: the end of the copies in, of the first copy out, and of all;
// then how much the CPU copies while the engines copy.
#include <dlfcn.h>
#include <immintrin.h>
#include <sys/mman.h>
#include <time.h>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

// The driver API is loaded by name, so that this builds without CUDA.
typedef int CUresult, CUdevice;
typedef void *CUcontext, *CUstream, *CUevent, *CUmodule, *CUfunction, *CUgraph, *CUgraphExec;
typedef unsigned long long CUdeviceptr;
struct Attributes { int order, hint[4]; unsigned flags; };
#define CALLS \
    F(cuInit, (unsigned)) F(cuDeviceGet, (CUdevice *, int)) F(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice)) F(cuCtxSetCurrent, (CUcontext)) \
    F(cuModuleLoadData, (CUmodule *, const void *)) F(cuModuleGetFunction, (CUfunction *, CUmodule, const char *)) F(cuMemAlloc_v2, (CUdeviceptr *, size_t)) \
    F(cuMemHostRegister_v2, (void *, size_t, unsigned)) F(cuStreamCreateWithPriority, (CUstream *, unsigned, int)) F(cuCtxSynchronize, (void)) \
    F(cuEventCreate, (CUevent *, unsigned)) F(cuEventRecord, (CUevent, CUstream)) F(cuEventQuery, (CUevent)) F(cuEventElapsedTime, (float *, CUevent, CUevent)) \
    F(cuStreamWaitEvent, (CUstream, CUevent, unsigned)) F(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream)) \
    F(cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream)) F(cuMemsetD32_v2, (CUdeviceptr, unsigned, size_t)) \
    F(cuLaunchKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **)) \
    F(cuStreamWaitValue32_v2, (CUstream, CUdeviceptr, unsigned, unsigned)) F(cuStreamWriteValue32_v2, (CUstream, CUdeviceptr, unsigned, unsigned)) \
    F(cuMemcpyBatchAsync, (CUdeviceptr *, CUdeviceptr *, size_t *, size_t, Attributes *, size_t *, size_t, size_t *, CUstream)) \
    F(cuStreamBeginCapture_v2, (CUstream, int)) F(cuStreamEndCapture, (CUstream, CUgraph *)) \
    F(cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long)) F(cuGraphLaunch, (CUgraphExec, CUstream))
#define F(name, arguments) static CUresult (*name) arguments;
CALLS
#undef F
#define OK(call) do { CUresult result_ = (call); if (result_) { fprintf(stderr, "%s: error %d\n", #call, result_); exit(1); } } while (0)

static const size_t MiB = 1 << 20, N = 1024 * MiB;
static const CUresult notReady = 600;
static unsigned cores, turn;
static CUstream in[2], out[2], step[4], urgent;
static CUevent came[1024], computed[1024], left[1024], marks[4];
static CUfunction work, copyKernel;
static float *hin, *hout;
static CUdeviceptr din, dout, flags;

static double now() { timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
static CUdeviceptr from(size_t at) { return (CUdeviceptr)hin + at; }
static CUdeviceptr to(size_t at) { return (CUdeviceptr)hout + at; }

static void parallel(size_t n, const std::function<void(size_t, size_t)> &f)
{
    std::vector<std::thread> all;
    for (unsigned w = 0; w < cores; w++) all.emplace_back([&, w] { f(n / cores * w, w + 1 == cores ? n : n / cores * (w + 1)); });
    for (auto &t : all) t.join();
}

static void fresh()
{
    turn++;
    parallel(N / 4, [](size_t a, size_t b) { for (size_t i = a; i < b; i++) hin[i] = (float)((i + turn) % 1009), hout[i] = -1; });
}

static size_t wrong()
{
    std::atomic<size_t> sum{0};
    parallel(N / 4, [&](size_t a, size_t b) { size_t w = 0; for (size_t i = a; i < b; i++) w += hout[i] != hin[i] + 1; sum += w; });
    return sum;
}

static void launch(CUdeviceptr o, CUdeviceptr i, size_t bytes, CUstream q, unsigned grid = 0, unsigned threads = 256)
{
    unsigned long long n = bytes / 4; unsigned rounds = 1;
    void *arguments[] = {&o, &i, &n, &rounds};
    OK(cuLaunchKernel(work, grid ? grid : (n / 4 + threads - 1) / threads, 1, 1, threads, 1, 1, 0, q, arguments, 0));
}

static void copyByKernel(CUdeviceptr o, CUdeviceptr i, size_t bytes, CUstream q, unsigned grid)
{
    unsigned long long n = bytes;
    void *arguments[] = {&o, &i, &n};
    OK(cuLaunchKernel(copyKernel, grid, 1, 1, 128, 1, 1, 0, q, arguments, 0));
}

static void batch(std::vector<CUdeviceptr> d, std::vector<CUdeviceptr> s, std::vector<size_t> n, CUstream q)
{
    Attributes a{}; a.order = 1; // stream order
    size_t first = 0, failed = 0;
    OK(cuMemcpyBatchAsync(d.data(), s.data(), n.data(), n.size(), &a, &first, 1, &failed, q));
}

// The lengths of chunks.
typedef std::vector<size_t> Lengths;
static Lengths cut(const std::function<double(double)> &f) // f(MiB before the chunk) is its length in MiB
{
    Lengths all;
    for (size_t at = 0; at < N; at += all.back()) {
        size_t n = std::min((size_t)(f((double)at / MiB) * 16) * (MiB / 16), N - at);
        all.push_back(N - at - n < MiB ? N - at : n);
    }
    return all;
}
static Lengths equal(double c) { return cut([=](double) { return c; }); }
static Lengths root(double least, double k, double most, double last = 1e9)
{
    return cut([=](double at) { return std::min(std::max(least, std::min(k * sqrt(at), most)), std::max(last, k * sqrt(1024 - at))); });
}
static Lengths line(double least, double k, double most) { return cut([=](double at) { return std::min(least + k * at, most); }); }

enum Way { engine, twoStreams, oneBatch, kernel, everyOther, zeroCopy };
enum Sync { events, values, byHost, allReady, none };

struct Form {
    Lengths chunks;
    Way in = engine, out = engine;
    Sync sync = events;
    size_t depth = 0;      // chunks in flight; 0 is all
    bool gpuWaits = false; // the GPU waits for a slot, not the CPU
    bool marks = false;    // record an event after each copy out, although nothing waits for it
    int streams = 3;       // streams for kernels
    bool urgent = false;   // copies out have a higher priority
    unsigned grid = 0, threads = 256; // launch of kernels on host memory
    unsigned copyGrid = 132;
    bool trace = false;
};

static void pipeline(const Form &f)
{
    Lengths at; size_t sum = 0;
    for (size_t n : f.chunks) at.push_back(sum), sum += n;
    size_t n = at.size(), queued = 0, next = 0, outs = 0, gone = 0;
    if (f.trace) OK(cuEventRecord(marks[0], in[0]));
    auto goOut = [&](size_t k, size_t end) { // chunks k to end
        size_t bytes = (end == n ? N : at[end]) - at[k];
        CUstream q = f.urgent ? urgent : out[f.out == twoStreams ? k % 2 : 0];
        bool byKernel = f.out == kernel || (f.out == everyOther && k % 2);
        if (byKernel) q = urgent;
        if (f.sync == events) OK(cuStreamWaitEvent(q, computed[k], 0));
        if (f.sync == values) OK(cuStreamWaitValue32_v2(q, flags + 8192 + 4 * k, turn, 1));
        if (byKernel) copyByKernel(to(at[k]), dout + at[k], bytes, q, f.copyGrid);
        else if (f.out == oneBatch) batch({to(at[k])}, {dout + at[k]}, {bytes}, q);
        else OK(cuMemcpyDtoHAsync_v2((void *)to(at[k]), dout + at[k], bytes, q));
        if (f.depth || f.marks || f.sync == allReady) OK(cuEventRecord(left[outs++], q));
        if (f.trace && k == 0) OK(cuEventRecord(marks[2], q));
    };
    auto ready = [&](bool wait) { // submits the copies out of computed chunks
        do {
            size_t k = next;
            if (f.sync == allReady) {
                while (gone < outs && cuEventQuery(left[gone]) != notReady) gone++;
                if (outs - gone >= 2) continue;
            }
            while (k < queued && (f.sync == allReady || k == next) && cuEventQuery(computed[k]) != notReady) k++;
            if (k > next) goOut(next, k), next = k;
        } while (wait && next < n);
    };
    for (size_t k = 0; k < n; k++) {
        if (f.depth && k >= f.depth) {
            if (f.gpuWaits) OK(cuStreamWaitEvent(in[0], left[k - f.depth], 0));
            else while (cuEventQuery(left[k - f.depth]) == notReady) if (f.sync == byHost) ready(false);
        }
        CUstream q = step[k % f.streams], i = in[f.in == twoStreams ? k % 2 : 0];
        if (f.in != zeroCopy) {
            if (f.in == kernel || (f.in == everyOther && k % 2)) copyByKernel(din + at[k], from(at[k]), f.chunks[k], i = step[3], f.copyGrid);
            else if (f.in == oneBatch) batch({din + at[k]}, {from(at[k])}, {f.chunks[k]}, i);
            else OK(cuMemcpyHtoDAsync_v2(din + at[k], (void *)from(at[k]), f.chunks[k], i));
            if (f.sync == values) { OK(cuStreamWriteValue32_v2(i, flags + 4 * k, turn, 0)); OK(cuStreamWaitValue32_v2(q, flags + 4 * k, turn, 1)); }
            else if (f.sync != none) { OK(cuEventRecord(came[k], i)); OK(cuStreamWaitEvent(q, came[k], 0)); }
        }
        bool host = f.in == zeroCopy || f.out == zeroCopy;
        launch(f.out == zeroCopy ? to(at[k]) : dout + at[k], f.in == zeroCopy ? from(at[k]) : din + at[k], f.chunks[k], q, host ? f.grid : 0, host ? f.threads : 256);
        if (f.out == zeroCopy) continue;
        if (f.sync == values) OK(cuStreamWriteValue32_v2(q, flags + 8192 + 4 * k, turn, 0));
        else if (f.sync != none) OK(cuEventRecord(computed[k], q));
        queued++;
        if (f.sync == byHost || f.sync == allReady) ready(false);
        else goOut(k, k + 1);
    }
    if (f.trace) OK(cuEventRecord(marks[1], in[0]));
    if (f.sync == byHost || f.sync == allReady) ready(true);
    if (f.trace) OK(cuEventRecord(marks[3], f.urgent ? urgent : out[0]));
}

// Copies without a kernel, in chunks of so many bytes each way, 0 for none.
struct Free { size_t in, out; bool record, wait, two, batch; };
static void copies(const Free &f)
{
    for (bool inwards : {true, false}) {
        size_t c = inwards ? f.in : f.out, k = 0;
        Lengths n; std::vector<CUdeviceptr> d, s;
        for (size_t at = 0; c && at < N; at += c, k++) {
            CUstream q = (inwards ? in : out)[f.two ? k % 2 : 0];
            if (f.batch) { d.push_back(inwards ? din + at : to(at)); s.push_back(inwards ? from(at) : dout + at); n.push_back(c); continue; }
            if (f.wait) OK(cuStreamWaitEvent(q, marks[0], 0));
            if (inwards) OK(cuMemcpyHtoDAsync_v2(din + at, (void *)from(at), c, q));
            else OK(cuMemcpyDtoHAsync_v2((void *)to(at), dout + at, c, q));
            if (f.record) OK(cuEventRecord((inwards ? came : left)[k], q));
        }
        if (n.size()) batch(d, s, n, inwards ? in[0] : out[0]);
    }
}

struct Row { std::string name; std::function<void()> run; bool verify; Form form; std::vector<double> ns; size_t wrong = 0; };
static std::vector<Row> rows;
static void add(const std::string &name, std::function<void()> run) { rows.push_back({name, run, false, {}, {}}); }
static void add(const std::string &name, const Form &f) { rows.push_back({name, [f] { pipeline(f); }, f.sync != none, f, {}}); }

// The forms of the first and the second part of the results.
static void forms()
{
    auto plain = [](const std::string &name, Free f) { add(name, [f] { copies(f); }); };
    plain("both, one copy each", {N, N});
    plain("in alone", {N, 0}); plain("out alone", {0, N}); plain("in alone 4", {4 * MiB, 0}); plain("out alone 4", {0, 4 * MiB});
    for (size_t c : {32, 16, 8, 4, 2}) plain("both " + std::to_string(c), {c * MiB, c * MiB});
    for (size_t c : {16, 4}) {
        std::string s = std::to_string(c); size_t m = c * MiB;
        plain("both " + s + " record", {m, m, true}); plain("both " + s + " wait, record", {m, m, true, true});
        plain("in " + s + ", out one", {m, N}); plain("in one, out " + s, {N, m});
        plain("both " + s + " two streams", {m, m, false, false, true}); plain("both " + s + " batch", {m, m, false, false, false, true});
    }
    for (double c : {4, 8, 16, 32}) {
        std::string s = " " + std::to_string((int)c);
        add("depth 6" + s, {.chunks = equal(c), .depth = 6}); add("all" + s, {.chunks = equal(c)});
        add("no order" + s, {.chunks = equal(c), .sync = none}); add("values" + s, {.chunks = equal(c), .sync = values});
        add("by the CPU" + s, {.chunks = equal(c), .sync = byHost}); add("two streams" + s, {.chunks = equal(c), .in = twoStreams, .out = twoStreams});
    }
    for (double c : {2, 4, 8, 16}) {
        std::string s = " " + std::to_string((int)c);
        add("every other by a kernel" + s, {.chunks = equal(c), .in = everyOther, .out = everyOther});
        add("copy kernels" + s, {.chunks = equal(c), .in = kernel, .out = kernel});
        add("copy kernel in, engine out" + s, {.chunks = equal(c), .in = kernel}); add("engine in, copy kernel out" + s, {.chunks = equal(c), .out = kernel});
        add("engine in, kernel writes host" + s, {.chunks = equal(c), .out = zeroCopy}); add("kernel reads host, engine out" + s, {.chunks = equal(c), .in = zeroCopy});
        add("kernel reads and writes host" + s, {.chunks = equal(c), .in = zeroCopy, .out = zeroCopy});
    }
    for (unsigned g : {132, 528, 2112}) add("zero-copy, blocks of 128: " + std::to_string(g), {.chunks = {N}, .in = zeroCopy, .out = zeroCopy, .grid = g, .threads = 128});
    for (double c : {64, 16}) add("zero-copy in launches of " + std::to_string((int)c), {.chunks = equal(c), .in = zeroCopy, .out = zeroCopy, .grid = 2112, .threads = 128});
    for (size_t d : {2, 3, 4, 10}) for (double c : {8, 16, 20}) add("depth " + std::to_string(d) + " " + std::to_string((int)c), {.chunks = equal(c), .depth = d});
    Form f = {.chunks = equal(16), .depth = 6};
    auto vary = [&](const char *name, const std::function<void(Form &)> &change) { Form g = f; change(g); add(name, g); };
    vary("16, the GPU waits for slots", [](Form &f) { f.gpuWaits = true; });
    vary("16, one stream for kernels", [](Form &f) { f.streams = 1; });
    vary("16, two streams for kernels", [](Form &f) { f.streams = 2; });
    vary("16, copies out first", [](Form &f) { f.urgent = true; });
    vary("16, batches of one", [](Form &f) { f.in = f.out = oneBatch; });
    vary("16, all, ends marked", [](Form &f) { f.depth = 0; f.marks = true; });
    for (double k : {.7, 1., 1.4}) for (size_t d : {3, 4, 6}) for (int s : {1, 3})
        add("root 2 " + std::to_string(k).substr(0, 3) + " 32, depth " + std::to_string(d) + ", kernels in " + std::to_string(s), {.chunks = root(2, k, 32), .depth = d, .streams = s});
    for (size_t d : {4, 6}) add("root 2 1 20, depth " + std::to_string(d), {.chunks = root(2, 1, 20), .depth = d});
    for (size_t d : {3, 4, 6}) add("root 2 1 32 and back to 8, depth " + std::to_string(d), {.chunks = root(2, 1, 32, 8), .depth = d});
    add("line 4 .03 32, depth 6", {.chunks = line(4, .03, 32), .depth = 6});
    for (double c : {2, 4, 8}) add("all that is ready " + std::to_string((int)c), {.chunks = equal(c), .sync = allReady});
}

// A graph of a pipeline, from capture.
static void graph(double c)
{
    CUgraph g; CUgraphExec x;
    OK(cuStreamBeginCapture_v2(in[0], 2));
    OK(cuEventRecord(marks[1], in[0])); OK(cuStreamWaitEvent(out[0], marks[1], 0));
    for (int i = 0; i < 3; i++) OK(cuStreamWaitEvent(step[i], marks[1], 0));
    pipeline({.chunks = equal(c)});
    for (CUstream q : {step[0], step[1], step[2], out[0]}) { OK(cuEventRecord(marks[2], q)); OK(cuStreamWaitEvent(in[0], marks[2], 0)); }
    OK(cuStreamEndCapture(in[0], &g)); OK(cuGraphInstantiateWithFlags(&x, g, 0));
    add("graph " + std::to_string((int)c), [x] { OK(cuGraphLaunch(x, in[0])); });
    rows.back().verify = true;
}

__attribute__((target("avx2"))) static void past(char *d, const char *s, size_t n) // the caches
{
    for (size_t i = 0; i < n; i += 32) _mm256_stream_si256((__m256i *)(d + i), _mm256_loadu_si256((const __m256i *)(s + i)));
    _mm_sfence();
}

// Measures how fast threads copy from memory to a ring that the engine empties, and from a ring that it fills.
static void cpu(const char *ps, char *pd, int fill, int empty, bool engines, size_t ring, bool ordinary)
{
    std::atomic<bool> stop{false};
    std::atomic<size_t> filled{0}, emptied{0}, f{0}, e{0};
    const size_t block = 128 << 10, c = 4 * MiB;
    std::vector<std::thread> all;
    for (int w = 0; w < fill; w++) all.emplace_back([&] { while (!stop) { size_t at = f++ * block; memcpy((char *)hin + at % ring, ps + at % N, block); filled += block; } });
    for (int w = 0; w < empty; w++) all.emplace_back([&] { while (!stop) { size_t at = e++ * block; (ordinary ? (void (*)(char *, const char *, size_t))[](char *d, const char *s, size_t n) { memcpy(d, s, n); } : past)(pd + at % N, (char *)hout + at % ring, block); emptied += block; } });
    size_t f0 = filled, e0 = emptied;
    double begin = now();
    for (size_t at = 0; engines && at < 4 * N; at += c) {
        OK(cuMemcpyHtoDAsync_v2(din + at % N, (char *)hin + at % ring, c, in[0]));
        OK(cuMemcpyDtoHAsync_v2((char *)hout + at % ring, dout + at % N, c, out[0]));
    }
    OK(cuCtxSynchronize());
    if (!engines) std::this_thread::sleep_for(std::chrono::milliseconds(80));
    double took = now() - begin;
    size_t f1 = filled, e1 = emptied;
    stop = true;
    for (auto &t : all) t.join();
    printf("ring %4zu MiB, %2d in, %2d out%s: in %6.2f, out %6.2f, engines %6.2f GB/s each way\n", ring / MiB, fill, empty, ordinary ? ", ordinary stores" : "", (f1 - f0) / took, (e1 - e0) / took, engines ? 4 * N / took : 0.0);
}

int main(int argc, char **argv)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW);
    if (!lib || argc < 3) { fprintf(stderr, "%s\n", lib ? "work.ptx kernels.ptx?" : dlerror()); return 1; }
#define F(name, arguments) if (!(*(void **)&name = dlsym(lib, #name))) { fprintf(stderr, "no %s\n", #name); return 1; }
    CALLS
#undef F
    cores = std::thread::hardware_concurrency();
    CUdevice dev; CUcontext ctx;
    OK(cuInit(0)); OK(cuDeviceGet(&dev, 0)); OK(cuDevicePrimaryCtxRetain(&ctx, dev)); OK(cuCtxSetCurrent(ctx));
    auto load = [](const char *file, const char *name) {
        static char text[1 << 20]; CUmodule m; CUfunction f;
        FILE *x = fopen(file, "r");
        if (!x) { perror(file); exit(1); }
        text[fread(text, 1, sizeof text - 1, x)] = 0;
        fclose(x);
        OK(cuModuleLoadData(&m, text)); OK(cuModuleGetFunction(&f, m, name));
        return f;
    };
    work = load(argv[1], "work"); copyKernel = load(argv[2], "copy");
    for (auto *q : {in, in + 1, out, out + 1, step, step + 1, step + 2, step + 3}) OK(cuStreamCreateWithPriority(q, 1, 0));
    OK(cuStreamCreateWithPriority(&urgent, 1, -5));
    for (auto *all : {came, computed, left}) for (int i = 0; i < 1024; i++) OK(cuEventCreate(all + i, 2));
    for (auto &e : marks) OK(cuEventCreate(&e, 0));
    auto host = [](size_t n) {
        char *p = (char *)mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise(p, n, MADV_HUGEPAGE);
        parallel(n, [&](size_t a, size_t b) { for (size_t i = a; i < b; i += 4096) p[i] = 1; });
        return p;
    };
    hin = (float *)host(N); hout = (float *)host(N);
    OK(cuMemHostRegister_v2(hin, N, 3)); OK(cuMemHostRegister_v2(hout, N, 3));
    OK(cuMemAlloc_v2(&din, N)); OK(cuMemAlloc_v2(&dout, N)); OK(cuMemAlloc_v2(&flags, 65536)); OK(cuMemsetD32_v2(flags, 0, 16384));
    forms(); graph(8); graph(16);
    std::mt19937 random(1);
    std::vector<size_t> order;
    for (size_t i = 0; i < rows.size(); i++) order.push_back(i);
    for (int round = 0; round <= 5; round++) { // the first round is for warming up
        std::shuffle(order.begin(), order.end(), random);
        for (size_t i : order) {
            fresh();
            double begin = now();
            rows[i].run(); OK(cuCtxSynchronize());
            double took = now() - begin;
            if (rows[i].verify) rows[i].wrong += wrong();
            if (round) rows[i].ns.push_back(took);
        }
    }
    for (auto &r : rows) {
        std::sort(r.ns.begin(), r.ns.end());
        double m = r.ns[r.ns.size() / 2], limit = rows[0].ns[rows[0].ns.size() / 2];
        printf("%-44s %7.3f ms %6.2f GB/s %.3f  (%.3f-%.3f)%s\n", r.name.c_str(), m / 1e6, N / m, limit / m, r.ns[0] / 1e6, r.ns.back() / 1e6, !r.verify ? "" : r.wrong ? " WRONG" : " ok");
    }
    puts("copies in done, first out, all [ms]");
    for (auto &r : rows) if (r.form.chunks.size() > 1 && r.form.in == engine && r.form.out == engine && r.form.sync != allReady) {
        Form f = r.form; f.trace = true;
        fresh(); pipeline(f); OK(cuCtxSynchronize());
        float t[4];
        for (int i = 1; i < 4; i++) OK(cuEventElapsedTime(t + i, marks[0], marks[i]));
        printf("%-44s %.3f %.3f %.3f\n", r.name.c_str(), t[1], t[2], t[3]);
    }
    char *ps = host(N), *pd = host(N);
    int c = cores;
    cpu(ps, pd, c, 0, false, N, true); cpu(ps, pd, 0, c, false, N, false); cpu(ps, pd, 0, 0, true, 32 * MiB, false);
    for (size_t ring : {16, 32, 64, 256}) for (int f : {6, 8, 10}) cpu(ps, pd, f, std::max(1, c - 1 - f), true, ring * MiB, false);
    cpu(ps, pd, 8, 7, true, 32 * MiB, true); cpu(ps, pd, 11, 5, true, 32 * MiB, false);
}
