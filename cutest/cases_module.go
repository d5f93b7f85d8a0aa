package cutest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ferrygpu/ferry/cu"
)

const moduleDoc = "Driver API: Module Management, "

// allOf returns the whole text of an error, with the compiler's log.
func allOf(err error) string { return fmt.Sprintf("%+v", err) }

// module loads PTX and unloads it at the end.
func (c *trial) module(ptx string) cu.Module {
	m, err := c.d.ModuleLoadData(c.ctx, []byte(ptx))
	c.ok(err, "load a module")
	ctx := c.ctx
	c.cleanup(func() { c.cleanupError("unload a module", c.d.ModuleUnload(ctx, m)) })
	return m
}

func (c *trial) function(m cu.Module, name string) cu.Function {
	f, err := c.d.ModuleGetFunction(c.ctx, m, name)
	c.ok(err, "kernel "+name)
	return f
}

func (c *trial) global(m cu.Module, name string, size uintptr) cu.DevicePtr {
	p, n, err := c.d.ModuleGetGlobal(c.ctx, m, name)
	c.ok(err, "variable "+name)
	c.check(n == size, "variable %s has %d bytes, want %d", name, n, size)
	return p
}

// refused demands that PTX fails to load with one of the codes.
func (c *trial) refused(what, ptx string, codes ...cu.Result) error {
	m, err := c.d.ModuleLoadData(c.ctx, []byte(ptx))
	c.want(err, what, codes...)
	if err == nil {
		_ = c.d.ModuleUnload(c.ctx, m)
	}
	return err
}

