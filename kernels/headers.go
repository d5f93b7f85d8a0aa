package kernels

import "embed"

// Headers has the headers for compiling kernels without a CUDA toolkit: ferry.h with its
// parts in ferry, and in compat the headers that sources for nvcc include. A compiler needs
// the root and compat in its search path, and nothing of the system.
//
//go:embed ferry.h ferry compat
var Headers embed.FS

// Missing is a header that Ferry does not have.
type Missing struct {
	// Header is the name in #include. One that ends in / stands for all headers below it.
	Header string
	// Instead says why there is none, and what to use.
	Instead string
}

// MissingHeaders lists the headers of CUDA's toolkit and of C++ that sources for nvcc often
// include and that Headers lacks.
var MissingHeaders = []Missing{
	{"cublas_v2.h", "a library for host code: launch it from a C program, or write the kernel"},
	{"cublas.h", "a library for host code: launch it from a C program, or write the kernel"},
	{"cublasLt.h", "a library for host code: launch it from a C program, or write the kernel"},
	{"cudnn.h", "a library for host code: launch it from a C program, or write the kernel"},
	{"cufft.h", "a library for host code: launch it from a C program, or write the kernel"},
	{"cusparse.h", "a library for host code: launch it from a C program, or write the kernel"},
	{"cusolverDn.h", "a library for host code: launch it from a C program, or write the kernel"},
	{"nccl.h", "a library for host code: package ferry copies between GPUs"},
	{"curand.h", "a library for host code: fill the memory from Go"},
	{"curand_kernel.h", "random numbers in kernels come from a library: write the generator, such as Philox or xorshift"},
	{"cub/", "templates of CUDA's toolkit: use __reduce_add_sync, cooperative_groups/reduce.h, or NVRTC with the toolkit's headers"},
	{"thrust/", "templates for host code: package ferry has the memory, the kernel does the work"},
	{"cuda/", "libcu++ of CUDA's toolkit: atomicAdd and others have _block and _system forms; or NVRTC with the toolkit's headers"},
	{"nv/target", "libcu++ of CUDA's toolkit: use __CUDA_ARCH__"},
	{"cuda_pipeline.h", "asynchronous copies are not in Ferry's header: copy with loads and stores, or use NVRTC with the toolkit's headers"},
	{"cuda_pipeline_primitives.h", "asynchronous copies are not in Ferry's header: copy with loads and stores, or use NVRTC with the toolkit's headers"},
	{"cutlass/", "templates on CUDA's toolkit: use NVRTC with the toolkit's headers"},
	{"cute/", "templates on CUDA's toolkit: use NVRTC with the toolkit's headers"},
	{"texture_fetch_functions.h", "textures are not supported: read the memory with __ldg"},
	{"texture_types.h", "textures are not supported: read the memory with __ldg"},
	{"texture_indirect_functions.h", "textures are not supported: read the memory with __ldg"},
	{"surface_functions.h", "surfaces are not supported: write the memory"},
	{"cuComplex.h", "complex numbers are not in Ferry's header: use float2 and double2"},
	{"cooperative_groups/memcpy_async.h", "asynchronous copies are not in Ferry's header: copy with loads and stores"},
	{"cooperative_groups/scan.h", "scans of groups are not in Ferry's header: use shfl_up in a loop"},
	{"nvtx3/", "profiler ranges for host code: leave them out"},
	{"nvToolsExt.h", "profiler ranges for host code: leave them out"},
	{"cuda_profiler_api.h", "a profiler for host code: leave it out"},
	{"nvrtc.h", "a compiler for host code: package compile calls it"},
	{"helper_cuda.h", "host code of CUDA's samples: keep the kernels in a file of their own"},
	{"helper_functions.h", "host code of CUDA's samples: keep the kernels in a file of their own"},
	{"helper_math.h", "operators of CUDA's samples for float4 and others: copy the file to your source"},
	{"cuda_gl_interop.h", "graphics belong to host code: keep the kernels in a file of their own"},
	{"torch/", "PyTorch belongs to host code: keep the kernels in a file of their own"},
	{"ATen/", "PyTorch belongs to host code: keep the kernels in a file of their own"},
	{"iostream", "host code: keep the kernels in a file of their own; kernels have printf"},
	{"fstream", "host code: keep the kernels in a file of their own"},
	{"sstream", "host code: keep the kernels in a file of their own"},
	{"iomanip", "host code: keep the kernels in a file of their own"},
	{"vector", "host code: keep the kernels in a file of their own; kernels take pointers"},
	{"string", "host code: keep the kernels in a file of their own; kernels take pointers"},
	{"map", "host code: keep the kernels in a file of their own"},
	{"memory", "host code: keep the kernels in a file of their own"},
	{"functional", "host code: keep the kernels in a file of their own; kernels take functors as templates"},
	{"chrono", "host code: keep the kernels in a file of their own; kernels have clock64"},
	{"random", "host code: fill the memory from Go"},
	{"numeric", "host code: keep the kernels in a file of their own"},
	{"thread", "host code: goroutines do this"},
	{"array", "not in Ferry's header: use an array of C, or a struct"},
	{"tuple", "not in Ferry's header: use a struct"},
	{"complex", "not in Ferry's header: use float2 and double2"},
	{"sys/time.h", "host code: keep the kernels in a file of their own"},
	{"unistd.h", "host code: keep the kernels in a file of their own"},
}
