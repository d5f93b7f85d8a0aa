// mathspeed A.ptx B.ptx times every kernel of mathspeed.cu in both files on the first GPU. A
// line of its CSV has the nanoseconds of one call of the function (median of seven launches
// of 1056 blocks of 1024 threads, divided by all calls), and the registers of a thread.
// mathspeed.cu has the commands.
#include <cuda.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

static void check(CUresult r, const char *what)
{
    if (r == CUDA_SUCCESS)
        return;
    fprintf(stderr, "%s: error %d\n", what, r);
    exit(1);
}
#define CHECK(call) check(call, #call)

static std::string read(const char *path)
{
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

// timeCall returns the time of one call in nanoseconds, and the registers of the kernel.
static double timeCall(CUmodule module, const std::string &kernel, int *registers)
{
    const int blocks = 1056, threads = 1024;
    int calls = 256;
    CUfunction function;
    CHECK(cuModuleGetFunction(&function, module, kernel.c_str()));
    CHECK(cuFuncGetAttribute(registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function));
    CUdeviceptr out;
    CHECK(cuMemAlloc(&out, blocks * threads * sizeof(double)));
    void *args[] = {&out, &calls};
    CUevent before, after;
    CHECK(cuEventCreate(&before, 0));
    CHECK(cuEventCreate(&after, 0));
    std::vector<float> times;
    for (int i = 0; i < 7; i++) {
        CHECK(cuEventRecord(before, 0));
        CHECK(cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, 0, args, 0));
        CHECK(cuEventRecord(after, 0));
        CHECK(cuEventSynchronize(after));
        float ms;
        CHECK(cuEventElapsedTime(&ms, before, after));
        times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    CHECK(cuMemFree(out));
    return times[3] * 1e6 / (double(blocks) * threads * calls);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: mathspeed A.ptx B.ptx\n");
        return 2;
    }
    CUdevice device;
    CUcontext context;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    std::string text[2] = {read(argv[1]), read(argv[2])};
    CUmodule module[2];
    for (int i = 0; i < 2; i++)
        CHECK(cuModuleLoadData(&module[i], text[i].c_str()));
    printf("function,a_ns,b_ns,ratio,a_registers,b_registers\n");
    const std::string entry = ".entry time_";
    for (size_t at = 0; (at = text[0].find(entry, at)) != std::string::npos; at++) {
        size_t begin = at + entry.size();
        std::string name = text[0].substr(begin, text[0].find('(', begin) - begin);
        int registers[2];
        double a = timeCall(module[0], "time_" + name, &registers[0]), b = timeCall(module[1], "time_" + name, &registers[1]);
        printf("%s,%.5f,%.5f,%.2f,%d,%d\n", name.c_str(), a, b, a / b, registers[0], registers[1]);
    }
}
