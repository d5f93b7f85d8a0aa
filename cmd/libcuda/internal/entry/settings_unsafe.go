package entry

import (
	"runtime"
	"sync"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: Names that a program gets the address of are pinned, until their module is unloaded.

// preferences are settings of contexts that devices may ignore, and that the software GPU does.
var preferences struct {
	cache, banks sync.Map // cu.Context -> uint32
}

// prefer keeps a setting of the current context, if it is one of those that CUDA has.
func prefer(d cu.Driver, f *Frame, of *sync.Map, last uint64) error {
	if _, err := d.CtxGetFlags(cu.Context(f.Ctx)); err != nil {
		return err
	}
	if f.In[0] > last {
		return cu.ErrorInvalidValue
	}
	of.Store(cu.Context(f.Ctx), uint32(f.In[0]))
	return nil
}

// preferred returns a setting, or what contexts start with.
func preferred(d cu.Driver, f *Frame, of *sync.Map, first uint32) error {
	_, err := d.CtxGetFlags(cu.Context(f.Ctx))
	f.Out[0] = uint64(first)
	if x, ok := of.Load(cu.Context(f.Ctx)); ok {
		f.Out[0] = uint64(x.(uint32))
	}
	return err
}

// The last values of CUfunc_cache and CUsharedconfig, and what devices without a choice of banks say.
const (
	lastCache = 3 // CU_FUNC_CACHE_PREFER_EQUAL
	lastBanks = 2 // CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE
	fourBytes = 1 // CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE
)

//c:call cuCtxSetCacheConfig (u32 config)
func ctxSetCache(d cu.Driver, f *Frame) error { return prefer(d, f, &preferences.cache, lastCache) }

//c:call cuCtxGetCacheConfig (*u32 config)
func ctxGetCache(d cu.Driver, f *Frame) error { return preferred(d, f, &preferences.cache, 0) }

//c:call cuCtxSetSharedMemConfig (u32 config)
func ctxSetBanks(d cu.Driver, f *Frame) error { return prefer(d, f, &preferences.banks, lastBanks) }

// ctxGetBanks returns the size of banks. Devices since Maxwell have one size, whatever was set.
//
//c:call cuCtxGetSharedMemConfig (*u32 config)
func ctxGetBanks(d cu.Driver, f *Frame) error { return preferred(d, f, new(sync.Map), fourBytes) }

//c:call cuFuncSetSharedMemConfig (ptr fn, u32 config)
func funcSetBanks(d cu.Driver, f *Frame) error {
	if f.In[1] > lastBanks {
		return cu.ErrorInvalidValue
	}
	_, err := d.FuncGetAttribute(cu.Context(f.Ctx), cu.FuncAttributeMaxThreadsPerBlock, cu.Function(f.In[0]))
	return err
}

// affinitySupport says that no device gives a context a part of its multiprocessors.
//
//c:call cuDeviceGetExecAffinitySupport (*i32 supported, u32 type, i32 dev)
func affinitySupport(d cu.Driver, f *Frame) error {
	_, err := d.DeviceTotalMem(cu.Device(f.In[1]))
	f.Out[0] = 0
	return err
}

//c:call cuMemRangeGetAttributes (ptr data, ptr sizes, ptr attributes, size count, u64 dptr, size bytes)
func memRangeGetAttributes(d cu.Driver, f *Frame) error {
	data, sizes := list[uint64](f.pointer(0), f.In[3]), list[uint64](f.pointer(1), f.In[3])
	attributes := list[cu.MemRangeAttribute](f.pointer(2), f.In[3])
	if len(data) == 0 || len(sizes) == 0 || len(attributes) == 0 {
		return cu.ErrorInvalidValue
	}
	for i, a := range attributes {
		if sizes[i]%4 != 0 {
			return cu.ErrorInvalidValue
		}
		if err := d.MemRangeGetAttribute(cu.Context(f.Ctx), list[int32](pointerAt(&data[i]), sizes[i]/4), a, cu.DevicePtr(f.In[4]), uintptr(f.In[5])); err != nil {
			return err
		}
	}
	return nil
}

// names keeps the names that programs have the address of.
var names sync.Map // cu.Function -> *pinnedName

type pinnedName struct {
	text []byte
	pin  runtime.Pinner
}

// nameOf gives the address of a name, which stays valid as long as the function.
func nameOf(f *Frame, fn cu.Function, name string) {
	n := &pinnedName{text: append([]byte(name), 0)}
	n.pin.Pin(&n.text[0])
	if x, had := names.LoadOrStore(fn, n); had {
		n.pin.Unpin()
		n = x.(*pinnedName)
	}
	f.Out[0] = uint64(uintptr(unsafe.Pointer(&n.text[0])))
}

// forgetName drops the name of a function that ends.
func forgetName(fn cu.Function) {
	if x, had := names.LoadAndDelete(fn); had {
		x.(*pinnedName).pin.Unpin()
	}
}

//c:call cuFuncGetName (*ptr name, ptr fn)
func funcGetName(_ cu.Driver, f *Frame) error {
	x, err := functionOf(f.In[0])
	if err != nil {
		return err
	}
	nameOf(f, cu.Function(f.In[0]), x.name)
	return nil
}

//c:call cuKernelGetName (*ptr name, ptr kernel)
func kernelGetName(_ cu.Driver, f *Frame) error {
	if f.In[0] == 0 {
		return cu.ErrorInvalidValue
	}
	k, err := find[*kernel](f.In[0])
	if err == nil {
		nameOf(f, k.handle, k.name)
	}
	return err
}
