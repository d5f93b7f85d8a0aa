package entry

import (
	"errors"
	"sync"

	"github.com/ferrygpu/ferry/cu"
)

// A primary context that begins again has the handle that it had. What libraries keep of a context
// must therefore end with the context.

// primaries has the handles of primary contexts, which do not change.
var primaries sync.Map // cu.Device -> cu.Context

// retain takes a reference to a primary context. It forgets what is left from before that context began.
func retain(d cu.Driver, dev cu.Device) (cu.Context, error) {
	ctx, err := d.DevicePrimaryCtxRetain(dev)
	if err != nil {
		return 0, err
	}
	primaries.Store(dev, ctx)
	for _, x := range modulesOf(ctx) {
		if m, err := x.module.get(); err == nil && x.lib.lost(d, ctx, m) {
			libraryModules{x}.forget()
		}
	}
	return ctx, nil
}

// lost reports whether a module ended with an earlier context of the same handle. Handles of modules
// are never used twice.
func (l *codeLibrary) lost(d cu.Driver, ctx cu.Context, m cu.Module) bool {
	names, err := l.names()
	if err != nil || len(names) == 0 {
		return false
	}
	_, err = d.ModuleGetFunction(ctx, m, names[0])
	return errors.Is(err, cu.ErrorInvalidHandle)
}

// release drops a reference to a primary context.
func release(d cu.Driver, dev cu.Device) error {
	return endPrimary(d, dev, d.DevicePrimaryCtxRelease)
}

// endPrimary makes a call that may destroy a primary context, and forgets what ended with it. What
// another thread has loaded since into a new context stays.
func endPrimary(d cu.Driver, dev cu.Device, call func(cu.Device) error) error {
	var old libraryModules
	if ctx, ok := primaries.Load(dev); ok {
		old = modulesOf(ctx.(cu.Context))
	}
	if err := call(dev); err != nil || len(old) == 0 {
		return err
	}
	if _, active, err := d.DevicePrimaryCtxGetState(dev); err == nil && active == 0 {
		old.forget()
	}
	return nil
}

//c:call cuDevicePrimaryCtxRelease_v2 (i32 dev)
func releasePrimary(d cu.Driver, f *Frame) error { return release(d, cu.Device(f.In[0])) }

//c:call cuDevicePrimaryCtxReset_v2 (i32 dev)
func resetPrimary(d cu.Driver, f *Frame) error {
	return endPrimary(d, cu.Device(f.In[0]), d.DevicePrimaryCtxReset)
}

// libraryModules are modules of libraries in one context.
type libraryModules []contextModule

type contextModule struct {
	lib    *codeLibrary
	ctx    cu.Context
	module *libraryModule
}

// modulesOf returns what libraries have loaded into a context.
func modulesOf(ctx cu.Context) (all libraryModules) {
	own.byHandle.Range(func(_, x any) bool {
		l, ok := x.(*codeLibrary)
		if !ok {
			return true
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if m := l.modules[ctx]; m != nil {
			all = append(all, contextModule{l, ctx, m})
		}
		return true
	})
	return all
}

// forget drops modules that have ended, and their functions.
func (all libraryModules) forget() {
	for _, x := range all {
		x.lib.drop(x.ctx, x.module)
		m, err := x.module.get()
		if err != nil {
			continue
		}
		for _, k := range x.lib.allKernels() {
			k.forget(x.ctx, m)
		}
		forget(m)
	}
}

// allKernels returns the kernels that the program has asked for.
func (l *codeLibrary) allKernels() (all []*kernel) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.kernels {
		all = append(all, k)
	}
	return all
}

// forget drops the function of a kernel in a context, if it is one of a module.
func (k *kernel) forget(ctx cu.Context, m cu.Module) {
	f, ok := k.functions.Load(ctx)
	if !ok {
		return
	}
	if x, ok := functions.Load(f); !ok || x.(function).module == m {
		k.functions.CompareAndDelete(ctx, f)
	}
}
