package libcuda

import (
	"errors"
	"runtime"
	"slices"
	"structs"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: Addresses of Go memory are converted in the argument list of a function with the
// directive uintptrescapes, or are pinned. So the memory stays alive and in place until C
// returns, and C keeps none of them.

// launchConfig is CUlaunchConfig.
type launchConfig struct {
	_              structs.HostLayout
	grid, block    cu.Dim3
	sharedMemBytes uint32
	stream         cu.Stream
	attrs          *cu.LaunchAttribute
	numAttrs       uint32
}

// LaunchKernelEx calls cuLaunchKernelEx; see [cu.Modules].
func (d *Driver) LaunchKernelEx(ctx cu.Context, config *cu.LaunchConfig, f cu.Function, params []byte) error {
	if config == nil {
		return cu.ErrorInvalidValue
	}
	c := &launchConfig{
		grid: config.Grid, block: config.Block, sharedMemBytes: config.SharedMemBytes, stream: config.Stream,
		attrs: unsafe.SliceData(config.Attrs), numAttrs: uint32(len(config.Attrs)),
	}
	if len(config.Attrs) == 0 {
		c.attrs = nil
	}
	pointers, extra, err := d.exParams(ctx, config, f, params)
	if err != nil {
		return err
	}
	err = d.bound6(procLaunchKernelEx, ctx, uintptr(unsafe.Pointer(c)), uintptr(f),
		uintptr(unsafe.Pointer(unsafe.SliceData(pointers))), uintptr(unsafe.Pointer(extra)), 0, 0)
	runtime.KeepAlive(config)
	runtime.KeepAlive(pointers)
	return err
}

// exParams returns the parameters of a launch as C takes them. A stream that captures
// refuses a packed buffer for a cooperative launch, so such a launch passes pointers. A
// driver older than CUDA 12.4 does not tell where the parameters are, and gets the buffer.
func (d *Driver) exParams(ctx cu.Context, config *cu.LaunchConfig, f cu.Function, params []byte) (pointers []unsafe.Pointer, extra *launchParams, err error) {
	if slices.ContainsFunc(config.Attrs, func(a cu.LaunchAttribute) bool { return a.ID == cu.LaunchAttributeCooperative }) {
		pointers, err = d.paramPointers(ctx, f, params)
		if !errors.Is(err, cu.ErrorNotSupported) {
			return pointers, nil, err
		}
	}
	if len(params) > 0 {
		extra = new(launchParams)
		extra.set(params)
	}
	return nil, extra, nil
}

// paramPointers returns the address of each parameter of f in params (kernelParams). It is
// nil for a kernel without parameters.
func (d *Driver) paramPointers(ctx cu.Context, f cu.Function, params []byte) (pointers []unsafe.Pointer, err error) {
	for i := uintptr(0); ; i++ {
		offset, size, err := d.FuncGetParamInfo(ctx, f, i)
		switch {
		case errors.Is(err, cu.ErrorInvalidValue): // there are no more
			return pointers, nil
		case err != nil:
			return nil, err
		case offset >= uintptr(len(params)), size > uintptr(len(params))-offset:
			return nil, cu.ErrorInvalidValue
		}
		pointers = append(pointers, unsafe.Pointer(&params[offset]))
	}
}

// OccupancyMaxPotentialBlockSize calls cuOccupancyMaxPotentialBlockSizeWithFlags without
// its callback; see [cu.Occupancy].
func (d *Driver) OccupancyMaxPotentialBlockSize(ctx cu.Context, f cu.Function, dynamicSharedBytes uintptr, blockSizeLimit int32, flags cu.OccupancyFlags) (minGridSize, blockSize int32, err error) {
	err = d.bound11(procOccupancyMaxPotentialBlockSize, ctx, uintptr(unsafe.Pointer(&minGridSize)), uintptr(unsafe.Pointer(&blockSize)),
		uintptr(f), 0, dynamicSharedBytes, uintptr(blockSizeLimit), uintptr(flags), 0, 0, 0, 0)
	return minGridSize, blockSize, err
}
