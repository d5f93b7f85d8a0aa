package entry

import (
	"sync"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: The values of parameters are memory of the program, copied before the call returns.

// oldLaunch is what a function keeps for the launches of CUDA before 4.0: its block and its
// parameters are set by one call each, and cuLaunch takes them.
type oldLaunch struct {
	mu     sync.Mutex
	block  cu.Dim3
	shared uint32
	params []byte
	size   uint32 // what cuParamSetSize gave
}

// oldLaunches has those of the functions that use such calls. Unloading a module forgets those of its
// functions.
var oldLaunches sync.Map // cu.Function -> *oldLaunch

// mostParams is as many bytes of parameters as a kernel can have.
const mostParams = 32764

// old returns what the function of a call keeps, locked.
func old(d cu.Driver, f *Frame) (*oldLaunch, cu.Function, error) {
	ctx := cu.Context(f.Ctx)
	fn, err := kernelFunction(d, ctx, cu.Function(f.In[0]))
	if err != nil {
		return nil, 0, err
	}
	v, ok := oldLaunches.Load(fn)
	if !ok {
		if _, err := d.FuncGetAttribute(ctx, cu.FunctionAttribute(0), fn); err != nil {
			return nil, 0, err // it is no function
		}
		v, _ = oldLaunches.LoadOrStore(fn, &oldLaunch{block: cu.Dim3{X: 1, Y: 1, Z: 1}})
	}
	o := v.(*oldLaunch)
	o.mu.Lock()
	return o, fn, nil
}

//c:call cuFuncSetBlockShape (ptr fn, i32 bx, i32 by, i32 bz)
func funcSetBlockShape(d cu.Driver, f *Frame) error {
	o, _, err := old(d, f)
	if err != nil {
		return err
	}
	defer o.mu.Unlock()
	block := dim(f.In[1:])
	if int32(block.X) < 1 || int32(block.Y) < 1 || int32(block.Z) < 1 {
		return cu.ErrorInvalidValue
	}
	o.block = block
	return nil
}

//c:call cuFuncSetSharedSize (ptr fn, u32 bytes)
func funcSetSharedSize(d cu.Driver, f *Frame) error {
	o, _, err := old(d, f)
	if err != nil {
		return err
	}
	defer o.mu.Unlock()
	o.shared = uint32(f.In[1])
	return nil
}

//c:call cuParamSetSize (ptr fn, u32 bytes)
func paramSetSize(d cu.Driver, f *Frame) error {
	o, _, err := old(d, f)
	if err != nil {
		return err
	}
	defer o.mu.Unlock()
	if f.In[1] > mostParams {
		return cu.ErrorInvalidValue
	}
	o.size = uint32(f.In[1])
	return nil
}

// set puts the bytes of a parameter at their offset.
func (o *oldLaunch) set(offset int32, value []byte) error {
	if offset < 0 || int64(offset)+int64(len(value)) > mostParams {
		return cu.ErrorInvalidValue
	}
	o.grow(int(offset) + len(value))
	copy(o.params[offset:], value)
	return nil
}

// grow makes room for n bytes of parameters. New ones are zero.
func (o *oldLaunch) grow(n int) {
	if n > len(o.params) {
		o.params = append(o.params, make([]byte, n-len(o.params))...)
	}
}

//c:call cuParamSeti (ptr fn, i32 offset, u32 value)
func paramSetInteger(d cu.Driver, f *Frame) error {
	o, _, err := old(d, f)
	if err != nil {
		return err
	}
	defer o.mu.Unlock()
	value := uint32(f.In[2])
	return o.set(int32(f.In[1]), unsafe.Slice((*byte)(unsafe.Pointer(&value)), 4))
}

//c:call cuParamSetv (ptr fn, i32 offset, ptr value, u32 bytes)
func paramSetVector(d cu.Driver, f *Frame) error {
	o, _, err := old(d, f)
	if err != nil {
		return err
	}
	defer o.mu.Unlock()
	value := list[byte](f.pointer(2), f.In[3])
	if len(value) == 0 {
		return cu.ErrorInvalidValue
	}
	return o.set(int32(f.In[1]), value)
}

// launchOld launches a function with what it keeps.
func launchOld(d cu.Driver, f *Frame, width, height uint64, stream cu.Stream) error {
	o, fn, err := old(d, f)
	if err != nil {
		return err
	}
	defer o.mu.Unlock()
	o.grow(int(o.size))
	grid := cu.Dim3{X: uint32(width), Y: uint32(height), Z: 1}
	return d.LaunchKernel(cu.Context(f.Ctx), fn, grid, o.block, o.shared, stream, o.params[:o.size])
}

//c:call cuLaunch (ptr fn)
func launchOnce(d cu.Driver, f *Frame) error { return launchOld(d, f, 1, 1, 0) }

//c:call cuLaunchGrid (ptr fn, i32 width, i32 height)
func launchGrid(d cu.Driver, f *Frame) error { return launchOld(d, f, f.In[1], f.In[2], 0) }

//c:call cuLaunchGridAsync (ptr fn, i32 width, i32 height, stream stream)
func launchGridAsync(d cu.Driver, f *Frame) error {
	return launchOld(d, f, f.In[1], f.In[2], cu.Stream(f.In[3]))
}
