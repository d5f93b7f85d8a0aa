package entry

import (
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/ferrygpu/ferry/cu"
)

// codeLibrary is a CUlibrary: code that belongs to no context. Each context that uses it gets a module
// of it.
type codeLibrary struct {
	handle uint64
	image  []byte
	jit    jit // without the program's buffers, which it need not keep
	names  func() ([]string, error)

	mu       sync.Mutex
	unloaded bool
	modules  map[cu.Context]*libraryModule
	kernels  map[string]*kernel
}

// libraryModule is the module of a library in one context. Each of several callers waits for the
// one that loads it.
type libraryModule struct {
	get func() (cu.Module, error)
}

// kernel is a CUkernel: a kernel of a library. Each context that uses it gets a function of it.
type kernel struct {
	handle    cu.Function
	name      string
	lib       *codeLibrary
	functions sync.Map // cu.Context -> cu.Function
	settings  kernelSettings
}

// firstOwn is the lowest handle of a library or a kernel. Handles of the driver are far lower, so a
// launch tells a kernel from a function.
const firstOwn = 1 << 44

// own has the libraries and kernels by their handles. None is used twice.
var own struct {
	sync.Mutex
	last     uint64
	byHandle sync.Map // uint64 -> *codeLibrary or *kernel
}

func ownHandle(x any) uint64 {
	own.Lock()
	defer own.Unlock()
	own.last += 16
	own.byHandle.Store(firstOwn+own.last, x)
	return firstOwn + own.last
}

// find returns the library or kernel of a handle.
func find[T any](handle uint64) (x T, err error) {
	v, _ := own.byHandle.Load(handle)
	x, ok := v.(T)
	if !ok {
		return x, cu.ErrorInvalidHandle
	}
	return x, nil
}

// kernelFunction returns the function that a handle of a launch names: a function of a module, or
// a kernel of a library.
func kernelFunction(d cu.Driver, ctx cu.Context, fn cu.Function) (cu.Function, error) {
	if fn < firstOwn {
		return fn, nil
	}
	k, err := find[*kernel](uint64(fn))
	if err != nil {
		return 0, err
	}
	if f, ok := k.functions.Load(ctx); ok {
		return f.(cu.Function), nil
	}
	module, err := k.lib.module(d, ctx)
	if err != nil {
		return 0, err
	}
	f, err := d.ModuleGetFunction(ctx, module, k.name)
	if err != nil {
		return 0, err
	}
	remember(f, module, k.name)
	if err := k.settings.begin(d, ctx, f, func() { k.functions.Store(ctx, f) }); err != nil {
		return 0, err
	}
	return f, nil
}

// module returns the module of a context. The first caller of a context loads it, without a lock.
func (l *codeLibrary) module(d cu.Driver, ctx cu.Context) (cu.Module, error) {
	m, err := l.moduleIn(d, ctx)
	if err != nil {
		return 0, err
	}
	loaded, err := m.get()
	if err != nil {
		l.drop(ctx, m) // so that the next call tries again
	}
	return loaded, err
}

// moduleIn returns the entry of a context, which it makes if there is none.
func (l *codeLibrary) moduleIn(d cu.Driver, ctx cu.Context) (*libraryModule, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unloaded {
		return nil, cu.ErrorInvalidHandle
	}
	m := l.modules[ctx]
	if m == nil {
		m = &libraryModule{sync.OnceValues(func() (cu.Module, error) { return load(d, ctx, l.image, &l.jit) })}
		l.modules[ctx] = m
	}
	return m, nil
}

// drop forgets the module of a context, unless there is a newer one.
func (l *codeLibrary) drop(ctx cu.Context, m *libraryModule) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.modules[ctx] == m {
		delete(l.modules, ctx)
	}
}

// entryNames returns the names of the kernels in an image.
func entryNames(image []byte) (names []string, err error) {
	modules, err := parse(image)
	if err != nil {
		return nil, err
	}
	for _, m := range modules {
		for _, e := range m.Entries() {
			names = append(names, e.Name)
		}
	}
	return names, nil
}

