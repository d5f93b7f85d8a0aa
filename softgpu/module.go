package softgpu

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/ptx"
	"github.com/ferrygpu/ferry/softgpu/internal/simt"
)

// module is a loaded module: its program, and its variables in memory.
type module struct {
	ctx     *contextState
	handle  cu.Module
	source  *ptx.Module
	program *simt.Program
	vars    map[string]*region
	funcs   map[string]*function
}

// link places the variables, binds the code to them and writes the initial values.
func (m *module) link(program *simt.Program, what string) error {
	for _, v := range m.source.Vars {
		if err := m.placeVar(v, what); err != nil {
			return err
		}
	}
	if err := checkCalls(m.source); err != nil {
		return err
	}
	m.program = program.Bind(func(name string) (uint64, bool) {
		r := m.vars[name]
		if r == nil {
			return 0, false
		}
		return r.device, true
	})
	if err := m.checkSizes(); err != nil {
		return err
	}
	for _, v := range m.source.Vars {
		if err := m.initialise(v); err != nil {
			return err
		}
	}
	return nil
}

// maxLocal is the local memory that a thread can have on every GPU since Fermi.
const maxLocal = 512 << 10

// checkSizes refuses kernels that need more memory than a block or thread can
// have. As with the compiler, one such kernel fails the whole module.
func (m *module) checkSizes() error {
	most := m.ctx.dev.attr(cu.DeviceAttributeMaxSharedMemoryPerBlock)
	for _, f := range m.source.Funcs {
		k := m.program.Kernel(f.Name)
		switch {
		case k == nil:
		case k.SharedBytes > most:
			return &cu.JITError{Result: cu.ErrorInvalidPTX, Log: fmt.Sprintf("%v: kernel %s uses too much shared memory: %d bytes, at most %d are available", f.Pos, f.Name, k.SharedBytes, most)}
		case k.LocalBytes > maxLocal:
			return &cu.JITError{Result: cu.ErrorInvalidPTX, Log: fmt.Sprintf("%v: kernel %s uses too much local memory: %d bytes a thread, at most %d are available", f.Pos, f.Name, k.LocalBytes, maxLocal)}
		}
	}
	return nil
}

