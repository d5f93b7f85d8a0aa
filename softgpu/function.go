package softgpu

import (
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/simt"
)

// function is a kernel that somebody has asked for.
type function struct {
	mod        *module
	handle     cu.Function
	kernel     *simt.Kernel
	name       string
	maxDynamic int // bytes of dynamic shared memory a launch may ask for
}

// functionCall is a call about a function.
func (d *Driver) functionCall(h cu.Context, fh cu.Function, what string, f func(*function) error) error {
	if _, err := d.enter(h, what); err != nil {
		return err
	}
	defer d.mu.Unlock()
	fn, err := lookup[*function](d, uintptr(fh), what, "function")
	if err != nil {
		return err
	}
	return f(fn)
}

// FuncGetAttribute reads a property of a kernel.
func (d *Driver) FuncGetAttribute(h cu.Context, attrib cu.FunctionAttribute, fh cu.Function) (value int32, err error) {
	const what = "read a property of a kernel"
	err = d.functionCall(h, fh, what, func(f *function) error {
		v, ok := f.attribute(attrib)
		if !ok {
			return refuse(cu.ErrorInvalidValue, what, "no attribute %d", attrib)
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
		if k.ReqBlock != [3]int{} { // hardware tells of .maxntid only
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
		return min(k.Registers, 255), true
	case cu.FuncAttributePTXVersion:
		return f.target(), true
	case cu.FuncAttributeBinaryVersion:
		return dev.attr(cu.DeviceAttributeComputeCapabilityMajor)*10 + dev.attr(cu.DeviceAttributeComputeCapabilityMinor), true
	case cu.FuncAttributeCacheModeCA:
		return 0, true
	case cu.FuncAttributeMaxDynamicSharedBytes:
		return f.maxDynamic, true
	}
	return 0, false
}

// maxThreads is the device's bound or the kernel's own.
func (f *function) maxThreads() int {
	return min(f.kernel.MaxThreads, f.mod.ctx.dev.attr(cu.DeviceAttributeMaxThreadsPerBlock))
}

// target is the number in the module's .target sm_NN.
func (f *function) target() int {
	for _, t := range f.mod.source.Target {
		digits := strings.TrimRight(strings.TrimPrefix(t, "sm_"), "af")
		if n, err := strconv.Atoi(digits); err == nil {
			return n
		}
	}
	return 0
}

// FuncSetAttribute sets the bound of dynamic shared memory.
func (d *Driver) FuncSetAttribute(h cu.Context, fh cu.Function, attrib cu.FunctionAttribute, value int32) error {
	const what = "set a property of a kernel"
	return d.functionCall(h, fh, what, func(f *function) error {
		most := f.mod.ctx.dev.attr(cu.DeviceAttributeMaxSharedMemoryPerBlockOptin)
		switch {
		case attrib != cu.FuncAttributeMaxDynamicSharedBytes:
			return refuse(cu.ErrorInvalidValue, what, "attribute %d cannot be set", attrib)
		case value < 0 || int(value)+f.kernel.SharedBytes > most:
			return refuse(cu.ErrorInvalidValue, what, "%d bytes and %d static ones: a block has at most MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, %d",
				value, f.kernel.SharedBytes, most)
		}
		f.maxDynamic = int(value)
		return nil
	})
}

// FuncGetParamInfo is the place of a parameter.
func (d *Driver) FuncGetParamInfo(h cu.Context, fh cu.Function, index uintptr) (offset, bytes uintptr, err error) {
	what := "place of a parameter"
	err = d.functionCall(h, fh, what, func(f *function) error {
		if index >= uintptr(len(f.kernel.Params)) {
			return refuse(cu.ErrorInvalidValue, what, "kernel %s has %d parameters, there is no %d", f.name, len(f.kernel.Params), index)
		}
		p := f.kernel.Params[index]
		offset, bytes = uintptr(p.Offset), uintptr(p.Size)
		return nil
	})
	return offset, bytes, err
}
