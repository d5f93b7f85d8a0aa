package entry

import (
	"errors"
	"sync"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/thread"
)

//c:hand cuInit
func initialize(d cu.Driver, f *Frame) error { return d.Init(uint32(f.In[0])) }

//c:hand cuDriverGetVersion
func driverVersion(d cu.Driver, f *Frame) error {
	version, err := d.DriverGetVersion()
	f.Out[0] = uint64(version)
	return err
}

//c:hand endThread
func endThread(_ cu.Driver, f *Frame) error {
	thread.End(f.In[0])
	return nil
}

//c:hand checkContext
func checkContext(d cu.Driver, f *Frame) error {
	f.Ctx = 0 // an error is about the argument
	_, err := d.CtxGetFlags(cu.Context(f.In[0]))
	return err
}

//c:hand createContext
func createContext(d cu.Driver, f *Frame) error {
	ctx, err := d.CtxCreate(cu.CtxFlags(f.In[0]), cu.Device(f.In[1]))
	return made(f, ctx, err)
}

//c:call cuDevicePrimaryCtxRetain (*ptr ctx, i32 dev)
func retainPrimary(d cu.Driver, f *Frame) error {
	ctx, err := retain(d, cu.Device(f.In[0]))
	return made(f, ctx, err)
}

// contexts has the contexts that the program got, until one is found to be gone.
var contexts sync.Map // cu.Context -> nothing

// made returns a context to the program.
func made(f *Frame, ctx cu.Context, err error) error {
	if err == nil {
		contexts.Store(ctx, nil)
	}
	f.Out[0] = uint64(ctx)
	return err
}

// contextOf returns the context for an operation on a stream or event: the current one, or where
// there is none that of the stream, as drivers since CUDA 13.0 do. A default stream has no context of
// its own.
func (f *Frame) contextOf(d cu.Driver, handle uint64) cu.Context {
	if f.Ctx != 0 || handle <= uint64(cu.StreamPerThread) {
		return cu.Context(f.Ctx)
	}
	return withoutCurrent(d, handle)
}

// withoutCurrent asks in any context that is alive which one a stream has. An event is found in
// all.
func withoutCurrent(d cu.Driver, handle uint64) (found cu.Context) {
	contexts.Range(func(x, _ any) bool {
		ctx := x.(cu.Context)
		if _, err := d.CtxGetFlags(ctx); errors.Is(err, cu.ErrorInvalidContext) || errors.Is(err, cu.ErrorContextIsDestroyed) {
			contexts.Delete(ctx)
			return true
		}
		found = ctx
		if of, err := d.StreamGetCtx(ctx, cu.Stream(handle)); err == nil {
			found = of
		}
		return false
	})
	return found
}

//c:hand destroyContext
func destroyContext(d cu.Driver, f *Frame) error {
	f.Ctx = 0 // an error is about the argument
	ctx := cu.Context(f.In[0])
	old := modulesOf(ctx)
	err := d.CtxDestroy(ctx)
	if err == nil {
		old.forget()
	}
	return err
}

//c:call cuCtxSynchronize ()
func ctxSynchronize(d cu.Driver, f *Frame) error { return d.CtxSynchronize(cu.Context(f.Ctx)) }

// of returns the context that an argument names: 0 is the current one.
func (f *Frame) of(i int) cu.Context {
	if f.In[i] == 0 {
		return cu.Context(f.Ctx)
	}
	return cu.Context(f.In[i])
}

//c:call cuCtxSynchronize_v2 (ptr ctx)
func ctxSynchronizeOf(d cu.Driver, f *Frame) error { return d.CtxSynchronize(f.of(0)) }

//c:call cuCtxGetDevice_v2 (*i32 dev, ptr ctx)
func ctxGetDeviceOf(d cu.Driver, f *Frame) error {
	dev, err := d.CtxGetDevice(f.of(0))
	f.Out[0] = uint64(dev)
	return err
}

// apiVersion is what drivers say of contexts of every form since cuCtxCreate_v2.
const apiVersion = 3020

//c:call cuCtxGetApiVersion (ptr ctx, *u32 version)
func ctxGetAPIVersion(d cu.Driver, f *Frame) error {
	_, err := d.CtxGetFlags(f.of(0))
	f.Out[0] = apiVersion
	return err
}

//c:call cuCtxGetId (ptr ctx, *u64 id)
func ctxGetID(d cu.Driver, f *Frame) (err error) {
	soft, ok := cu.As[interface {
		CtxGetId(cu.Context) (uint64, error)
	}](d)
	if !ok {
		return cu.ErrorNotSupported
	}
	f.Out[0], err = soft.CtxGetId(f.of(0))
	return err
}
