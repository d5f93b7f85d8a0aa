package main

import (
	"fmt"
	"math"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/examples/libraries/clib"
)

// cuBLAS is the library with one of its handles. The functions are those of cublas_api.h.
type cuBLAS struct {
	handle uintptr

	create       func(handle *uintptr) int32
	destroy      func(handle uintptr) int32
	getVersion   func(handle uintptr, version *int32) int32
	setStream    func(handle uintptr, stream cu.Stream) int32
	setWorkspace func(handle uintptr, workspace cu.DevicePtr, bytes uintptr) int32
	sgemm        func(handle uintptr, transA, transB, m, n, k int32, alpha *float32, a cu.DevicePtr, lda int32,
		b cu.DevicePtr, ldb int32, beta *float32, c cu.DevicePtr, ldc int32) int32
	statusName func(status int32) string
}

// library is cuBLAS. The functions have been the same since CUDA 11.
var library = clib.Library{
	Names:    []string{"libcublas.so.13", "libcublas.so.12"},
	Variable: "FERRY_CUBLAS",
	Needs:    []string{"libcublasLt"},
	Package:  "nvidia-cublas",
}

// newCUBLAS opens cuBLAS, and makes a handle, which belongs to the GPU.
func newCUBLAS(gpu *ferry.GPU) (*cuBLAS, error) {
	l := new(cuBLAS)
	_, err := library.Open(map[string]any{
		"cublasCreate_v2":       &l.create,
		"cublasDestroy_v2":      &l.destroy,
		"cublasGetVersion_v2":   &l.getVersion,
		"cublasSetStream_v2":    &l.setStream,
		"cublasSetWorkspace_v2": &l.setWorkspace,
		"cublasSgemm_v2":        &l.sgemm,
		"cublasGetStatusName":   &l.statusName,
	})
	if err != nil {
		return nil, err
	}
	return l, gpu.Current(func() error { // the library takes the context that is current
		return l.failed("cublasCreate", l.create(&l.handle))
	})
}

// failed returns the error of a function that returned a status.
func (l *cuBLAS) failed(function string, status int32) error {
	if status == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s", function, l.statusName(status))
}

func (l *cuBLAS) SetStream(h cu.Stream) error {
	return l.failed("cublasSetStream", l.setStream(l.handle, h))
}

func (l *cuBLAS) SetWorkspace(p cu.DevicePtr, bytes int) error {
	return l.failed("cublasSetWorkspace", l.setWorkspace(l.handle, p, uintptr(bytes)))
}

func (l *cuBLAS) Sgemm(m, n, k int, alpha float32, a cu.DevicePtr, lda int, b cu.DevicePtr, ldb int, beta float32, c cu.DevicePtr, ldc int) error {
	if most := max(m, n, k, lda, ldb, ldc); most > math.MaxInt32 {
		return fmt.Errorf("cublasSgemm: a size of %d is more than an int of C", most)
	}
	const asStored = 0 // CUBLAS_OP_N
	return l.failed("cublasSgemm", l.sgemm(l.handle, asStored, asStored, int32(m), int32(n), int32(k),
		&alpha, a, int32(lda), b, int32(ldb), &beta, c, int32(ldc))) // reads alpha and beta at once
}

func (l *cuBLAS) Uses() []ferry.Use { return nil }

func (l *cuBLAS) Version() string {
	var v int32
	if l.getVersion(l.handle, &v) != 0 {
		return "cuBLAS"
	}
	return fmt.Sprintf("cuBLAS %d.%d.%d", v/10000, v/100%100, v%100)
}

func (l *cuBLAS) Destroy() error {
	return l.failed("cublasDestroy", l.destroy(l.handle))
}