var moduleChecks = []check{
	{"module/jit-error-log", "PTX that does not compile is invalid PTX, and the compiler's log names the line",
		moduleDoc + "cuModuleLoadDataEx, CU_JIT_ERROR_LOG_BUFFER", 0, func(c *trial) {
			err := c.refused("load PTX with a syntax error",
				ptxHeader+".visible .entry broken()\n{\n\t.reg .b32 %r<3>;\n\tmov.u32 %r1 %r2;\n\tret;\n}\n", cu.ErrorInvalidPTX)
			var jit *cu.JITError
			if !errors.As(err, &jit) {
				c.fatal("the error is %T, want *cu.JITError", err)
			}
			c.observe("module.jit-log", jit.Log)
			c.check(strings.Contains(jit.Log, "line 7") || strings.Contains(jit.Log, "7:"), "the log does not name line 7: %q", jit.Log)
		}},
	{"module/unknown-instruction", "an unknown instruction is refused: by hardware at the load, by an emulated device perhaps at the launch",
		moduleDoc + "cuModuleLoadDataEx", needOwnContext, func(c *trial) {
			m, err := c.d.ModuleLoadData(c.ctx, []byte(ptxHeader+
				".visible .entry broken()\n{\n\t.reg .b32 %r<3>;\n\tfrobnicate.u32 %r1, 5;\n\tret;\n}\n"))
			c.wantOrEmulated(err, "load", cu.ErrorInvalidPTX, cu.Success)
			if err == nil {
				err = c.d.LaunchKernel(c.ctx, c.function(m, "broken"), dim(1), dim(1), 0, 0, nil)
				c.check(err != nil, "a kernel with an unknown instruction was launched")
			}
			if cu.AsEmulated(c.d) != nil && !reopens(c.d) {
				return // a library in C returns codes, and its log is that of the load
			}
			c.check(err != nil && strings.Contains(strings.ToLower(allOf(err)), "frobnicate"), "the error does not name the instruction: %v", err)
		}},
	{"module/jit-undeclared", "PTX that uses a register that is not declared is invalid PTX",
		moduleDoc + "cuModuleLoadDataEx", 0, func(c *trial) {
			c.refused("load", ptxHeader+".visible .entry broken()\n{\n\tmov.u32 %r1, 5;\n\tret;\n}\n", cu.ErrorInvalidPTX)
		}},
	{"module/ptx-too-new", "PTX of a version that the driver does not know is refused",
		moduleDoc + "cuModuleLoadData; CUDA_ERROR_UNSUPPORTED_PTX_VERSION", 0, func(c *trial) {
			c.refused("load PTX 99.9", ".version 99.9\n.target sm_52\n.address_size 64\n.visible .entry e() { ret; }\n",
				cu.ErrorUnsupportedPTXVersion)
		}},
	{"module/target-too-new", "PTX for an architecture newer than the device's is refused",
		moduleDoc + "cuModuleLoadData", 0, func(c *trial) {
			if cu.AsEmulated(c.d) != nil {
				c.skip("an emulated device accepts PTX for any target, by design")
			}
			c.refused("module.target-too-new", ".version 6.3\n.target sm_99\n.address_size 64\n.visible .entry e() { ret; }\n",
				cu.ErrorInvalidPTX)
		}},
	{"module/no-image", "data that is not code is an invalid image; text that begins as PTX is invalid PTX",
		moduleDoc + "cuModuleLoadData", 0, func(c *trial) {
			c.refused("nothing", "", cu.ErrorInvalidImage)
			c.refused("prose", "this is not PTX at all", cu.ErrorInvalidImage)
			c.refused("zeroes", strings.Repeat("\x00", 256), cu.ErrorInvalidImage)
			c.refused("half a module", suitePTX[:len(suitePTX)/2], cu.ErrorInvalidPTX)
		}},
	{"module/unresolved", "code that calls a missing function does not load",
		moduleDoc + "cuModuleLoadData", 0, func(c *trial) {
			c.refused("an unresolved call", ptxHeader+".extern .func nowhere;\n.visible .entry e()\n{\n\tcall nowhere;\n\tret;\n}\n",
				cu.ErrorInvalidPTX)
		}},
	{"module/missing-names", "missing kernels and variables are not found; an empty name is an invalid value",
		moduleDoc + "cuModuleGetFunction, cuModuleGetGlobal; CUDA_ERROR_NOT_FOUND", 0, func(c *trial) {
			m := c.module(suitePTX)
			for _, name := range []string{"nowhere", "Store", "store ", "answer"} {
				_, err := c.d.ModuleGetFunction(c.ctx, m, name)
				c.want(err, "kernel "+name, cu.ErrorNotFound)
			}
			_, _, err := c.d.ModuleGetGlobal(c.ctx, m, "nowhere")
			c.want(err, "variable", cu.ErrorNotFound)
			_, err = c.d.ModuleGetFunction(c.ctx, m, "")
			c.want(err, "kernel without a name", cu.ErrorInvalidValue)
		}},
	{"module/initial-values", "variables start with their initial values, or zeroes",
		moduleDoc + "cuModuleGetGlobal; PTX ISA: Initializers", 0, func(c *trial) {
			m := c.module(suitePTX)
			c.same("answer", c.down(c.global(m, "answer", 4), 4), words(42))
			c.same("table", c.down(c.global(m, "table", 16), 16), words(10, 20, 30, 40))
			c.same("zeroes", c.down(c.global(m, "zeroes", 100), 100), make([]byte, 100))
			c.same("constant", c.down(c.global(m, "constant", 4), 4), words(77))
		}},
	{"module/host-writes-variables", "kernels read what the host writes to variables, also to constant ones",
		moduleDoc + "cuModuleGetGlobal; Programming Guide: Device Memory", 0, func(c *trial) {
			m := c.module(suitePTX)
			f, out := c.function(m, "globals"), c.device(16)
			read := func() []byte {
				c.ok(c.d.LaunchKernel(c.ctx, f, dim(1), dim(1), 0, 0, pack(out)), "launch")
				return c.down(out, 16)
			}
			c.same("initially", read(), words(42, 30, 0, 77))
			v := c.random(16)
			c.up(c.global(m, "answer", 4), v[:4])
			c.up(c.global(m, "table", 16)+8, v[4:8])
			c.up(c.global(m, "zeroes", 100)+96, v[8:12])
			c.up(c.global(m, "constant", 4), v[12:])
			c.same("as written", read(), v)
		}},
	{"module/loads-are-apart", "each load of a module has its own variables and kernels",
		moduleDoc + "cuModuleLoadData", 0, func(c *trial) {
			a, b := c.module(suitePTX), c.module(suitePTX)
			p, q := c.global(a, "answer", 4), c.global(b, "answer", 4)
			c.check(p != q, "both loads have their variable at %#x", p)
			c.up(p, words(1))
			c.up(q, words(2))
			c.same("the first", c.down(p, 4), words(1))
			f, out := c.function(b, "globals"), c.device(16)
			c.ok(c.d.LaunchKernel(c.ctx, f, dim(1), dim(1), 0, 0, pack(out)), "launch")
			c.check(word(c.down(out, 16), 0) == 2, "a kernel read the variable of another load")
		}},
	{"module/unload", "unloading a module removes its variables, and those of no other module",
		moduleDoc + "cuModuleUnload", 0, func(c *trial) {
			m, err := c.d.ModuleLoadData(c.ctx, []byte(suitePTX))
			c.ok(err, "load")
			p := c.global(m, "table", 16)
			other := c.module(suitePTX)
			c.ok(c.d.ModuleUnload(c.ctx, m), "unload")
			_, _, err = c.d.MemGetAddressRange(c.ctx, p)
			c.want(err, "range of an unloaded variable", cu.ErrorNotFound)
			c.same("the other module's variable", c.down(c.global(other, "table", 16), 16), words(10, 20, 30, 40))
		}},
	{"module/use-after-unload", "an unloaded module is an invalid handle",
		moduleDoc + "cuModuleUnload (undefined on hardware)", needEmulated, func(c *trial) {
			m, err := c.d.ModuleLoadData(c.ctx, []byte(suitePTX))
			c.ok(err, "load")
			f := c.function(m, "noparams")
			c.ok(c.d.ModuleUnload(c.ctx, m), "unload")
			c.want(c.d.LaunchKernel(c.ctx, f, dim(1), dim(1), 0, 0, nil), "launch", cu.ErrorInvalidHandle)
			c.want(c.d.ModuleUnload(c.ctx, m), "unload again", cu.ErrorInvalidHandle)
			_, err = c.d.ModuleGetFunction(c.ctx, m, "store")
			c.want(err, "kernel", cu.ErrorInvalidHandle)
		}},
	{"module/pointer-to-variable", "the driver reports a variable's address as device memory",
		"Driver API: cuPointerGetAttributes, cuMemGetAddressRange", needUVA, func(c *trial) {
			p := c.global(c.module(suitePTX), "zeroes", 100)
			a := c.attributes(p)
			c.check(a.MemoryType == cu.MemoryTypeDevice && a.DevicePointer == p, "attributes %+v", a)
			c.inRange(a, p, 100)
			_, _, err := c.d.MemGetAddressRange(c.ctx, p)
			c.ok(err, "range")
			c.ok(c.d.MemsetD8(c.ctx, p, 0x77, 100), "fill a variable")
			c.same("filled", c.down(p, 100), repeated(0x77777777, 25))
		}},
}

