package softgpu

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/fatbin"
	"github.com/ferrygpu/ferry/internal/linkimage"
	"github.com/ferrygpu/ferry/internal/modcache"
	"github.com/ferrygpu/ferry/ptx"
	"github.com/ferrygpu/ferry/softgpu/internal/simt"
)

// code is a parsed and decoded module, without variables. It does not change, so all loads
// of the same bytes in the process share it.
type code struct {
	source  *ptx.Module
	program *simt.Program
}

// maxCode is how many bytes of PTX the cache of decoded modules holds. A decoded module
// takes about 7 times the memory of its text.
const maxCode = 8 << 20

// codes has modules by their text, and plainCodes those that are compiled without
// optimisation.
var codes, plainCodes = modcache.New[code](maxCode), modcache.New[code](maxCode)

// ModuleLoadData compiles PTX. As on hardware, it waits for the context's work.
func (d *Driver) ModuleLoadData(h cu.Context, image []byte) (cu.Module, error) {
	m, _, err := d.ModuleLoadDataEx(h, image, nil)
	return m, err
}

// ModuleLoadDataEx compiles PTX with options. The software GPU has no compiler: of the
// options it uses the bound of registers, which it reports for the kernels, those of the
// log, and whether the compiler would join multiplications and additions.
func (d *Driver) ModuleLoadDataEx(h cu.Context, image []byte, o *cu.JITOptions) (cu.Module, string, error) {
	const what = "load a module"
	c, err := d.beginIn(h, what)
	if err != nil {
		return 0, "", err
	}
	arch := c.dev.arch()
	d.mu.Unlock()
	if o == nil {
		o = new(cu.JITOptions)
	}
	l, err := d.decodeImage(image, arch, plain(o), what)
	if err != nil {
		return 0, "", cutError(err, o)
	}
	l.limitRegisters(o.MaxRegisters)
	return d.addModule(h, l, o, what)
}

// addModule adds a module to the context. It returns its handle and the compiler's log.
func (d *Driver) addModule(h cu.Context, l *loading, o *cu.JITOptions, what string) (cu.Module, string, error) {
	c, err := d.beginIn(h, what)
	if err != nil {
		return 0, "", err
	}
	defer c.printf.flush()
	defer d.mu.Unlock()
	if err := c.quiesce(what); err != nil {
		return 0, "", err
	}
	m := &module{ctx: c, source: l.code.source, vars: map[string]*region{}, funcs: map[string]*function{}}
	c.modules[m] = struct{}{}
	if err := m.link(l.code.program, what); err != nil {
		m.drop()
		return 0, "", cutError(err, o)
	}
	log := m.compilerLog(l.maxRegisters, o.Verbose)
	m.handle = cu.Module(d.newHandle(m))
	return m.handle, cutLog(log, o.InfoLogBytes), nil
}

// loading is code that is about to be loaded.
type loading struct {
	code
	maxRegisters uint32 // 0 for no bound
}

// limitRegisters lowers the bound of registers.
func (l *loading) limitRegisters(n uint32) {
	if l.maxRegisters == 0 || n != 0 && n < l.maxRegisters {
		l.maxRegisters = n
	}
}

// cutLog cuts a log to the size of its buffer, which needs a final zero byte.
func cutLog(log string, bytes uint32) string {
	if bytes == 0 {
		bytes = cu.DefaultLogBytes
	}
	return log[:min(len(log), int(bytes)-1)]
}

// cutError cuts the log of an error of the compiler.
func cutError(err error, o *cu.JITOptions) error {
	if jit, ok := errors.AsType[*cu.JITError](err); ok {
		jit.Log = cutLog(jit.Log, o.ErrorLogBytes)
	}
	return err
}

// arch returns the compute capability as one number: 90 for sm_90.
func (dev *device) arch() int {
	return 10*dev.attr(cu.DeviceAttributeComputeCapabilityMajor) + dev.attr(cu.DeviceAttributeComputeCapabilityMinor)
}

// plain reports whether options ask for code without optimisation.
func plain(o *cu.JITOptions) bool {
	return o.DebugInfo || o.OptimizationLevel != nil && *o.OptimizationLevel == 0
}

// decodeImage returns the code of an image: PTX, the PTX of a fatbin, or an image of the
// linker. It names other kinds of image in its error. plain is for PTX: an image of the
// linker is compiled already.
func (d *Driver) decodeImage(image []byte, arch int, plain bool, what string) (*loading, error) {
	if linkimage.Is(image) {
		return d.decodeLinked(image, what)
	}
	text, err := ptxOf(image, arch, what)
	if err != nil {
		return nil, err
	}
	if err := d.checkVersion(text); err != nil {
		return nil, err
	}
	cache := codes
	if plain {
		cache = plainCodes
	}
	c, err := cache.Get(text, func(text string) (code, error) { // not of the caller's bytes, which can change
		source, err := parse([]byte(text))
		if err != nil {
			return code{}, err
		}
		return decode(source, plain)
	})
	if err != nil {
		return nil, jitError(err)
	}
	return &loading{code: c}, nil
}

