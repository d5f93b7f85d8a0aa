// The peer of package internal/measure/bench/serve, in C++ with a thread for each goroutine. It has
// the command line of internal/measure/bench/serve/cell, and prints the same line of JSON for each
// cell:
//
//   nvcc -O3 -std=c++17 -o serve_c serve.cu -lpthread
//   ./serve_c [--sync auto|spin|yield|blocking] [--time 5s] KIND,BYTES,THREADS...
//
// KIND is pinned or pageable. Each thread has its own stream and buffers, which are made, and
// have served some requests, before the clock starts. A request copies in, launches a small
// kernel, copies out and waits for the stream. --sync is how threads wait: cudaSetDeviceFlags.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <mutex>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <vector>

#define OK(call)                                                                                     \
    do {                                                                                             \
        cudaError_t result_ = (call);                                                                \
        if (result_ != cudaSuccess) { fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(result_)); exit(1); } \
    } while (0)

typedef std::chrono::steady_clock Clock;

// The kernel of package kernels.
__global__ void increment(float *x, uint64_t n)
{
    uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x, step = (uint64_t)gridDim.x * blockDim.x, wide = n / 4;
    for (uint64_t k = i; k < wide; k += step) {
        float4 v = ((float4 *)x)[k];
        ((float4 *)x)[k] = make_float4(v.x + 1, v.y + 1, v.z + 1, v.w + 1);
    }
    for (uint64_t k = wide * 4 + i; k < n; k += step) x[k] += 1;
}

// Counts durations in ns, in buckets of at most 1/128 of a duration: histogram.go.
struct Histogram {
    static const int width = 7, most = 40, buckets = (most - width + 1) << width;
    std::vector<uint64_t> counts = std::vector<uint64_t>(buckets);
    uint64_t longest = 0;

    void add(uint64_t v)
    {
        int bits = v ? 64 - __builtin_clzll(v) : 0, shift = std::max(bits - width - 1, 0);
        counts[std::min<uint64_t>(((uint64_t)shift << width) + (v >> shift), buckets - 1)]++;
        longest = std::max(longest, v);
    }
    void merge(const Histogram &h)
    {
        for (int i = 0; i < buckets; i++) counts[i] += h.counts[i];
        longest = std::max(longest, h.longest);
    }
    double quantile_us(double share) const
    {
        uint64_t total = 0, sum = 0;
        for (uint64_t n : counts) total += n;
        uint64_t rank = std::max<uint64_t>((uint64_t)(share * total + 0.999999), 1);
        for (int i = 0; i < buckets; i++)
            if ((sum += counts[i]) >= rank) {
                int shift = std::max((i >> width) - 1, 0);
                return std::min((((uint64_t)i - ((uint64_t)shift << width) + 1) << shift) - 1, longest) / 1e3;
            }
        return longest / 1e3;
    }
};

struct Cell {
    bool pinned;
    size_t bytes;
    int threads;
};

// A gate opens once, when all threads are ready.
struct Gate {
    std::mutex m;
    std::condition_variable changed;
    int ready = 0;
    bool open = false;

    void pass()
    {
        std::unique_lock<std::mutex> lock(m);
        ready++;
        changed.notify_all();
        changed.wait(lock, [&] { return open; });
    }
};

// Workers do not share a cache line.
struct alignas(128) Worker {
    cudaStream_t stream;
    float *in, *out, *device;
    size_t n; // floats
    uint32_t turn = 0;
    uint64_t done = 0;
    Histogram latency;

