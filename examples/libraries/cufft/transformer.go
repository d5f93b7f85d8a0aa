package main

import (
	"errors"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

// direction is the sign of the exponent: CUFFT_FORWARD or CUFFT_INVERSE.
type direction int32

const (
	forward direction = -1
	inverse direction = 1
)

// fft has the functions of cuFFT that the program calls.
type fft interface {
	// Plan prepares, once, transforms of batch signals, which follow each other, of n elements each. The
	// result is how many bytes of device memory they need besides.
	Plan(n, batch int) (work int, err error)
	SetWorkArea(p cu.DevicePtr) error
	// SetStream makes later calls queue in a stream.
	SetStream(h cu.Stream) error
	// ExecC2C queues the transforms of a plan. They are not divided by n.
	ExecC2C(in, out cu.DevicePtr, d direction) error
	// Uses returns the objects of Ferry that the library works with besides. cuFFT has none.
	Uses() []ferry.Use
	Version() string
	Destroy() error
}

// transformer transforms signals of one size on a GPU. It is used by one goroutine at a time, because
// a plan has one stream.
type transformer struct {
	gpu      *ferry.GPU
	lib      fft
	n, batch int
	stream   *ferry.Stream
	work     *ferry.Device[byte]
}

// newTransformer plans transforms. Close of the result destroys the plan.
func newTransformer(gpu *ferry.GPU, lib fft, n, batch int) (*transformer, error) {
	var bytes int
	err := gpu.Current(func() (err error) { // the plan belongs to the context that is current
		bytes, err = lib.Plan(n, batch)
		return err
	})
	if err != nil {
		return nil, err
	}
	work, err := ferry.Alloc[byte](gpu, max(bytes, 1))
	if err != nil {
		return nil, err
	}
	stream, err := ferry.NewStream(gpu, &ferry.StreamOptions{NonBlocking: true})
	if err == nil {
		err = gpu.Current(func() error { return lib.SetWorkArea(work.Pointer()) })
	}
	if err != nil {
		return nil, errors.Join(err, work.Close(), stream.Close())
	}
	return &transformer{gpu, lib, n, batch, stream, work}, nil
}

// Close waits for the transforms, and gives everything back.
func (x *transformer) Close() error {
	return errors.Join(x.work.Close(), x.stream.Close(), x.gpu.Current(x.lib.Destroy))
}

// signals is memory that the library can use: a Device or a Host buffer.
type signals interface {
	ferry.Memory[complex64]
	Pointer() cu.DevicePtr
}

// transform queues transforms in a stream, also in one that captures. What the library uses is in
// flight when External returns: Slice of out waits for the transforms, and so does Close of in. The
// two may be the same.
func (x *transformer) transform(s *ferry.Stream, in, out signals, d direction) error {
	uses := append(x.lib.Uses(), ferry.Reads(in), ferry.Writes(out), ferry.Writes(x.work))
	return s.External(func(h cu.Stream) error {
		err := x.lib.SetStream(h)
		if err == nil {
			err = x.lib.ExecC2C(in.Pointer(), out.Pointer(), d)
		}
		return errors.Join(err, x.lib.SetStream(0)) // the stream of a capture ends with it
	}, uses...)
}