// newLibrary makes a library. With a current context its code is compiled at once, as without
// lazy loading; else where a context first uses it.
func newLibrary(d cu.Driver, f *Frame, code []byte, j *jit) error {
	l := &codeLibrary{image: slices.Clone(code), modules: map[cu.Context]*libraryModule{}, kernels: map[string]*kernel{}}
	l.names = sync.OnceValues(func() ([]string, error) { return entryNames(l.image) })
	l.jit.JITOptions = j.JITOptions
	ctx := cu.Context(f.Ctx)
	if ctx == 0 {
		start := time.Now()
		if _, err := l.names(); err != nil {
			return err
		}
		j.spent(start)
	} else {
		m, err := load(d, ctx, l.image, j)
		if err != nil {
			return err
		}
		l.modules[ctx] = &libraryModule{func() (cu.Module, error) { return m, nil }}
	}
	l.handle = ownHandle(l)
	f.Out[0] = l.handle
	return nil
}

// binaryPreserved is CU_LIBRARY_BINARY_IS_PRESERVED: the program keeps the code. It changes nothing
// here, because a library has a copy.
const binaryPreserved = 1

// mayLoad refuses options of a library that are not known.
func mayLoad(options []uint32) error {
	for _, o := range options {
		if o != binaryPreserved {
			return cu.ErrorNotSupported
		}
	}
	return nil
}

//c:call cuLibraryLoadData (*ptr library, ptr image, ptr jitOptions, ptr jitValues, u32 jitCount, ptr options, ptr values, u32 count)
func libraryLoadData(d cu.Driver, f *Frame) error {
	code, err := image(f.pointer(0))
	if err != nil {
		return err
	}
	j, err := newJIT(f.In[3], f.pointer(1), f.pointer(2))
	if err == nil {
		err = mayLoad(list[uint32](f.pointer(4), f.In[6]))
	}
	if err != nil {
		return err
	}
	return newLibrary(d, f, code, j)
}

//c:call cuLibraryLoadFromFile (*ptr library, str name, ptr jitOptions, ptr jitValues, u32 jitCount, ptr options, ptr values, u32 count)
func libraryLoadFile(d cu.Driver, f *Frame) error {
	code, err := os.ReadFile(f.text(0))
	if err != nil {
		return errors.Join(err, cu.ErrorFileNotFound)
	}
	j, err := newJIT(f.In[4], f.pointer(2), f.pointer(3))
	if err == nil {
		err = mayLoad(list[uint32](f.pointer(5), f.In[7]))
	}
	if err != nil {
		return err
	}
	return newLibrary(d, f, code, j)
}

//c:call cuLibraryUnload (ptr library)
func libraryUnload(d cu.Driver, f *Frame) error {
	l, err := find[*codeLibrary](f.In[0])
	if err != nil {
		return err
	}
	modules, err := l.end()
	for ctx, x := range modules {
		m, failed := x.get()
		if failed != nil {
			continue // it was never loaded
		}
		if failed = d.ModuleUnload(ctx, m); failed != nil && !errors.Is(failed, cu.ErrorInvalidContext) && !errors.Is(failed, cu.ErrorContextIsDestroyed) {
			err = errors.Join(err, failed)
		}
		forget(m)
	}
	return err
}

// end makes the handles of a library and its kernels invalid, and returns its modules. Of several
// callers one gets them.
func (l *codeLibrary) end() (map[cu.Context]*libraryModule, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unloaded {
		return nil, cu.ErrorInvalidHandle
	}
	l.unloaded = true
	own.byHandle.Delete(l.handle)
	for _, k := range l.kernels {
		own.byHandle.Delete(uint64(k.handle))
		forgetName(k.handle)
	}
	return l.modules, nil
}

