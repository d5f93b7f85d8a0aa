// The peer of package bench for page-locking, in C++.
//
//   nvcc -O2 -o pin_c pin.cu -lcuda
//   ./pin_c alloc|register|cached
//
// Each line on standard input is a number of bytes. It page-locks that much memory, frees it,
// and prints the nanoseconds of both. "alloc" uses cuMemHostAlloc. "register" touches huge
// pages with 16 threads, then registers all at once. "cached" takes 4 MiB once, and prints
// the nanoseconds that a block of a list behind a mutex takes, with its return, and 0.
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define OK(call) do { CUresult result_ = (call); if (result_) { fprintf(stderr, "%s: error %d\n", #call, result_); exit(1); } } while (0)

static const int threads = 16;
static const size_t huge = 2 << 20;

struct part { char *from, *to; };

static double now() { timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e9 + t.tv_nsec; }

static void *touch(void *p)
{
    part *x = (part *)p;
    for (volatile char *c = x->from; c < x->to; c += huge) *c = 0;
    return 0;
}

static void touch_all(char *p, size_t n)
{
    pthread_t all[threads];
    part parts[threads];
    size_t each = (n / huge + threads - 1) / threads * huge;
    for (int i = 0; i < threads; i++) {
        size_t from = i * each < n ? i * each : n, to = from + each < n ? from + each : n;
        parts[i] = part{p + from, p + to};
        pthread_create(&all[i], 0, touch, &parts[i]);
    }
    for (int i = 0; i < threads; i++) pthread_join(all[i], 0);
}

static void by_alloc(size_t n, double t[3])
{
    void *p;
    t[0] = now(); OK(cuMemHostAlloc(&p, n, CU_MEMHOSTALLOC_PORTABLE));
    t[1] = now(); OK(cuMemFreeHost(p));
    t[2] = now();
}

static void by_register(size_t n, double t[3])
{
    t[0] = now();
    char *all = (char *)mmap(0, n + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *p = (char *)(((size_t)all + huge - 1) / huge * huge);
    madvise(p, n, MADV_HUGEPAGE);
    touch_all(p, n);
    OK(cuMemHostRegister(p, n, CU_MEMHOSTREGISTER_PORTABLE));
    t[1] = now(); OK(cuMemHostUnregister(p)); munmap(all, n + huge);
    t[2] = now();
}

struct block { block *next; };

static block *list_of_blocks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static block *take()
{
    pthread_mutex_lock(&lock);
    block *b = list_of_blocks;
    list_of_blocks = b->next;
    pthread_mutex_unlock(&lock);
    return b;
}

static void give(block *b)
{
    pthread_mutex_lock(&lock);
    b->next = list_of_blocks;
    list_of_blocks = b;
    pthread_mutex_unlock(&lock);
}

static void by_list(size_t n, double t[3])
{
    const int batch = 32, batches = 400000 / batch;
    static char *all;
    if (!all) {
        OK(cuMemHostAlloc((void **)&all, 4 << 20, CU_MEMHOSTALLOC_PORTABLE));
        for (size_t i = 0; i + n <= 4 << 20; i += n) give((block *)(all + i));
    }
    block *taken[batch];
    double begin = now();
    for (int i = 0; i < batches; i++) {
        for (int k = 0; k < batch; k++) taken[k] = take();
        for (int k = 0; k < batch; k++) give(taken[k]);
    }
    t[0] = 0; t[1] = t[2] = (now() - begin) / (batch * batches);
}

int main(int argc, char **argv)
{
    CUdevice dev; CUcontext ctx; size_t n;
    const char *mode = argc > 1 ? argv[1] : "";
    OK(cuInit(0)); OK(cuDeviceGet(&dev, 0)); OK(cuDevicePrimaryCtxRetain(&ctx, dev)); OK(cuCtxSetCurrent(ctx));
    while (scanf("%zu", &n) == 1) {
        double t[3];
        if (!strcmp(mode, "alloc")) by_alloc(n, t); else if (!strcmp(mode, "cached")) by_list(n, t); else by_register(n, t);
        printf("%.1f %.1f\n", t[1] - t[0], t[2] - t[1]);
        fflush(stdout);
    }
}
