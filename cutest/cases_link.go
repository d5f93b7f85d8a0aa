package cutest

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/ferrygpu/ferry/cu"
)

// linkText is an input of a link: PTX and its name for messages.
type linkText struct{ name, ptx string }

// link links PTX, on one thread, as [cu.Linking] demands. The image is that of LinkComplete.
func (c *trial) link(o *cu.JITOptions, inputs ...linkText) (image []byte, log string, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	state, err := c.d.LinkCreate(c.ctx, o)
	c.ok(err, "begin a link")
	defer func() { c.ok(c.d.LinkDestroy(c.ctx, state), "end a link") }()
	for _, in := range inputs {
		if err := c.d.LinkAddData(c.ctx, state, cu.JITInputPTX, []byte(ptxHeader+in.ptx), in.name); err != nil {
			c.observeError("link.add", err)
			return nil, "", err
		}
	}
	image, log, err = c.d.LinkComplete(c.ctx, state)
	c.observeError("link.complete", err)
	return image, log, err
}

// linked links PTX and loads it. The link has ended before the load.
func (c *trial) linked(inputs ...linkText) cu.Module {
	image, _, err := c.link(nil, inputs...)
	c.ok(err, "link")
	return c.module(string(image))
}

// notLinked demands that inputs cannot be linked, and that the log names a symbol. The
// manual lists no codes for problems of the linker.
func (c *trial) notLinked(symbol string, inputs ...linkText) {
	_, _, err := c.link(nil, inputs...)
	c.want(err, "link", cu.ErrorInvalidSource, cu.ErrorInvalidImage, cu.ErrorInvalidPTX, cu.ErrorNoBinaryForGPU, cu.ErrorUnknown)
	jit, ok := errors.AsType[*cu.JITError](err)
	if !ok {
		c.fatal("the error is %T, want *cu.JITError", err)
	}
	c.observe("link.log", jit.Log)
	c.check(strings.Contains(jit.Log, symbol), "the log does not name %s: %q", symbol, jit.Log)
}

// linkMain has the kernel main(out), which stores what function value returns.
const linkMain = `
.extern .func (.param .b32 result) value(.param .b32 x);
.visible .entry main(.param .u64 out)
{` + ptxRegs + `
	.param .b32 x;
	.param .b32 y;
	ld.param.u64 %d1, [out];
	mov.u32 %r1, 20;
	st.param.b32 [x], %r1;
	call (y), value, (x);
	ld.param.b32 %r2, [y];
	st.global.u32 [%d1], %r2;
	ret;
}
`

// linkValue defines value(x) = x + plus, with a linkage.
func linkValue(linkage string, plus int) string {
	return fmt.Sprintf(`
%s .func (.param .b32 result) value(.param .b32 x)
{
	.reg .b32 %%r<3>;
	ld.param.b32 %%r1, [x];
	add.u32 %%r1, %%r1, %d;
	st.param.b32 [result], %%r1;
	ret;
}
`, linkage, plus)
}

// linkRead has a kernel that stores a variable: name(out).
func linkRead(name, variable string) string {
	return `
.visible .entry ` + name + `(.param .u64 out)
{` + ptxRegs + `
	ld.param.u64 %d1, [out];
	ld.global.u32 %r1, [` + variable + `];
	st.global.u32 [%d1], %r1;
	ret;
}
`
}

// wantResult launches a kernel that stores one word, and compares the word.
func (c *trial) wantResult(m cu.Module, kernel string, want uint32) {
	f, out := c.function(m, kernel), c.device(4)
	c.ok(c.d.LaunchKernel(c.ctx, f, dim(1), dim(1), 0, 0, pack(out)), "launch")
	c.same(kernel, c.down(out, 4), words(want))
}