var functionChecks = []check{
	{"function/param-info", "every parameter has an offset, aligned to its size, and a size; past the last is an invalid value",
		"Driver API: cuFuncGetParamInfo", 0, func(c *trial) {
			f := c.kernel("params")
			for i, want := range [][2]uintptr{{0, 1}, {2, 2}, {4, 4}, {8, 8}, {16, 8}} {
				offset, size, err := c.d.FuncGetParamInfo(c.ctx, f, uintptr(i))
				if isCode(err, cu.ErrorNotSupported) {
					c.skip("the driver is older than the call: %v", err)
				}
				c.ok(err, "parameter")
				c.check(offset == want[0] && size == want[1], "parameter %d: offset %d, size %d, want %d and %d", i, offset, size, want[0], want[1])
			}
			_, _, err := c.d.FuncGetParamInfo(c.ctx, f, 5)
			c.want(err, "past the last", cu.ErrorInvalidValue)
			_, _, err = c.d.FuncGetParamInfo(c.ctx, c.kernel("noparams"), 0)
			c.want(err, "of a kernel without parameters", cu.ErrorInvalidValue)
		}},
	{"function/params-arrive", "parameters of all sizes arrive as they were packed",
		"Driver API: cuLaunchKernel, CU_LAUNCH_PARAM_BUFFER_POINTER", 0, func(c *trial) {
			out := c.device(16)
			for range 5 {
				v := c.random(16)
				want := append(append([]byte(nil), v[:15]...), c.down(out, 16)[15])
				c.launch(0, "params", 1, v[14], uint16(v[12])|uint16(v[13])<<8, word(v, 2), uint64(word(v, 0))|uint64(word(v, 1))<<32, out)
				c.same("as the kernel got them", c.down(out, 16), want)
			}
		}},
	{"function/bounds", "a kernel's largest block is the device's, or its .maxntid; a .reqntid does not show",
		"Driver API: cuFuncGetAttribute, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK", 0, func(c *trial) {
			most := c.attr(cu.DeviceAttributeMaxThreadsPerBlock)
			for name, want := range map[string]int32{"noparams": most, "small": 64, "exact": most} {
				c.wantFunc(name, cu.FuncAttributeMaxThreadsPerBlock, want)
			}
		}},
	{"function/memory", "a kernel's static shared memory reads back, and its local memory unless the compiler kept it in registers",
		"Driver API: cuFuncGetAttribute", 0, func(c *trial) {
			c.wantFunc("reverse", cu.FuncAttributeSharedSizeBytes, 1024)
			c.wantFunc("dynamic", cu.FuncAttributeSharedSizeBytes, 0)
			c.wantFunc("store", cu.FuncAttributeLocalSizeBytes, 0)
			local := c.funcAttr("locals", cu.FuncAttributeLocalSizeBytes)
			c.check(local == 0 || local >= 256, "local memory %d, want 0, or 256 or more", local)
			c.wantFunc("globals", cu.FuncAttributeConstSizeBytes, 4)
			c.check(c.funcAttr("store", cu.FuncAttributeNumRegs) > 0, "the kernel has no registers")
			c.observe("function.registers-of-store", c.funcAttr("store", cu.FuncAttributeNumRegs))
		}},
	{"function/versions", "a kernel reports the architectures of its PTX and of its code",
		"Driver API: cuFuncGetAttribute, CU_FUNC_ATTRIBUTE_PTX_VERSION, CU_FUNC_ATTRIBUTE_BINARY_VERSION", 0, func(c *trial) {
			c.wantFunc("store", cu.FuncAttributePTXVersion, 52)
			c.wantFunc("store", cu.FuncAttributeBinaryVersion,
				10*c.attr(cu.DeviceAttributeComputeCapabilityMajor)+c.attr(cu.DeviceAttributeComputeCapabilityMinor))
		}},
	{"function/attribute-misuse", "attributes that do not exist, or that cannot be set, are refused",
		"Driver API: cuFuncGetAttribute, cuFuncSetAttribute", 0, func(c *trial) {
			f := c.kernel("store")
			_, err := c.d.FuncGetAttribute(c.ctx, 9999, f)
			c.want(err, "get attribute 9999", cu.ErrorInvalidValue)
			c.want(c.d.FuncSetAttribute(c.ctx, f, cu.FuncAttributeNumRegs, 5), "set the number of registers", cu.ErrorInvalidValue)
			c.want(c.d.FuncSetAttribute(c.ctx, f, cu.FuncAttributeMaxDynamicSharedBytes, 1<<30), "1 GiB of shared memory", cu.ErrorInvalidValue)
			c.want(c.d.FuncSetAttribute(c.ctx, f, cu.FuncAttributeMaxDynamicSharedBytes, -5), "negative shared memory", cu.ErrorInvalidValue)
			_, err = c.d.FuncGetAttribute(c.ctx, cu.FuncAttributeNumRegs, 0)
			c.want(err, "attribute of kernel 0", cu.ErrorInvalidHandle)
		}},
	{"function/shared-opt-in", "shared memory above 48 KiB needs an attribute of the kernel, up to the device's limit",
		"Programming Guide: Shared Memory; Driver API: CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES", 0, func(c *trial) {
			most := c.attr(cu.DeviceAttributeMaxSharedMemoryPerBlockOptin)
			if most <= 48<<10 {
				c.skip("the device has no more than 48 KiB")
			}
			f, out := c.function(c.module(suitePTX), "dynamic"), c.device(4)
			launch := func(bytes int32) error {
				return c.d.LaunchKernel(c.ctx, f, dim(1), dim(1), uint32(bytes), 0, pack(out, uint32(bytes)))
			}
			c.want(launch(48<<10+4), "above 48 KiB without the attribute", cu.ErrorInvalidValue)
			c.ok(c.d.FuncSetAttribute(c.ctx, f, cu.FuncAttributeMaxDynamicSharedBytes, most), "set the attribute to the limit")
			got, err := c.d.FuncGetAttribute(c.ctx, cu.FuncAttributeMaxDynamicSharedBytes, f)
			c.ok(err, "read back")
			c.check(got == most, "got %d, want %d", got, most)
			c.ok(launch(most), "all of it")
			c.same("the size that the kernel sees", c.down(out, 4), words(uint32(most)))
			c.want(launch(most+4), "more than all of it", cu.ErrorInvalidValue)
		}},
}

func (c *trial) funcAttr(kernel string, a cu.FunctionAttribute) int32 {
	v, err := c.d.FuncGetAttribute(c.ctx, a, c.kernel(kernel))
	c.ok(err, "function attribute")
	return v
}

func (c *trial) wantFunc(kernel string, a cu.FunctionAttribute, want int32) {
	got := c.funcAttr(kernel, a)
	c.check(got == want, "attribute %d of %s is %d, want %d", a, kernel, got, want)
}