// kernelNamed returns the kernel with a name, which the library must have.
func (l *codeLibrary) kernelNamed(name string) (*kernel, error) {
	names, err := l.names()
	switch {
	case err != nil:
		return nil, err
	case !slices.Contains(names, name):
		return nil, cu.ErrorNotFound
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unloaded {
		return nil, cu.ErrorInvalidHandle
	}
	k := l.kernels[name]
	if k == nil {
		k = &kernel{name: name, lib: l}
		k.handle = cu.Function(ownHandle(k))
		l.kernels[name] = k
	}
	return k, nil
}

//c:call cuLibraryGetKernel (*ptr kernel, ptr library, str name)
func libraryGetKernel(_ cu.Driver, f *Frame) error {
	l, err := find[*codeLibrary](f.In[0])
	if err != nil {
		return err
	}
	k, err := l.kernelNamed(f.text(1))
	if err == nil {
		f.Out[0] = uint64(k.handle)
	}
	return err
}

//c:call cuLibraryGetKernelCount (*u32 count, ptr library)
func libraryGetKernelCount(_ cu.Driver, f *Frame) error {
	l, err := find[*codeLibrary](f.In[0])
	if err != nil {
		return err
	}
	names, err := l.names()
	f.Out[0] = uint64(len(names))
	return err
}

//c:call cuLibraryEnumerateKernels (ptr kernels, u32 count, ptr library)
func libraryEnumerateKernels(_ cu.Driver, f *Frame) error {
	l, err := find[*codeLibrary](f.In[2])
	if err != nil {
		return err
	}
	names, err := l.names()
	if err != nil {
		return err
	}
	to := list[cu.Function](f.pointer(0), f.In[1])
	if to == nil {
		return cu.ErrorInvalidValue
	}
	for i := range min(len(to), len(names)) {
		k, err := l.kernelNamed(names[i])
		if err != nil {
			return err
		}
		to[i] = k.handle
	}
	return nil
}

//c:call cuLibraryGetModule (*ptr module, ptr library)
func libraryGetModule(d cu.Driver, f *Frame) error {
	l, err := find[*codeLibrary](f.In[0])
	if err != nil {
		return err
	}
	m, err := l.module(d, cu.Context(f.Ctx))
	f.Out[0] = uint64(m)
	return err
}

//c:call cuLibraryGetGlobal (?u64 dptr, ?size bytes, ptr library, str name)
func libraryGetGlobal(d cu.Driver, f *Frame) error {
	l, err := find[*codeLibrary](f.In[0])
	if err != nil {
		return err
	}
	m, err := l.module(d, cu.Context(f.Ctx))
	if err != nil {
		return err
	}
	p, bytes, err := d.ModuleGetGlobal(cu.Context(f.Ctx), m, f.text(1))
	f.Out[0], f.Out[1] = uint64(p), uint64(bytes)
	return err
}

//c:call cuKernelGetFunction (*ptr fn, ptr kernel)
func kernelGetFunction(d cu.Driver, f *Frame) error {
	if _, err := find[*kernel](f.In[0]); err != nil {
		return err
	}
	fn, err := kernelFunction(d, cu.Context(f.Ctx), cu.Function(f.In[0]))
	f.Out[0] = uint64(fn)
	return err
}

//c:call cuKernelGetLibrary (*ptr library, ptr kernel)
func kernelGetLibrary(_ cu.Driver, f *Frame) error {
	k, err := find[*kernel](f.In[0])
	if err == nil {
		f.Out[0] = k.lib.handle
	}
	return err
}

// inContextOf calls do with the function of a kernel in the current context, which must be one of the
// device, or in the device's primary context.
func inContextOf(d cu.Driver, f *Frame, handle uint64, dev cu.Device, do func(ctx cu.Context, fn cu.Function) error) (err error) {
	ctx := cu.Context(f.Ctx)
	if _, err := find[*kernel](handle); err != nil {
		return err
	}
	if of, failed := d.CtxGetDevice(ctx); ctx == 0 || failed != nil || of != dev {
		if ctx, err = retain(d, dev); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, release(d, dev)) }()
	}
	fn, err := kernelFunction(d, ctx, cu.Function(handle))
	if err != nil {
		return err
	}
	return do(ctx, fn)
}

//c:call cuKernelGetAttribute (*i32 value, u32 attribute, ptr kernel, i32 dev)
func kernelGetAttribute(d cu.Driver, f *Frame) error {
	return inContextOf(d, f, f.In[1], cu.Device(f.In[2]), func(ctx cu.Context, fn cu.Function) error {
		v, err := d.FuncGetAttribute(ctx, cu.FunctionAttribute(f.In[0]), fn)
		f.Out[0] = uint64(v)
		return err
	})
}

