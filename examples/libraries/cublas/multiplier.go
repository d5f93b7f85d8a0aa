package main

import (
	"errors"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// blas has the functions of cuBLAS that the program calls, in the terms of the library: matrices are
// stored by columns.
type blas interface {
	// SetStream makes later calls queue in a stream, and takes the workspace away.
	SetStream(h cu.Stream) error
	// SetWorkspace gives device memory, which begins at a multiple of 256.
	SetWorkspace(p cu.DevicePtr, bytes int) error
	// Sgemm queues c = alpha*a*b + beta*c, where c has m rows and n columns, and a has k columns.
	// ld is from column to column, in elements.
	Sgemm(m, n, k int, alpha float32, a cu.DevicePtr, lda int, b cu.DevicePtr, ldb int, beta float32, c cu.DevicePtr, ldc int) error
	// Uses returns the objects of Ferry that the library works with besides. cuBLAS has none.
	Uses() []ferry.Use
	Version() string
	Destroy() error
}

// workspaceBytes is what NVIDIA recommends for a GPU of architecture Hopper.
const workspaceBytes = 32 << 20

// multiplier multiplies matrices on a GPU. It is used by one goroutine at a time, because a handle of
// the library has one stream.
type multiplier struct {
	gpu       *ferry.GPU
	lib       blas
	stream    *ferry.Stream
	workspace *ferry.Device[byte]
}

// newMultiplier returns a multiplier, whose Close destroys the library's handle.
func newMultiplier(gpu *ferry.GPU, lib blas) (*multiplier, error) {
	stream, err := ferry.NewStream(gpu, &ferry.StreamOptions{NonBlocking: true})
	if err != nil {
		return nil, err
	}
	workspace, err := ferry.Alloc[byte](gpu, workspaceBytes)
	if err != nil {
		return nil, errors.Join(err, stream.Close())
	}
	return &multiplier{gpu, lib, stream, workspace}, nil
}

// Close waits for the products, and gives everything back.
func (x *multiplier) Close() error {
	return errors.Join(x.workspace.Close(), x.stream.Close(), x.gpu.Current(x.lib.Destroy))
}

// product is c = alpha*a*b + beta*c. The matrices are stored by rows, as Go programs do.
type product struct {
	m, n, k     int // a has m rows and k columns, b k rows and n columns
	alpha, beta float32
	a, b, c     matrix
}

// matrix is memory that the library can use: a Device or a Host buffer.
type matrix interface {
	ferry.Memory[float32]
	Pointer() cu.DevicePtr
	Close() error
}

// upload makes a product of matrices. c is the memory for the result.
func (x *multiplier) upload(host *matrices, c matrix) (*product, error) {
	a, err := ferry.Upload(x.gpu, host.a)
	if err != nil {
		return nil, err
	}
	b, err := ferry.Upload(x.gpu, host.b)
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return &product{host.m, host.n, host.k, host.alpha, host.beta, a, b, c}, nil
}

// Close closes a and b when the library has read them.
func (p *product) Close() error { return errors.Join(p.a.Close(), p.b.Close()) }

// multiply queues a product in a stream, also in one that captures. What the library uses is in
// flight when External returns: c.Slice waits for the product, and so does a.Close.
//
// A matrix by rows is its transpose by columns. So the library computes the transpose of c as that of
// b times that of a.
func (x *multiplier) multiply(s *ferry.Stream, p *product) error {
	uses := append(x.lib.Uses(), ferry.Reads(p.a), ferry.Reads(p.b), ferry.Writes(p.c), ferry.Writes(x.workspace))
	return s.External(func(h cu.Stream) error {
		if err := x.lib.SetStream(h); err != nil {
			return err
		}
		err := x.lib.SetWorkspace(x.workspace.Pointer(), x.workspace.Len())
		if err == nil {
			err = x.lib.Sgemm(p.n, p.m, p.k, p.alpha, p.b.Pointer(), p.n, p.a.Pointer(), p.k, p.beta, p.c.Pointer(), p.n)
		}
		return errors.Join(err, x.lib.SetStream(0)) // the stream of a capture ends with it
	}, uses...)
}