// placeVar allocates a variable of global or constant space.
func (m *module) placeVar(v *ptx.Var, what string) error {
	if v.Space != ptx.GlobalSpace && v.Space != ptx.ConstSpace || m.vars[v.Name] != nil {
		return nil
	}
	if v.Linkage == ptx.Extern {
		if d := m.source.Var(v.Name); d == nil || d.Linkage == ptx.Extern {
			return &cu.JITError{Result: cu.ErrorInvalidPTX, Log: fmt.Sprintf("%v: variable %s is extern: link the module that defines it", v.Pos, v.Name)}
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
		m.addVar(r, v)
		return nil
	}
	r := m.ctx.newRegion(kindModule)
	if err := m.ctx.dev.memory.alloc(r, n, what+": variable "+v.Name); err != nil {
		return err
	}
	span{region: r}.wrote(0, n) // a variable without a value is zero
	r.segments(v.Space == ptx.ConstSpace)
	r.state.Store(stateLive)
	m.ctx.regions[r] = struct{}{}
	m.addVar(r, v)
	return nil
}

func (m *module) addVar(r *region, v *ptx.Var) {
	r.name, r.mod = v.Name, m
	m.vars[v.Name] = r
}

// initialise writes a variable's initial value, including addresses of other
// symbols.
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

// address returns the address of a variable or function.
func (m *module) address(symbol string) (uint64, bool) {
	if r := m.vars[symbol]; r != nil {
		return r.device, true
	}
	return m.program.Address(symbol)
}

// drop frees the module's variables and handles.
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

// module returns the module with the given handle.
func (d *Driver) module(h cu.Module, what string) (*module, error) {
	return lookup[*module](d, uintptr(h), what, "module")
}

// ModuleUnload unloads the module when the work of its context is done.
func (d *Driver) ModuleUnload(h cu.Context, mod cu.Module) error {
	const what = "unload a module"
	c, err := d.beginIn(h, what)
	if err != nil {
		return err
	}
	defer c.printf.flush()
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

// ModuleGetFunction returns the kernel with the given name.
func (d *Driver) ModuleGetFunction(h cu.Context, mod cu.Module, name string) (cu.Function, error) {
	what := "find kernel " + name
	if _, err := d.beginIn(h, what); err != nil {
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
	f := &function{mod: m, kernel: k, name: name, carveout: -1}
	f.maxDynamic = max(0, m.ctx.dev.attr(cu.DeviceAttributeMaxSharedMemoryPerBlock)-k.SharedBytes)
	f.handle = cu.Function(d.newHandle(f))
	m.funcs[name] = f
	return f.handle, nil
}

// ModuleGetGlobal returns the variable with the given name.
func (d *Driver) ModuleGetGlobal(h cu.Context, mod cu.Module, name string) (cu.DevicePtr, uintptr, error) {
	what := "find variable " + name
	if _, err := d.beginIn(h, what); err != nil {
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

var versionDirective = regexp.MustCompile(`\.version\s+(\d{1,4})\.(\d{1,4})\b`)

// versionOf returns the PTX version that the text declares.
func versionOf(text []byte) (ptx.Version, bool) {
	m := versionDirective.FindSubmatch(text)
	if m == nil {
		return ptx.Version{}, false
	}
	major, _ := strconv.Atoi(string(m[1]))
	minor, _ := strconv.Atoi(string(m[2]))
	return ptx.Version{Major: major, Minor: minor}, true
}

// newestPTX returns the newest PTX version that a driver compiles. Drivers
// older than 12.0 accept all versions known when this was written, so that an
// old machine runs the same code as a new one, whatever its target.
func newestPTX(driver int) ptx.Version {
	major, minor := driver/1000, driver%1000/10
	switch {
	case major < 12:
		return ptx.Version{Major: 9, Minor: 0}
	case major > 12:
		return ptx.Version{Major: major - 4, Minor: minor}
	case minor > 5: // 12.6 has the PTX version of 12.5
		minor--
	}
	return ptx.Version{Major: 8, Minor: minor}
}

// nearest sorts names by their distance from the given name.
func nearest(name string, names []string) []string {
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(distance(name, a), distance(name, b)), cmp.Compare(a, b))
	})
	return names
}

// list joins names for a message, or returns none if there are no names.
func list(names []string, none string) string {
	const most = 8
	switch {
	case len(names) == 0:
		return none
	case len(names) > most:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// distance returns the edit distance of a and b, without regard to case.
func distance(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// function is a kernel that was looked up by name.
type function struct {
	mod        *module
	handle     cu.Function
	kernel     *simt.Kernel
	name       string
	maxDynamic int // bytes of dynamic shared memory that a launch may use
	carveout   int // preferred shared memory in percent, -1 for the default
	cache      cu.FuncCache
}

// functionCall runs a call about a function.
func (d *Driver) functionCall(h cu.Context, fh cu.Function, what string, f func(*function) error) error {
	if _, err := d.beginIn(h, what); err != nil {
		return err
	}
	defer d.mu.Unlock()
	fn, err := lookup[*function](d, uintptr(fh), what, "function")
	if err != nil {
		return err
	}
	return f(fn)
}

// FuncGetParamInfo returns offset and size of a parameter.
func (d *Driver) FuncGetParamInfo(h cu.Context, fh cu.Function, index uintptr) (offset, bytes uintptr, err error) {
	if err := d.since("cuFuncGetParamInfo", 12040); err != nil {
		return 0, 0, err
	}
	const what = "find a parameter"
	err = d.functionCall(h, fh, what, func(f *function) error {
		if index >= uintptr(len(f.kernel.Params)) {
			return refuse(cu.ErrorInvalidValue, what, "kernel %s has %d parameters, index %d is out of range", f.name, len(f.kernel.Params), index)
		}
		p := f.kernel.Params[index]
		offset, bytes = uintptr(p.Offset), uintptr(p.Size)
		return nil
	})
	return offset, bytes, err
}