var linkChecks = []check{
	{"link/extern-function", "a kernel calls a function that another input defines, whatever the order of the inputs",
		moduleDoc + "cuLinkCreate, cuLinkAddData, cuLinkComplete; PTX ISA: .extern", 0, func(c *trial) {
			value := linkText{"value", linkValue(".visible", 7)}
			c.wantResult(c.linked(linkText{"main", linkMain}, value), "main", 27)
			c.wantResult(c.linked(value, linkText{"main", linkMain}), "main", 27)
		}},
	{"link/extern-variable", "a kernel reads a variable that another input defines, and the host finds it",
		moduleDoc + "cuLinkComplete; PTX ISA: .extern", 0, func(c *trial) {
			m := c.linked(linkText{"reader", ".extern .global .u32 shared_value;\n" + linkRead("reader", "shared_value")},
				linkText{"owner", ".visible .global .u32 shared_value = 5;\n"})
			c.wantResult(m, "reader", 5)
			c.up(c.global(m, "shared_value", 4), words(99))
			c.wantResult(m, "reader", 99)
		}},
	{"link/local-names", "names without a linkage directive belong to their input",
		moduleDoc + "cuLinkComplete; PTX ISA: Linking Directives", 0, func(c *trial) {
			m := c.linked(linkText{"a", ".global .u32 mine = 1;\n" + linkRead("first", "mine")},
				linkText{"b", ".global .u32 mine = 2;\n" + linkRead("second", "mine")})
			c.wantResult(m, "first", 1)
			c.wantResult(m, "second", 2)
		}},
	{"link/weak", "a visible definition replaces a weak one, and of weak ones one remains",
		moduleDoc + "cuLinkComplete; PTX ISA: .weak", 0, func(c *trial) {
			weak, visible := linkText{"weak", linkValue(".weak", 1)}, linkText{"visible", linkValue(".visible", 2)}
			c.wantResult(c.linked(linkText{"main", linkMain}, weak, visible), "main", 22)
			c.wantResult(c.linked(linkText{"main", linkMain}, weak, linkText{"again", weak.ptx}), "main", 21)
		}},
	{"link/duplicate", "a name that two inputs define is an error, and the log names it",
		moduleDoc + "cuLinkAddData, cuLinkComplete (codes are not listed)", 0, func(c *trial) {
			c.notLinked("value", linkText{"main", linkMain}, linkText{"a", linkValue(".visible", 1)}, linkText{"b", linkValue(".visible", 2)})
		}},
	{"link/missing", "a name that no input defines is an error, and the log names it",
		moduleDoc + "cuLinkComplete (codes are not listed)", 0, func(c *trial) {
			c.notLinked("value", linkText{"main", linkMain})
		}},
	{"link/bad-input", "an input that does not compile is refused, and the log names the line",
		moduleDoc + "cuLinkAddData; CUDA_ERROR_INVALID_PTX", 0, func(c *trial) {
			_, _, err := c.link(nil, linkText{"bad", ".visible .entry k()\n{\n\tmov.u32 %r1 %r2;\n}\n"})
			c.want(err, "add PTX with a syntax error", cu.ErrorInvalidPTX)
			jit, ok := errors.AsType[*cu.JITError](err)
			c.check(ok && (strings.Contains(jit.Log, "line 6") || strings.Contains(jit.Log, "6:")), "the log does not name line 6: %v", err)
		}},
	{"link/options", "options of a link apply to its inputs",
		moduleDoc + "cuLinkCreate, CU_JIT_MAX_REGISTERS", 0, func(c *trial) {
			image, _, err := c.link(&cu.JITOptions{MaxRegisters: 24, LineInfo: true}, linkText{"main", linkMain}, linkText{"value", linkValue(".visible", 3)})
			c.ok(err, "link")
			m := c.module(string(image))
			c.wantResult(m, "main", 23)
			n, err := c.d.FuncGetAttribute(c.ctx, cu.FuncAttributeNumRegs, c.function(m, "main"))
			c.ok(err, "registers")
			c.check(n > 0 && n <= 24, "the kernel has %d registers, want at most 24", n)
		}},
	{"link/no-inputs", "a link without inputs, or with an empty one, is refused or gives an image without kernels",
		moduleDoc + "cuLinkComplete (the manual is silent)", 0, func(c *trial) {
			image, _, err := c.link(nil)
			c.observeError("link.no-inputs", err)
			c.check(err != nil || len(image) > 0, "success without an image")
			state, err := c.d.LinkCreate(c.ctx, nil)
			c.ok(err, "begin a link")
			c.want(c.d.LinkAddData(c.ctx, state, cu.JITInputPTX, nil, "empty"), "an empty input", cu.ErrorInvalidImage)
			c.ok(c.d.LinkDestroy(c.ctx, state), "end a link")
		}},
	{"link/misuse", "a link that was never begun, or that has ended, is an invalid handle",
		moduleDoc + "cuLinkDestroy (undefined in C; both drivers of Ferry check)", 0, func(c *trial) {
			state, err := c.d.LinkCreate(c.ctx, nil)
			c.ok(err, "begin a link")
			c.ok(c.d.LinkDestroy(c.ctx, state), "end a link")
			for _, bad := range []cu.LinkState{0, state} {
				c.want(c.d.LinkAddData(c.ctx, bad, cu.JITInputPTX, []byte(suitePTX), "suite"), "add", cu.ErrorInvalidHandle)
				_, _, err := c.d.LinkComplete(c.ctx, bad)
				c.want(err, "complete", cu.ErrorInvalidHandle)
				c.want(c.d.LinkDestroy(c.ctx, bad), "end", cu.ErrorInvalidHandle)
			}
		}},
}