    explicit Worker(const Cell &c, int number) : n(c.bytes / 4)
    {
        OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        OK(cudaMalloc((void **)&device, c.bytes));
        for (float **p : {&in, &out}) {
            if (c.pinned) OK(cudaHostAlloc((void **)p, c.bytes, cudaHostAllocPortable));
            else *p = (float *)malloc(c.bytes);
        }
        for (size_t i = 0; i < n; i++) in[i] = (i * 7 + number) % 65521, out[i] = 0;
    }
    void close(const Cell &c)
    {
        OK(cudaStreamDestroy(stream));
        OK(cudaFree(device));
        for (float *p : {in, out}) {
            if (c.pinned) OK(cudaFreeHost(p));
            else free(p);
        }
    }
    void submit()
    {
        OK(cudaMemcpyAsync(device, in, 4 * n, cudaMemcpyHostToDevice, stream));
        increment<<<(unsigned)((n / 4 + 255) / 256), 256, 0, stream>>>(device, n);
        OK(cudaGetLastError());
        OK(cudaMemcpyAsync(out, device, 4 * n, cudaMemcpyDeviceToHost, stream));
        OK(cudaStreamSynchronize(stream));
    }
    void request()
    {
        turn = (turn + 1) & ((1 << 20) - 1);
        in[0] = in[n - 1] = (float)turn;
        out[0] = out[n - 1] = -1;
        submit();
        if (out[0] != (float)turn + 1 || out[n - 1] != (float)turn + 1) wrong();
    }
    void serve(Clock::time_point start, uint64_t deadline)
    {
        auto now = [&] { return (uint64_t)std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count(); };
        for (uint64_t begin = now();;) {
            request();
            uint64_t end = now();
            latency.add(end - begin);
            if (end > deadline) return;
            done++;
            begin = end;
        }
    }
    void compare()
    {
        for (size_t i = 0; i < n; i++)
            if (out[i] != in[i] + 1) wrong();
    }
    // Checks every element of the last request and of one more.
    void verify()
    {
        compare();
        for (size_t i = 0; i < n; i++) in[i] = (i * 7 + 1 + turn) % 65521, out[i] = 0;
        submit();
        compare();
    }
    static void wrong()
    {
        fprintf(stderr, "serve: wrong data\n");
        exit(1);
    }
};

