// What the files of the runtime share. The runtime is the CUDA runtime API on the driver API: each
// function makes sure that the thread has a context, and calls the driver.
#ifndef FERRY_RUNTIME_H
#define FERRY_RUNTIME_H

#include <cuda.h>
#include <cuda_runtime.h>

// The names below are those of the functions that are written here, not of their forms for threads.
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#error "the runtime has both forms of each function"
#endif

namespace ferry {

// driver returns a function of libcuda.so.1, which it opens first. For one that is not there it
// returns a function that fails.
void *driver(const char *name);

// optional returns a function of libcuda.so.1, or null.
void *optional(const char *name);

// CU is a function of the driver by its exported name. It is looked up once for each place.
#define CU(NAME) ([] { static const auto f = reinterpret_cast<decltype(&::NAME)>(::ferry::driver(#NAME)); return f; }())

// A Thread is what the runtime keeps for each thread of the program.
struct Thread {
    int device = 0;          // of cudaSetDevice
    CUcontext bound = 0;     // the primary context that the runtime has made current
    unsigned generation = 0; // of the device when it did
    CUcontext prepared = 0;  // the last context that had all modules
    cudaError_t last = cudaSuccess;
    int depth = 0;          // calls of the runtime inside of each other
    bool perThread = false; // the call is for the default stream of the thread
};
extern thread_local Thread self;

// initialize opens the driver once.
CUresult initialize();

// ready gives the thread a context: the primary context of its device, if the driver has no current
// one.
CUresult ready();

// primary returns the primary context of a device, which it retains once, and the count of resets
// before it.
CUresult primary(int device, CUcontext *context, unsigned *generation = nullptr);

// unload unloads a module of a primary context, if the context is still there.
void unload(unsigned long long context, CUmodule module);

// generation counts the resets of a device.
unsigned generation(int device);

// note remembers an error for cudaGetLastError, and returns it.
cudaError_t note(cudaError_t e);

// refuse is the result of a function that the runtime lacks. It names the function on standard error.
cudaError_t refuse(const char *name);

// say writes a line about the runtime to standard error, unless FERRY_QUIET is 1.
void say(const char *form, ...) __attribute__((format(printf, 1, 2)));

inline cudaError_t code(CUresult r) { return (cudaError_t)r; } // the codes are the same
inline cudaError_t code(cudaError_t e) { return e; }

// stream returns the driver's stream: the default stream is that of the thread in its functions.
inline CUstream stream(cudaStream_t s) { return !s && self.perThread ? CU_STREAM_PER_THREAD : s; }

inline CUdeviceptr device(const void *p) { return (CUdeviceptr)(size_t)p; }

// A Call is a call of the runtime. The driver library of the software GPU learns from the outermost
// one which place of the program has made it.
class Call {
public:
    explicit Call(void *caller);
    ~Call();
    Call(const Call &) = delete;
    // in runs f with a context, out without one. Both note its error.
    template <class F> cudaError_t in(F f) {
        CUresult r = ready();
        return r ? note(code(r)) : note(code(f()));
    }
    template <class F> cudaError_t out(F f) { return note(code(f())); }
    // begun runs f when the driver is open.
    template <class F> cudaError_t begun(F f) {
        CUresult r = initialize();
        return r ? note(code(r)) : note(code(f()));
    }
};
#define FERRY_CALL ::ferry::Call(__builtin_return_address(0))

// A PerThread lasts as long as a call of a function for the default stream of the thread.
struct PerThread {
    bool before = self.perThread;
    PerThread() { self.perThread = true; }
    ~PerThread() { self.perThread = before; }
};

// function returns the driver's function of a kernel in the current context. It loads its module.
cudaError_t function(const void *kernel, CUfunction *f);

// hasKernel reports whether the program has a kernel at an address of the host.
bool hasKernel(const void *kernel);

// symbol returns where a variable of the device is in the current context.
cudaError_t symbol(const void *variable, CUdeviceptr *p, size_t *bytes);

// kernelOf returns the kernel of a function that function has returned, or the function itself.
const void *kernelOf(CUfunction f);

// box turns a copy into that of the driver, and row one of bytes without rows and layers.
CUresult box(const struct cudaMemcpy3DParms *p, CUDA_MEMCPY3D *c);
cudaError_t row(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, CUDA_MEMCPY3D *c);

// part returns where the bytes of a variable of the device are that a copy names. wrong is the direction,
// besides host to host, in which the variable would be on the other side.
cudaError_t part(const void *variable, size_t bytes, size_t offset, enum cudaMemcpyKind kind, enum cudaMemcpyKind wrong, void **at);

// registerManaged notes a managed variable of a file: where the host reads its address.
void registerManaged(void **handle, void **pointer, const char *name, size_t bytes);

// addKernel notes a kernel of a library that the program has loaded: functions that take a kernel take
// its handle, too. forgetLibrary drops those of a library.
void addKernel(CUkernel kernel, CUlibrary library);
void forgetLibrary(CUlibrary library);

// number returns the driver's number of a context, or of the current one for null.
unsigned long long number(CUcontext context);

// prepare loads the modules of the program in the current context, once.
void prepare();

// forget drops what belongs to a context that is gone.
void forget(unsigned long long context);

} // namespace ferry

// What the code that clang writes for a file calls.
extern "C" {
void **__cudaRegisterFatBinary(void *wrapper);
void __cudaUnregisterFatBinary(void **handle);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int threads, void *, void *, void *, void *, int *);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t bytes, int constant, int global);
cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);
}
#endif
