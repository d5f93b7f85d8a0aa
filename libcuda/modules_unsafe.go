package libcuda

import (
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: Addresses of Go memory are converted in the argument list of a function with the
// directive uintptrescapes, or are pinned. So the memory stays alive and in place until C
// returns, and C keeps none of them.

// Keys in the extra array of a launch (CU_LAUNCH_PARAM_*_AS_INT).
const (
	launchEnd    = 0
	launchBuffer = 1
	launchSize   = 2
)

// launchParams is the extra array of a launch and the size that it points to.
type launchParams struct {
	bufferMark uintptr
	buffer     unsafe.Pointer
	sizeMark   uintptr
	size       *uintptr
	endMark    uintptr

	bytes uintptr
}

// set makes p describe a packed buffer. p must not move while C uses it.
func (p *launchParams) set(params []byte) {
	*p = launchParams{launchBuffer, unsafe.Pointer(unsafe.SliceData(params)), launchSize, &p.bytes, launchEnd, uintptr(len(params))}
}

// LaunchKernel calls cuLaunchKernel; see [cu.Modules].
func (d *Driver) LaunchKernel(ctx cu.Context, f cu.Function, grid, block cu.Dim3, sharedMemBytes uint32, stream cu.Stream, params []byte) error {
	var c call
	c.setLaunch(f, grid, block, sharedMemBytes, stream)
	if len(params) == 0 {
		params = nil // C gets no address where there are no parameters
	}
	return d.launch(ctx, stream, &c, uintptr(unsafe.Pointer(unsafe.SliceData(params))), uintptr(len(params)))
}

// setLaunch sets the arguments of a launch without parameters.
func (s *step) setLaunch(f cu.Function, grid, block cu.Dim3, shared uint32, stream cu.Stream) {
	s[1] = uintptr(f)
	s[2], s[3], s[4] = uintptr(grid.X), uintptr(grid.Y), uintptr(grid.Z)
	s[5], s[6], s[7] = uintptr(block.X), uintptr(block.Y), uintptr(block.Z)
	s[8], s[9] = uintptr(shared), uintptr(stream)
}
