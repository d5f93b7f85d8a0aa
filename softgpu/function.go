package softgpu

import (
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/ptx"
)

// FuncGetAttribute returns an attribute of a kernel.
func (d *Driver) FuncGetAttribute(h cu.Context, attrib cu.FunctionAttribute, fh cu.Function) (value int32, err error) {
	const what = "read a property of a kernel"
	err = d.functionCall(h, fh, what, func(f *function) error {
		v, ok := f.attribute(attrib)
		if !ok {
			return refuse(cu.ErrorInvalidValue, what, "attribute %d is not known", attrib)
		}
		value = int32(v)
		return nil
	})
	return value, err
}

func (f *function) attribute(a cu.FunctionAttribute) (int, bool) {
	dev, k := f.mod.ctx.dev, f.kernel
	switch a {
	case cu.FuncAttributeMaxThreadsPerBlock:
		if k.ReqBlock != [3]int{} { // hardware reports .maxntid only
			return dev.attr(cu.DeviceAttributeMaxThreadsPerBlock), true
		}
		return f.maxThreads(), true
	case cu.FuncAttributeSharedSizeBytes:
		return k.SharedBytes, true
	case cu.FuncAttributeConstSizeBytes:
		return k.ConstBytes, true
	case cu.FuncAttributeLocalSizeBytes:
		return k.LocalBytes, true
	case cu.FuncAttributeNumRegs:
		return f.registers(), true
	case cu.FuncAttributePTXVersion:
		return f.target(), true
	case cu.FuncAttributeBinaryVersion:
		return dev.attr(cu.DeviceAttributeComputeCapabilityMajor)*10 + dev.attr(cu.DeviceAttributeComputeCapabilityMinor), true
	case cu.FuncAttributeCacheModeCA:
		return 0, true
	case cu.FuncAttributeMaxDynamicSharedBytes:
		return f.maxDynamic, true
	case cu.FuncAttributePreferredSharedMemoryCarveout:
		return f.carveout, true
	case cu.FuncAttributeRequiredClusterWidth, cu.FuncAttributeRequiredClusterHeight, cu.FuncAttributeRequiredClusterDepth:
		return f.source().Cluster[a-cu.FuncAttributeRequiredClusterWidth], true
	case cu.FuncAttributeClusterSizeMustBeSet, cu.FuncAttributeNonPortableClusterSizeAllowed, cu.FuncAttributeClusterSchedulingPolicyPreference:
		return 0, true
	}
	return 0, false
}

// source returns the kernel as parsed.
func (f *function) source() *ptx.Func {
	if s := f.mod.source.Func(f.name); s != nil {
		return s
	}
	return &ptx.Func{}
}

// maxThreads returns the smaller of the device's and the kernel's bounds.
func (f *function) maxThreads() int {
	return min(f.kernel.MaxThreads, f.mod.ctx.dev.attr(cu.DeviceAttributeMaxThreadsPerBlock))
}

// target returns the number in the module's .target sm_NN.
func (f *function) target() int { return f.mod.target() }

func (m *module) target() int {
	for _, t := range m.source.Target {
		digits := strings.TrimRight(strings.TrimPrefix(t, "sm_"), "af")
		if n, err := strconv.Atoi(digits); err == nil {
			return n
		}
	}
	return 0
}

// FuncSetAttribute sets the bound of dynamic shared memory, or the preferred share of
// shared memory.
func (d *Driver) FuncSetAttribute(h cu.Context, fh cu.Function, attrib cu.FunctionAttribute, value int32) error {
	const what = "set a property of a kernel"
	return d.functionCall(h, fh, what, func(f *function) error {
		switch attrib {
		case cu.FuncAttributeMaxDynamicSharedBytes:
			return f.allowShared(int(value), what)
		case cu.FuncAttributePreferredSharedMemoryCarveout:
			if value < -1 || value > 100 {
				return refuse(cu.ErrorInvalidValue, what, "a carveout of %d percent, must be 0 to 100, or -1 for the default", value)
			}
			f.carveout = int(value)
			return nil
		case cu.FuncAttributeRequiredClusterWidth, cu.FuncAttributeRequiredClusterHeight, cu.FuncAttributeRequiredClusterDepth,
			cu.FuncAttributeNonPortableClusterSizeAllowed, cu.FuncAttributeClusterSchedulingPolicyPreference:
			return noClusters(what)
		}
		return refuse(cu.ErrorInvalidValue, what, "attribute %d cannot be set", attrib)
	})
}

// allowShared sets how much dynamic shared memory a launch may use.
func (f *function) allowShared(bytes int, what string) error {
	most := f.mod.ctx.dev.attr(cu.DeviceAttributeMaxSharedMemoryPerBlockOptin)
	if bytes < 0 || bytes+f.kernel.SharedBytes > most {
		return refuse(cu.ErrorInvalidValue, what, "%d bytes and %d static bytes: a block has at most MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, %d",
			bytes, f.kernel.SharedBytes, most)
	}
	f.maxDynamic = bytes
	return nil
}

// FuncSetCacheConfig stores a preference. It changes the occupancy. On devices
// of compute capability 3.0 and lower, a kernel with another preference than the
// kernel before it starts when no kernel runs.
func (d *Driver) FuncSetCacheConfig(h cu.Context, fh cu.Function, config cu.FuncCache) error {
	const what = "set the cache preference of a kernel"
	return d.functionCall(h, fh, what, func(f *function) error {
		if config > cu.FuncCachePreferEqual {
			return refuse(cu.ErrorInvalidValue, what, "%d is not a preference", config)
		}
		f.cache = config
		return nil
	})
}
