package softgpu

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/simt"
	"github.com/ferrygpu/ferry/ptx"
)

// module is loaded code: its program, and its variables in memory.
type module struct {
	ctx     *contextState
	handle  cu.Module
	source  *ptx.Module
	program *simt.Program
	vars    map[string]*region
	funcs   map[string]*function
}

// ModuleLoadData compiles PTX. Like hardware it waits for the context's work.
func (d *Driver) ModuleLoadData(h cu.Context, image []byte) (cu.Module, error) {
	const what = "load a module"
	if _, err := d.enter(h, what); err != nil {
		return 0, err
	}
	d.mu.Unlock()
	source, err := parseImage(image, newestPTX(int(d.prof.Driver.Value)), what)
	if err != nil {
		return 0, err
	}
	c, err := d.enter(h, what)
	if err != nil {
		return 0, err
	}
	defer c.printed.flush()
	defer d.mu.Unlock()
	if err := c.settle(what); err != nil {
		return 0, err
	}
	m := &module{ctx: c, source: source, vars: map[string]*region{}, funcs: map[string]*function{}}
	c.modules[m] = struct{}{}
	if err := m.link(what); err != nil {
		m.drop()
		return 0, err
	}
	m.handle = cu.Module(d.newHandle(m))
	return m.handle, nil
}

// parseImage reads PTX text up to a version and names what else it may be.
func parseImage(image []byte, newest ptx.Version, what string) (*ptx.Module, error) {
	switch {
	case len(image) == 0:
		return nil, refuse(cu.ErrorInvalidImage, what, "the image is empty")
	case bytes.HasPrefix(image, []byte("\x7fELF")):
		return nil, refuse(cu.ErrorNoBinaryForGPU, what, "this is machine code (a cubin); the software GPU runs PTX")
	case len(image) >= 4 && binary.LittleEndian.Uint32(image) == 0xba55ed50:
		return nil, refuse(cu.ErrorNoBinaryForGPU, what, "this is a fatbin; the software GPU runs PTX, which nvcc writes with -ptx")
	}
	text := string(image)
	v, ok := versionOf(text)
	switch {
	case !ok:
		return nil, &cu.JITError{Result: cu.ErrorInvalidImage, Log: fmt.Sprintf("%s without a .version directive: this is no PTX", size(uint64(len(image))))}
	case v.Major > newest.Major || v.Major == newest.Major && v.Minor > newest.Minor:
		return nil, &cu.JITError{Result: cu.ErrorUnsupportedPTXVersion, Log: fmt.Sprintf("PTX %d.%d is newer than the driver that is played, which knows %d.%d",
			v.Major, v.Minor, newest.Major, newest.Minor)}
	}
	source, err := ptx.Parse("", text)
	if err != nil {
		return nil, &cu.JITError{Result: cu.ErrorInvalidPTX, Log: err.Error()}
	}
	return source, nil
}

// link places the variables, decodes the kernels and writes the initial values.
func (m *module) link(what string) error {
	for _, v := range m.source.Vars {
		if err := m.place(v, what); err != nil {
			return err
		}
	}
	if err := resolved(m.source); err != nil {
		return err
	}
	program, err := simt.Link(m.source, func(name string) (uint64, bool) {
		r := m.vars[name]
		if r == nil {
			return 0, false
		}
		return r.device, true
	})
	if err != nil {
		return &cu.JITError{Result: cu.ErrorInvalidPTX, Log: err.Error()}
	}
	m.program = program
	if err := m.fits(); err != nil {
		return err
	}
	for _, v := range m.source.Vars {
		if err := m.initialise(v); err != nil {
			return err
		}
	}
	return nil
}

// mostLocal is how much local memory a thread can have on every GPU since Fermi.
const mostLocal = 512 << 10

// fits refuses kernels that want more memory than a block or thread can have, as
// the compiler does for the whole module.
func (m *module) fits() error {
	most := m.ctx.dev.attr(cu.DeviceAttributeMaxSharedMemoryPerBlock)
	for _, f := range m.source.Funcs {
		k := m.program.Kernel(f.Name)
		switch {
		case k == nil:
		case k.SharedBytes > most:
			return &cu.JITError{Result: cu.ErrorInvalidPTX, Log: fmt.Sprintf("%v: kernel %s uses too much shared memory: %d bytes, at most %d are there", f.Pos, f.Name, k.SharedBytes, most)}
		case k.LocalBytes > mostLocal:
			return &cu.JITError{Result: cu.ErrorInvalidPTX, Log: fmt.Sprintf("%v: kernel %s uses too much local memory: %d bytes a thread, at most %d are there", f.Pos, f.Name, k.LocalBytes, mostLocal)}
		}
	}
	return nil
}

// builtin are functions that the driver brings along.
var builtin = []string{"vprintf", "__assertfail", "malloc", "free"}

// resolved refuses code that calls functions that are nowhere.
func resolved(m *ptx.Module) error {
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
						"%v: function %s is called but defined nowhere, and no other module can be linked to this one", in.Pos, s.Name)}
				}
			}
		}
	}
	return nil
}

