package main

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
)

//go:generate go run github.com/ferrygpu/ferry/cmd/ferry compile sgemm.cu
//go:embed sgemm.ptx
var sgemmPTX []byte

// software stands for cuBLAS on the software GPU. As the library it knows the driver, handles and
// addresses, and nothing of the buffers behind them.
type software struct {
	driver           cu.Driver
	ctx              cu.Context
	module           *ferry.Module
	product, combine *ferry.Kernel

	stream    cu.Stream
	workspace cu.DevicePtr
	bytes     int // of the workspace
}

func newSoftware(gpu *ferry.GPU, ptx []byte) (*software, error) {
	module, err := ferry.Load(gpu, ptx, nil)
	if err != nil {
		return nil, err
	}
	product, err := module.Kernel("product")
	if err != nil {
		return nil, errors.Join(err, module.Close())
	}
	combine, err := module.Kernel("combine")
	if err != nil {
		return nil, errors.Join(err, module.Close())
	}
	return &software{driver: gpu.Driver(), ctx: gpu.CUContext(), module: module, product: product, combine: combine}, nil
}

func (l *software) SetStream(h cu.Stream) error {
	l.stream, l.workspace, l.bytes = h, 0, 0
	return nil
}

func (l *software) SetWorkspace(p cu.DevicePtr, bytes int) error {
	if p%256 != 0 {
		return errors.New("set workspace: the address is no multiple of 256")
	}
	l.workspace, l.bytes = p, bytes
	return nil
}

func (l *software) Sgemm(m, n, k int, alpha float32, a cu.DevicePtr, lda int, b cu.DevicePtr, ldb int, beta float32, c cu.DevicePtr, ldc int) error {
	if need := m * n * 4; l.bytes < need {
		return fmt.Errorf("sgemm: the workspace has %d bytes, and the product needs %d", l.bytes, need)
	}
	err := l.launch(l.product, m, n, struct {
		A, B, Workspace   cu.DevicePtr
		M, N, K, LDA, LDB int32
	}{a, b, l.workspace, int32(m), int32(n), int32(k), int32(lda), int32(ldb)})
	if err != nil {
		return err
	}
	return l.launch(l.combine, m, n, struct {
		Workspace, C cu.DevicePtr
		M, N, LDC    int32
		Alpha, Beta  float32
	}{l.workspace, c, int32(m), int32(n), int32(ldc), alpha, beta})
}

// launch launches a kernel by its handle, with a thread for each element. params has the parameters
// where the kernel has them.
func (l *software) launch(k *ferry.Kernel, m, n int, params any) error {
	packed, err := binary.Append(nil, binary.LittleEndian, params)
	if err != nil {
		return err
	}
	grid := ferry.Cover2D(m, n, 16, 16)
	return l.driver.LaunchKernel(l.ctx, k.Handle(), grid.Grid, grid.Block, 0, l.stream, packed)
}

// Uses returns the kernels, which are launched by their handles.
func (l *software) Uses() []ferry.Use {
	return []ferry.Use{ferry.Runs(l.product), ferry.Runs(l.combine)}
}

func (l *software) Version() string { return "what stands for cuBLAS" }

func (l *software) Destroy() error { return l.module.Close() }
