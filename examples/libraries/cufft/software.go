package main

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

//go:generate go run github.com/ferrygpu/ferry/cmd/ferry compile dft.cu
//go:embed dft.ptx
var dftPTX []byte

// software stands for cuFFT on the software GPU. As the library it knows the driver, handles and
// addresses, and nothing of the buffers behind them.
type software struct {
	gpu    *ferry.GPU
	driver cu.Driver
	ctx    cu.Context
	module *ferry.Module
	dft    *ferry.Kernel

	n, batch int
	roots    *ferry.Device[complex64]
	work     cu.DevicePtr
	stream   cu.Stream
}

func newSoftware(gpu *ferry.GPU, ptx []byte) (*software, error) {
	module, err := ferry.Load(gpu, ptx, nil)
	if err != nil {
		return nil, err
	}
	kernel, err := module.Kernel("dft")
	if err != nil {
		return nil, errors.Join(err, module.Close())
	}
	return &software{gpu: gpu, driver: gpu.Driver(), ctx: gpu.CUContext(), module: module, dft: kernel}, nil
}

// Plan puts the roots on the GPU. The work area has the input, because the output may overwrite it.
func (l *software) Plan(n, batch int) (work int, err error) {
	switch {
	case l.roots != nil:
		return 0, errors.New("plan: there is a plan already")
	case n < 1 || batch < 1:
		return 0, fmt.Errorf("plan %d signals of %d elements: both must be positive", batch, n)
	}
	table := make([]complex64, n)
	for i, r := range roots(n) {
		table[i] = complex64(r)
	}
	l.n, l.batch = n, batch
	l.roots, err = ferry.Upload(l.gpu, table)
	return n * batch * 8, err
}

func (l *software) SetWorkArea(p cu.DevicePtr) error {
	l.work = p
	return nil
}

func (l *software) SetStream(h cu.Stream) error {
	l.stream = h
	return nil
}

func (l *software) ExecC2C(in, out cu.DevicePtr, d direction) error {
	elements := l.n * l.batch
	if err := l.driver.MemcpyDtoDAsync(l.ctx, l.work, in, uintptr(elements)*8, l.stream); err != nil {
		return err
	}
	params, err := binary.Append(nil, binary.LittleEndian, struct {
		In, Out, Roots cu.DevicePtr
		N, Batch       int32
		Sign           direction
	}{l.work, out, l.roots.Pointer(), int32(l.n), int32(l.batch), d})
	if err != nil {
		return err
	}
	cover := ferry.Cover(elements, 128)
	return l.driver.LaunchKernel(l.ctx, l.dft.Handle(), cover.Grid, cover.Block, 0, l.stream, params)
}

// Uses returns the kernel, which is launched by its handle, and what it reads.
func (l *software) Uses() []ferry.Use {
	return []ferry.Use{ferry.Runs(l.dft), ferry.Reads(l.roots)}
}

func (l *software) Version() string { return "what stands for cuFFT" }

func (l *software) Destroy() error { return errors.Join(l.roots.Close(), l.module.Close()) }
