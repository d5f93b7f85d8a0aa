// The peer of internal/measure/bench/allreduce: the same calls in C++. Without RANK it uses all GPUs in
// groups; with RANK and WORLD_SIZE it is one rank, and ranks hand over the id in the file ID_FILE.
//
//	nvcc -O2 -o allreduce allreduce.cu -lnccl
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nccl.h>
#include <unistd.h>
#include <vector>

#define CUDA(x) do { cudaError_t e = (x); if (e) { fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e)); exit(1); } } while (0)
#define NCCL(x) do { ncclResult_t e = (x); if (e) { fprintf(stderr, "%s: %s\n", #x, ncclGetErrorString(e)); exit(1); } } while (0)

int main()
{
    const size_t smallest = 1 << 10, largest = 1 << 30;
    const int rounds = 7;
    const char *rank = getenv("RANK");
    std::vector<ncclComm_t> comms;
    std::vector<int> gpus;
    if (rank) {
        int r = atoi(rank), n = atoi(getenv("WORLD_SIZE"));
        const char *path = getenv("ID_FILE");
        ncclUniqueId id;
        if (r == 0) {
            NCCL(ncclGetUniqueId(&id));
            char part[4096];
            snprintf(part, sizeof part, "%s.part", path);
            FILE *f = fopen(part, "wb");
            fwrite(&id, sizeof id, 1, f);
            fclose(f);
            rename(part, path);
        } else {
            FILE *f;
            while (!(f = fopen(path, "rb")))
                usleep(1000);
            if (fread(&id, sizeof id, 1, f) != 1)
                return 1;
            fclose(f);
        }
        CUDA(cudaSetDevice(r));
        comms.resize(1);
        gpus.push_back(r);
        NCCL(ncclCommInitRank(&comms[0], n, id, r));
    } else {
        int n;
        CUDA(cudaGetDeviceCount(&n));
        comms.resize(n);
        for (int i = 0; i < n; i++)
            gpus.push_back(i);
        NCCL(ncclCommInitAll(comms.data(), n, gpus.data()));
    }
    std::vector<cudaStream_t> streams(comms.size());
    std::vector<float *> memory(comms.size());
    for (size_t i = 0; i < comms.size(); i++) {
        CUDA(cudaSetDevice(gpus[i]));
        CUDA(cudaStreamCreate(&streams[i]));
        CUDA(cudaMalloc(&memory[i], largest));
    }
    for (size_t bytes = smallest; bytes <= largest; bytes *= 4) {
        int calls = bytes > 1 << 20 ? 20 : 200;
        std::vector<double> times;
        for (int round = 0; round <= rounds; round++) {
            auto began = std::chrono::steady_clock::now();
            for (int k = 0; k < calls; k++) {
                if (comms.size() > 1)
                    NCCL(ncclGroupStart());
                for (size_t i = 0; i < comms.size(); i++)
                    NCCL(ncclAllReduce(memory[i], memory[i], bytes / 4, ncclFloat, ncclSum, comms[i], streams[i]));
                if (comms.size() > 1)
                    NCCL(ncclGroupEnd());
            }
            for (size_t i = 0; i < comms.size(); i++) {
                CUDA(cudaSetDevice(gpus[i]));
                CUDA(cudaStreamSynchronize(streams[i]));
            }
            if (round > 0) // the first makes connections
                times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() / calls * 1e6);
        }
        std::sort(times.begin(), times.end());
        if (!rank || atoi(rank) == 0)
            printf("C++\t%s\t%zu\t%.2f\n", rank ? "a process for each GPU" : "one process", bytes, times[rounds / 2]);
    }
    for (auto c : comms)
        NCCL(ncclCommDestroy(c));
}
