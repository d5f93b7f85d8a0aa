package libcuda

import (
	"runtime"
	"structs"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

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
	var extra *launchParams
	if len(params) > 0 {
		extra = new(launchParams)
		extra.set(params)
	}
	err := d.bound6(procLaunchKernelEx, ctx, uintptr(unsafe.Pointer(c)), uintptr(f), 0, uintptr(unsafe.Pointer(extra)), 0, 0)
	runtime.KeepAlive(config)
	return err
}

// OccupancyMaxPotentialBlockSize calls cuOccupancyMaxPotentialBlockSizeWithFlags without
// its callback; see [cu.Occupancy].
func (d *Driver) OccupancyMaxPotentialBlockSize(ctx cu.Context, f cu.Function, dynamicSharedBytes uintptr, blockSizeLimit int32, flags cu.OccupancyFlags) (minGridSize, blockSize int32, err error) {
	err = d.bound11(procOccupancyMaxPotentialBlockSize, ctx, uintptr(unsafe.Pointer(&minGridSize)), uintptr(unsafe.Pointer(&blockSize)),
		uintptr(f), 0, dynamicSharedBytes, uintptr(blockSizeLimit), uintptr(flags), 0, 0, 0, 0)
	return minGridSize, blockSize, err
}