var loadOptionChecks = []check{
	{"module/options", "code computes the same with every option of the compiler, and a bound of registers holds",
		moduleDoc + "cuModuleLoadDataEx; CUjit_option", 0, func(c *trial) {
			for level := range uint32(cu.MaxOptimizationLevel + 1) {
				o := &cu.JITOptions{OptimizationLevel: &level, MaxRegisters: 32, LineInfo: level%2 == 0, DebugInfo: level == 0, Verbose: level == 3}
				m, _, err := c.d.ModuleLoadDataEx(c.ctx, []byte(suitePTX), o)
				c.ok(err, "load")
				c.wantGlobals(m)
				n, err := c.d.FuncGetAttribute(c.ctx, cu.FuncAttributeNumRegs, c.function(m, "globals"))
				c.ok(err, "registers")
				c.check(n > 0 && n <= 32, "level %d: %d registers, want at most 32", level, n)
				c.ok(c.d.ModuleUnload(c.ctx, m), "unload")
			}
		}},
	{"module/option-ranges", "levels of optimization are 0 to 4",
		moduleDoc + "CU_JIT_OPTIMIZATION_LEVEL (hardware may accept more)", 0, func(c *trial) {
			m, _, err := c.d.ModuleLoadDataEx(c.ctx, []byte(suitePTX), &cu.JITOptions{OptimizationLevel: new(uint32(5))})
			c.observeError("module.level-5", err)
			c.wantOrEmulated(err, "level 5", cu.Success, cu.ErrorInvalidValue)
			if err == nil {
				c.ok(c.d.ModuleUnload(c.ctx, m), "unload")
			}
		}},
	{"module/info-log", "the information log is cut to its buffer, and PTX for the device that has no problems has no warnings",
		moduleDoc + "CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_LOG_VERBOSE", 0, func(c *trial) {
			for _, bytes := range []uint32{0, 24} {
				fresh := fmt.Sprintf("%s.global .u32 v = 1;\n%s// %x\n", ptxHeader, linkRead("reader", "v"), c.random(8)) // no cache has it
				m, log, err := c.d.ModuleLoadDataEx(c.ctx, []byte(fresh), &cu.JITOptions{Verbose: true, InfoLogBytes: bytes})
				c.ok(err, "load")
				c.ok(c.d.ModuleUnload(c.ctx, m), "unload")
				c.check(bytes == 0 || len(log) < int(bytes), "a log of %d bytes in a buffer of %d", len(log), bytes)
				c.check(c.attr(cu.DeviceAttributeComputeCapabilityMajor) < 6 || !strings.Contains(strings.ToLower(log), "warning"), "the log has a warning: %q", log)
				if bytes == 0 {
					c.observe("module.info-log", log)
				}
			}
		}},
}

// wantGlobals compares what the kernel globals of the suite reads.
func (c *trial) wantGlobals(m cu.Module) {
	f, out := c.function(m, "globals"), c.device(16)
	c.ok(c.d.LaunchKernel(c.ctx, f, dim(1), dim(1), 0, 0, pack(out)), "launch")
	c.same("globals", c.down(out, 16), words(42, 30, 0, 77))
}