static double cpu_seconds()
{
    rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

// Returns the first word of a line of a file that begins with a digit and has a character of
// some: the number of threads in /proc/self/status, the version of the driver. "" is none.
static std::string number(const char *path, const char *line_has, const char *some)
{
    FILE *f = fopen(path, "r");
    std::string found;
    char line[512];
    while (f && found.empty() && fgets(line, sizeof line, f)) {
        if (!strstr(line, line_has)) continue;
        for (char *word = strtok(line, " \t\n"); word && found.empty(); word = strtok(0, " \t\n"))
            if (*word >= '0' && *word <= '9' && strpbrk(word, some)) found = word;
    }
    if (f) fclose(f);
    return found;
}

static void measure(const Cell &c, const std::string &name, const std::string &sync, double seconds)
{
    std::vector<Worker> workers;
    workers.reserve(c.threads);
    for (int i = 0; i < c.threads; i++) workers.emplace_back(c, i);
    std::vector<std::thread> threads;
    Gate gate;
    Clock::time_point start;
    Gate end; // so that the threads are counted before they end
    for (Worker &w : workers)
        threads.emplace_back([&] {
            for (int i = 0; i < 20; i++) w.request();
            gate.pass();
            w.serve(start, (uint64_t)(seconds * 1e9));
            end.pass();
        });
    auto wait = [&](Gate &g) {
        std::unique_lock<std::mutex> lock(g.m);
        g.changed.wait(lock, [&] { return g.ready == c.threads; });
        return lock;
    };
    double cpu;
    {
        auto lock = wait(gate);
        cpu = cpu_seconds();
        start = Clock::now();
        gate.open = true;
        gate.changed.notify_all();
    }
    double took;
    std::string count;
    {
        auto lock = wait(end);
        took = std::chrono::duration<double>(Clock::now() - start).count();
        cpu = (cpu_seconds() - cpu) / took;
        count = number("/proc/self/status", "Threads:", "0123456789");
        end.open = true;
        end.changed.notify_all();
    }
    for (auto &t : threads) t.join();
    Histogram all;
    uint64_t requests = 0, fewest = UINT64_MAX, most = 0;
    for (Worker &w : workers) {
        w.verify();
        w.close(c);
        all.merge(w.latency);
        requests += w.done;
        fewest = std::min(fewest, w.done);
        most = std::max(most, w.done);
    }
    cudaDeviceProp device;
    OK(cudaGetDeviceProperties(&device, 0));
    printf("{\"program\":\"c\",\"sync\":\"%s\",\"cell\":\"%s\",\"seconds\":%g,\"requests\":%llu,\"per_second\":%.1f,", sync.c_str(),
           name.c_str(), seconds, (unsigned long long)requests, requests / seconds);
    printf("\"p50_us\":%.3f,\"p99_us\":%.3f,\"p999_us\":%.3f,\"longest_us\":%.3f,", all.quantile_us(0.5), all.quantile_us(0.99),
           all.quantile_us(0.999), all.longest / 1e3);
    printf("\"fewest\":%llu,\"most\":%llu,\"cpu_per_second\":%.4f,\"threads\":%d,", (unsigned long long)fewest, (unsigned long long)most,
           cpu, atoi(count.c_str()));
    printf("\"device\":\"%s\",\"driver\":\"%s\",\"cuda\":%d,\"processors\":%u}\n", device.name,
           number("/proc/driver/nvidia/version", "NVRM", ".").c_str(), CUDART_VERSION, std::thread::hardware_concurrency());
    fflush(stdout);
}

static void usage(const std::string &why)
{
    fprintf(stderr, "serve: %s\nusage: serve_c [--sync auto|spin|yield|blocking] [--time 5s] KIND,BYTES,THREADS...\n", why.c_str());
    exit(2);
}

static Cell parse(const std::string &text)
{
    char kind[16], rest;
    unsigned long long bytes;
    int threads;
    if (sscanf(text.c_str(), "%15[a-z],%llu,%d%c", kind, &bytes, &threads, &rest) != 3) usage("cell " + text + " is not KIND,BYTES,THREADS");
    bool pinned = !strcmp(kind, "pinned");
    if (!pinned && strcmp(kind, "pageable")) usage("there is no kind " + std::string(kind));
    if (bytes < 16 || bytes % 16 || bytes > (1 << 30) || threads < 1 || threads > 65536) usage("cell " + text + " has wrong numbers");
    return {pinned, (size_t)bytes, threads};
}

static double parse_seconds(const char *text)
{
    char *unit;
    double seconds = strtod(text, &unit);
    if (!strcmp(unit, "ms")) seconds /= 1e3;
    else if (*unit && strcmp(unit, "s")) usage(std::string("the time ") + text + " is not in s or ms");
    if (!(seconds > 0)) usage("the time must be positive");
    return seconds;
}

int main(int argc, char **argv)
{
    std::string sync = "auto";
    double seconds = 5;
    std::vector<std::string> cells;
    for (int i = 1; i < argc; i++) {
        std::string word = argv[i];
        if (word[0] != '-') cells.push_back(word);
        else if (word.substr(word.find_first_not_of('-')) == "sync" && i + 1 < argc) sync = argv[++i];
        else if (word.substr(word.find_first_not_of('-')) == "time" && i + 1 < argc) seconds = parse_seconds(argv[++i]);
        else usage("there is no option " + word);
    }
    std::vector<Cell> parsed;
    for (const auto &text : cells) parsed.push_back(parse(text));
    unsigned flags = sync == "auto" ? cudaDeviceScheduleAuto : sync == "spin" ? cudaDeviceScheduleSpin
        : sync == "yield" ? cudaDeviceScheduleYield : cudaDeviceScheduleBlockingSync;
    if (flags == cudaDeviceScheduleBlockingSync && sync != "blocking") usage("there is no --sync " + sync);
    OK(cudaSetDeviceFlags(flags));
    OK(cudaSetDevice(0));
    for (size_t i = 0; i < cells.size(); i++) measure(parsed[i], cells[i], sync, seconds);
}
