package libcuda

import (
	"runtime"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// jitLogBytes is the size of the buffer for each of the compiler's two logs.
const jitLogBytes = 16 << 10

// Options of the compiler (CUjit_option).
const (
	jitInfoLog       = 3 // CU_JIT_INFO_LOG_BUFFER
	jitInfoLogBytes  = 4 // CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES
	jitErrorLog      = 5 // CU_JIT_ERROR_LOG_BUFFER
	jitErrorLogBytes = 6 // CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
)

// jitOptions is the memory of one compilation. It is on the heap, so that the
// addresses in values stay valid.
type jitOptions struct {
	names      [4]uint32
	values     [4]uintptr
	info, fail [jitLogBytes]byte
}

// ModuleLoadData calls cuModuleLoadDataEx; see [cu.Modules]. It copies the image and
// appends a zero byte, which text needs and binaries ignore.
func (d *Driver) ModuleLoadData(ctx cu.Context, image []byte) (module cu.Module, err error) {
	if len(image) == 0 {
		return 0, cu.ErrorInvalidImage
	}
	text := make([]byte, len(image)+1)
	copy(text, image)
	o := new(jitOptions)
	o.names = [4]uint32{jitInfoLog, jitInfoLogBytes, jitErrorLog, jitErrorLogBytes}
	o.values = [4]uintptr{
		uintptr(unsafe.Pointer(&o.info)), jitLogBytes,
		uintptr(unsafe.Pointer(&o.fail)), jitLogBytes,
	}
	err = d.bound6(procModuleLoadData, ctx, uintptr(unsafe.Pointer(&module)), uintptr(unsafe.Pointer(&text[0])),
		uintptr(len(o.names)), uintptr(unsafe.Pointer(&o.names)), uintptr(unsafe.Pointer(&o.values)), 0)
	runtime.KeepAlive(o)
	if err == nil {
		return module, nil
	}
	code, ok := err.(cu.Result)
	log := goString(o.fail[:])
	if log == "" {
		log = goString(o.info[:])
	}
	if !ok || log == "" {
		return 0, err
	}
	return 0, &cu.JITError{Result: code, Log: log}
}

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
