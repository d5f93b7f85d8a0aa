// The default stream of a thread does not wait for that of another one.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

static std::atomic<bool> open{false};
static void CUDART_CB hold(void *) {
    while (!open)
        std::this_thread::yield();
}

__global__ void set(int *p) { *p = 3; }

// entries reports whether functions of the driver that are asked for without flags are those for the
// default stream of the program.
static bool entries() {
    void *f = nullptr, *legacy = nullptr, *perThread = nullptr;
    cudaDriverEntryPointQueryResult found;
    cudaGetDriverEntryPoint("cuMemsetD8Async", &legacy, cudaEnableLegacyStream, &found);
    cudaGetDriverEntryPoint("cuMemsetD8Async", &perThread, cudaEnablePerThreadDefaultStream, &found);
    bool right = !cudaGetDriverEntryPoint("cuMemsetD8Async", &f, cudaEnableDefault, &found) && legacy != perThread;
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
    return right && f == perThread;
#else
    return right && f == legacy;
#endif
}

int main() {
    int *p, value = 0;
    cudaMalloc(&p, sizeof value);
    std::thread other([] { cudaLaunchHostFunc(0, hold, nullptr); });
    other.join();
    set<<<1, 1>>>(p);
    cudaError_t queried = cudaSuccess;
    std::thread waiting([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        open = true;
    });
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
    queried = cudaMemcpy(&value, p, sizeof value, cudaMemcpyDeviceToHost); // ends while hold waits
    bool early = !open;
#else
    queried = cudaMemcpy(&value, p, sizeof value, cudaMemcpyDeviceToHost); // waits for hold
    bool early = !open;
#endif
    waiting.join();
    std::printf("%d %d %d %d\n", (int)queried, value, early, entries());
}