// place gives a variable of global or constant space its memory.
func (m *module) place(v *ptx.Var, what string) error {
	if v.Space != ptx.GlobalSpace && v.Space != ptx.ConstSpace || m.vars[v.Name] != nil {
		return nil
	}
	if v.Linkage == ptx.Extern {
		if d := m.source.Var(v.Name); d == nil || d.Linkage == ptx.Extern {
			return &cu.JITError{Result: cu.ErrorInvalidPTX, Log: fmt.Sprintf("%v: variable %s is extern, and no other module can be linked to this one", v.Pos, v.Name)}
		}
		return nil
	}
	n := uint64(max(v.Size(), 1))
	if v.Managed {
		if m.ctx.dev.attr(cu.DeviceAttributeManagedMemory) == 0 {
			return m.ctx.dev.lacks(what+": managed variable "+v.Name, cu.DeviceAttributeManagedMemory)
		}
		r, err := m.ctx.allocateManaged(n, cu.MemAttachGlobal, what+": variable "+v.Name)
		if err != nil {
			return err
		}
		m.keep(r, v)
		return nil
	}
	r := m.ctx.newRegion(kindModule)
	if err := m.ctx.dev.memory.alloc(r, n, what+": variable "+v.Name); err != nil {
		return err
	}
	r.segments(v.Space == ptx.ConstSpace)
	r.state.Store(stateLive)
	m.ctx.regions[r] = struct{}{}
	m.keep(r, v)
	return nil
}

func (m *module) keep(r *region, v *ptx.Var) {
	r.name, r.mod = v.Name, m
	m.vars[v.Name] = r
}

// initialise writes a variable's first value, addresses of others within it too.
func (m *module) initialise(v *ptx.Var) error {
	r := m.vars[v.Name]
	if r == nil || v.Linkage == ptx.Extern {
		return nil
	}
	copy(r.data, v.Init)
	for _, rel := range v.Relocs {
		at, ok := m.address(rel.Symbol)
		if !ok {
			return &cu.JITError{Result: cu.ErrorInvalidPTX, Log: fmt.Sprintf("%v: initial value of %s: no symbol %s", v.Pos, v.Name, rel.Symbol)}
		}
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], at+uint64(rel.Addend))
		if rel.Offset < 0 || rel.Size < 0 || rel.Size > 8 || rel.Offset+rel.Size > len(r.data) {
			return &cu.JITError{Result: cu.ErrorInvalidPTX, Log: fmt.Sprintf("%v: initial value of %s: address of %s is out of its bounds", v.Pos, v.Name, rel.Symbol)}
		}
		copy(r.data[rel.Offset:rel.Offset+rel.Size], word[:])
	}
	return nil
}

// address of a variable or function.
func (m *module) address(symbol string) (uint64, bool) {
	if r := m.vars[symbol]; r != nil {
		return r.device, true
	}
	return m.program.Address(symbol)
}

// drop takes the module and all of it away.
func (m *module) drop() {
	delete(m.ctx.drv.handles, uintptr(m.handle))
	delete(m.ctx.modules, m)
	for _, f := range m.funcs {
		delete(m.ctx.drv.handles, uintptr(f.handle))
	}
	for _, r := range m.vars {
		r.free()
	}
}

// module finds a module by its handle.
func (d *Driver) module(h cu.Module, what string) (*module, error) {
	return lookup[*module](d, uintptr(h), what, "module")
}

// ModuleUnload gives the module up when the work of its context is done.
func (d *Driver) ModuleUnload(h cu.Context, mod cu.Module) error {
	const what = "unload a module"
	c, err := d.enter(h, what)
	if err != nil {
		return err
	}
	defer c.printed.flush()
	defer d.mu.Unlock()
	m, err := d.module(mod, what)
	if err != nil {
		return err
	}
	if err := m.ctx.sync(); err != nil {
		return err
	}
	if m, err = d.module(mod, what); err != nil {
		return err
	}
	m.drop()
	return nil
}

// ModuleGetFunction is a kernel by name.
func (d *Driver) ModuleGetFunction(h cu.Context, mod cu.Module, name string) (cu.Function, error) {
	what := "find kernel " + name
	if _, err := d.enter(h, what); err != nil {
		return 0, err
	}
	defer d.mu.Unlock()
	if name == "" {
		return 0, refuse(cu.ErrorInvalidValue, what, "the name is empty")
	}
	m, err := d.module(mod, what)
	if err != nil {
		return 0, err
	}
	if f := m.funcs[name]; f != nil {
		return f.handle, nil
	}
	k := m.program.Kernel(name)
	if k == nil {
		var names []string
		for _, e := range m.source.Entries() {
			names = append(names, e.Name)
		}
		return 0, refuse(cu.ErrorNotFound, what, "the module has %s", list(nearest(name, names), "no kernels"))
	}
	f := &function{mod: m, kernel: k, name: name}
	f.maxDynamic = max(0, m.ctx.dev.attr(cu.DeviceAttributeMaxSharedMemoryPerBlock)-k.SharedBytes)
	f.handle = cu.Function(d.newHandle(f))
	m.funcs[name] = f
	return f.handle, nil
}

// ModuleGetGlobal is a variable by name.
func (d *Driver) ModuleGetGlobal(h cu.Context, mod cu.Module, name string) (cu.DevicePtr, uintptr, error) {
	what := "find variable " + name
	if _, err := d.enter(h, what); err != nil {
		return 0, 0, err
	}
	defer d.mu.Unlock()
	m, err := d.module(mod, what)
	if err != nil {
		return 0, 0, err
	}
	r := m.vars[name]
	if r == nil {
		var names []string
		for n := range m.vars {
			names = append(names, n)
		}
		return 0, 0, refuse(cu.ErrorNotFound, what, "the module has %s", list(nearest(name, names), "no variables"))
	}
	return cu.DevicePtr(r.device), uintptr(r.size), nil
}