//c:call cuKernelSetAttribute (u32 attribute, i32 value, ptr kernel, i32 dev)
func kernelSetAttribute(d cu.Driver, f *Frame) error {
	attribute, value := cu.FunctionAttribute(f.In[0]), int32(f.In[1])
	return setKernel(d, f, f.In[2], cu.Device(f.In[3]), attribute, func(ctx cu.Context, fn cu.Function) error {
		return d.FuncSetAttribute(ctx, fn, attribute, value)
	})
}

//c:call cuKernelSetCacheConfig (ptr kernel, u32 config, i32 dev)
func kernelSetCacheConfig(d cu.Driver, f *Frame) error {
	config := cu.FuncCache(f.In[1])
	return setKernel(d, f, f.In[0], cu.Device(f.In[2]), cacheSetting, func(ctx cu.Context, fn cu.Function) error {
		return d.FuncSetCacheConfig(ctx, fn, config)
	})
}

//c:call cuKernelGetParamInfo (ptr kernel, size index, *size offset, ?size bytes)
func kernelGetParamInfo(d cu.Driver, f *Frame) error {
	if f.In[0] == 0 {
		return cu.ErrorInvalidValue
	}
	if _, err := find[*kernel](f.In[0]); err != nil {
		return err
	}
	fn, err := kernelFunction(d, cu.Context(f.Ctx), cu.Function(f.In[0]))
	if err != nil {
		return err
	}
	offset, bytes, err := d.FuncGetParamInfo(cu.Context(f.Ctx), fn, uintptr(f.In[1]))
	f.Out[0], f.Out[1] = uint64(offset), uint64(bytes)
	return err
}

// functions has what is known of functions: their modules and names.
var functions sync.Map // cu.Function -> function

type function struct {
	module cu.Module
	name   string
}

// functionOf returns what is known of a function. NULL is a wrong value, as on an H200, where calls
// only ask about the function.
func functionOf(handle uint64) (function, error) {
	if x, ok := functions.Load(cu.Function(handle)); ok {
		return x.(function), nil
	}
	if handle == 0 {
		return function{}, cu.ErrorInvalidValue
	}
	return function{}, cu.ErrorInvalidHandle
}

func remember(fn cu.Function, module cu.Module, name string) {
	functions.Store(fn, function{module, name})
}

// forget drops the functions of a module that is unloaded.
func forget(module cu.Module) {
	images.Delete(module)
	functions.Range(func(fn, x any) bool {
		if x.(function).module == module {
			functions.Delete(fn)
			layouts.byFunction.Delete(fn)
			oldLaunches.Delete(fn)
			forgetName(fn.(cu.Function))
		}
		return true
	})
}

//c:call cuModuleGetFunction (*ptr fn, ptr module, str name)
func moduleGetFunction(d cu.Driver, f *Frame) error {
	name := f.text(1)
	fn, err := d.ModuleGetFunction(cu.Context(f.Ctx), cu.Module(f.In[0]), name)
	if err == nil {
		remember(fn, cu.Module(f.In[0]), name)
	}
	f.Out[0] = uint64(fn)
	return err
}

//c:call cuFuncGetModule (*ptr module, ptr fn)
func funcGetModule(_ cu.Driver, f *Frame) error {
	fn, err := functionOf(f.In[0])
	f.Out[0] = uint64(fn.module)
	return err
}

//c:call cuFuncLoad (ptr fn)
func funcLoad(_ cu.Driver, f *Frame) error {
	if _, ok := functions.Load(cu.Function(f.In[0])); !ok {
		return cu.ErrorInvalidHandle
	}
	return nil // functions are loaded with their module
}

//c:call cuFuncIsLoaded (*u32 state, ptr fn)
func funcIsLoaded(d cu.Driver, f *Frame) error {
	f.Out[0] = 1 // CU_FUNCTION_LOADING_STATE_LOADED
	return funcLoad(d, f)
}
