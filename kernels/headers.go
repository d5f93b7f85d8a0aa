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

// MissingHeaders lists the headers of CUDA's toolkit and of C++ that device code may need and that
// Headers lacks. What only host code needs may be missing: package compile leaves it out.
var MissingHeaders = []Missing{
	{"cublas_v2.h", library},
	{"cublas.h", library},
	{"cublasLt.h", library},
	{"cudnn.h", library},
	{"cufft.h", library},
	{"cusparse.h", library},
	{"cusolverDn.h", library},
	{"nccl.h", "a library for host code: package ferry copies between GPUs"},
	{"curand.h", "a library for host code: fill the memory from Go"},
	{"curand_kernel.h", "random numbers in kernels come from a library: write the generator, such as Philox or xorshift"},
	{"cub/", "templates of CUDA's toolkit: use __reduce_add_sync, cooperative_groups/reduce.h and scan.h, or NVRTC with the toolkit's headers"},
	{"thrust/", "templates for host code: package ferry has the memory, the kernel does the work"},
	{"cuda/", "libcu++ of CUDA's toolkit: atomicAdd and others have _block and _system forms; or NVRTC with the toolkit's headers"},
	{"nv/target", "libcu++ of CUDA's toolkit: use __CUDA_ARCH__"},
	{"cutlass/", "templates on CUDA's toolkit: give its folder with -I, and use NVRTC with the toolkit's headers"},
	{"cute/", "templates on CUDA's toolkit: give its folder with -I, and use NVRTC with the toolkit's headers"},
	{"texture_fetch_functions.h", "textures are not supported: read the memory with __ldg"},
	{"texture_indirect_functions.h", "textures are not supported: read the memory with __ldg"},
	{"surface_functions.h", "surfaces are not supported: write the memory"},
	{"nvtx3/", "profiler ranges for host code"},
	{"nvToolsExt.h", "profiler ranges for host code"},
	{"nvrtc.h", "a compiler for host code: package compile calls it"},
	{"helper_cuda.h", sample},
	{"helper_functions.h", sample},
	{"helper_math.h", sample},
	{"cuda_gl_interop.h", "graphics belong to host code"},
	{"torch/", "PyTorch belongs to host code"},
	{"ATen/", "PyTorch belongs to host code"},
	{"array", system},
	{"tuple", system},
	{"complex", system},
	{"functional", system},
	{"vector", system},
	{"string", system},
}

const (
	library = "a library for host code: launch it from a C program, or write the kernel"
	sample  = "a header of CUDA's samples: give its folder with -I"
	system  = "not among Ferry's stand-ins: install the C++ library, such as g++"
)
