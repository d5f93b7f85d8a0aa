// Package toolkit knows where the libraries of the CUDA toolkit and its Python packages are
// installed: NVRTC, nvJitLink, NCCL. The libraries of the driver are package dl's.
package toolkit