// parse parses PTX. It refuses modules of 32-bit addresses, as drivers since CUDA 12 do.
func parse(text []byte) (*ptx.Module, error) {
	m, err := modcache.Parse(text)
	if err != nil || m.AddressSize == 64 || m.AddressPos == (ptx.Pos{}) {
		return m, err
	}
	line := strings.SplitN(m.Source, "\n", m.AddressPos.Line+1)[m.AddressPos.Line-1]
	return nil, &ptx.Error{File: m.File, Pos: m.AddressPos, Line: strings.TrimSuffix(line, "\r"),
		Msg: ".address_size 32 is not supported: compile for 64-bit addresses"}
}

func decode(source *ptx.Module, plain bool) (code, error) {
	decode := simt.Decode
	if plain {
		decode = simt.DecodePlain
	}
	program, err := decode(source)
	return code{source, program}, err
}

// jitError returns an error of the parser or the decoder as one of the compiler.
func jitError(err error) error {
	return &cu.JITError{Result: cu.ErrorInvalidPTX, Log: err.Error()}
}

// ptxOf returns the PTX text of an image.
func ptxOf(image []byte, arch int, what string) ([]byte, error) {
	switch {
	case len(image) == 0:
		return nil, refuse(cu.ErrorInvalidImage, what, "the image is empty")
	case fatbin.IsHostELF(image):
		return nil, refuse(cu.ErrorNoBinaryForGPU, what, "the image is %s, and device code in its sections is not looked for: compile with nvcc -fatbin or -ptx", fatbin.DescribeELF(image))
	case fatbin.IsELF(image):
		return nil, refuse(cu.ErrorNoBinaryForGPU, what, "the image is %s; the software GPU runs PTX, which nvcc writes with -ptx", fatbin.DescribeELF(image))
	case !fatbin.Is(image):
		return image, nil
	}
	entry, err := fatbin.Choose(image, arch)
	if none, ok := errors.AsType[*fatbin.NoPTXError](err); ok {
		return nil, refuse(cu.ErrorNoBinaryForGPU, what, "the software GPU runs PTX: %v", none)
	}
	if err != nil {
		return nil, refuse(cu.ErrorInvalidImage, what, "%v", err)
	}
	text, err := entry.Data()
	if err != nil {
		return nil, refuse(cu.ErrorInvalidImage, what, "%v", err)
	}
	return text, nil
}

// checkVersion refuses text that is not PTX, or that is newer than the driver.
func (d *Driver) checkVersion(text []byte) error {
	newest := newestPTX(int(d.prof.Driver.Value))
	v, ok := versionOf(text)
	switch {
	case !ok:
		return &cu.JITError{Result: cu.ErrorInvalidImage, Log: fmt.Sprintf("%s without a .version directive: the image is not PTX", size(uint64(len(text))))}
	case v.Major > newest.Major || v.Major == newest.Major && v.Minor > newest.Minor:
		return &cu.JITError{Result: cu.ErrorUnsupportedPTXVersion, Log: fmt.Sprintf("PTX %d.%d is newer than the emulated driver, which compiles up to %d.%d",
			v.Major, v.Minor, newest.Major, newest.Minor)}
	}
	return nil
}

// compilerLog applies a bound of registers, and returns what a compiler would log: warnings
// and, if verbose is set, what each kernel needs.
func (m *module) compilerLog(maxRegisters uint32, verbose bool) string {
	var log strings.Builder
	if arch := m.ctx.dev.arch(); m.target() > arch {
		fmt.Fprintf(&log, "warning: the PTX is for sm_%d, a GPU of sm_%d refuses it\n", m.target(), arch)
	}
	for _, f := range m.source.Entries() {
		k := m.program.Kernel(f.Name)
		if maxRegisters != 0 {
			k.Registers = min(k.Registers, int(maxRegisters))
		}
		if k.Unsupported != nil {
			first, _, _ := strings.Cut(k.Unsupported.Error(), "\n")
			fmt.Fprintf(&log, "warning: launches will be refused: %s\n", first)
		}
		if verbose {
			fmt.Fprintf(&log, "info: kernel %s: %d registers declared, %d bytes shared, %d bytes local, %d bytes constant\n",
				f.Name, k.Registers, k.SharedBytes, k.LocalBytes, k.ConstBytes)
		}
	}
	return log.String()
}

// builtin are functions that the driver provides.
var builtin = []string{"vprintf", "__assertfail", "malloc", "free"}

// checkCalls refuses calls of functions that are defined nowhere.
func checkCalls(m *ptx.Module) error {
	for _, f := range m.Funcs {
		for _, in := range f.Body {
			if in.Op != "call" {
				continue
			}
			for _, o := range in.Operands {
				s, ok := o.(ptx.Sym)
				if !ok {
					continue
				}
				if g := m.Func(s.Name); g != nil && g.Declared && !slices.Contains(builtin, s.Name) {
					return &cu.JITError{Result: cu.ErrorInvalidPTX, Log: fmt.Sprintf(
						"%v: function %s is called but not defined: link the module that defines it", in.Pos, s.Name)}
				}
			}
		}
	}
	return nil
}
