package ferry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/ptx"
)

// Module is compiled code on a GPU. It is safe for concurrent use.
type Module struct {
	flight
	g      *GPU
	handle cu.Module
	leak   runtime.Cleanup
	parsed *ptx.Module // nil when the image is no PTX that Ferry reads

	mu        sync.Mutex
	variables map[string]*allocation // those asked for
	late      bool                   // to be disposed of by the last of them
}

// Load compiles PTX text for the GPU, or loads a cubin or fatbin on hardware
// (cuModuleLoadDataEx). PTX that does not compile is a *cu.JITError with the
// compiler's messages; %+v prints them whole. Package kernels has PTX to begin
// with.
func (g *GPU) Load(image []byte) (*Module, error) { return g.load("PTX", image) }

// LoadFile is [GPU.Load] of a file.
func (g *GPU) LoadFile(path string) (*Module, error) {
	if g == nil {
		return nil, refuse("load %s: no GPU given (nil)", path)
	}
	image, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load a module: %w", err)
	}
	return g.load(path, image)
}

// load is Load; name is for messages.
func (g *GPU) load(name string, image []byte) (*Module, error) {
	if err := g.enter("load a module"); err != nil {
		return nil, err
	}
	parsed, syntax := parsePTX(name, image)
	handle, err := g.driver.ModuleLoadData(g.ctx, image)
	if err != nil {
		g.leave()
		if syntax != nil { // it has the file's name, and the line
			return nil, fmt.Errorf("load %s (%s) on %s: %w", name, sizeText(uintptr(len(image))), g.label, errors.Join(syntax, err))
		}
		return nil, fmt.Errorf("load %s (%s) on %s: %w", name, sizeText(uintptr(len(image))), g.label, err)
	}
	m := &Module{g: g, handle: handle, parsed: parsed}
	m.init()
	m.leak = watchLeak(m, m.String)
	return m, nil
}

// parsePTX reads an image that is PTX; both results are nil for one that is not.
func parsePTX(name string, image []byte) (*ptx.Module, error) {
	text := strings.TrimRight(string(image), "\x00")
	if strings.ContainsRune(text, 0) || !strings.Contains(text, ".version") {
		return nil, nil
	}
	return ptx.Parse(name, text)
}

// String names the module's kernels and its GPU.
func (m *Module) String() string {
	if m == nil {
		return "no module"
	}
	return fmt.Sprintf("a module (%s) on %s", m.names(), m.g.label)
}

// Kernels are the names of the module's kernels in the order of the source. They
// are known of PTX only.
func (m *Module) Kernels() []string {
	if m == nil || m.parsed == nil {
		return nil
	}
	var names []string
	for _, f := range m.parsed.Entries() {
		names = append(names, f.Name)
	}
	return names
}

// names is Kernels as text.
func (m *Module) names() string {
	names := m.Kernels()
	switch {
	case m.parsed == nil:
		return "kernels not known"
	case len(names) == 0:
		return "no kernels"
	}
	return strings.Join(names, ", ")
}

// Kernel finds a kernel by name (cuModuleGetFunction). The error for one that is
// not there wraps cu.ErrorNotFound and lists those that are.
func (m *Module) Kernel(name string) (*Kernel, error) {
	if m == nil {
		return nil, refuse("find kernel %q: no module given (nil)", name)
	}
	if !m.enter() {
		return nil, fmt.Errorf("find kernel %q: %v: %w", name, m, ErrClosed)
	}
	defer m.leave()
	f, err := m.g.driver.ModuleGetFunction(m.g.ctx, m.handle, name)
	if err != nil {
		return nil, fmt.Errorf("find kernel %q: %w (there are: %s)", name, err, m.names())
	}
	k := &Kernel{m: m, f: f, name: name}
	if k.threads, err = m.attribute(f, cu.FuncAttributeMaxThreadsPerBlock); err != nil {
		return nil, fmt.Errorf("look at kernel %q: %w", name, err)
	}
	if k.shared, err = m.attribute(f, cu.FuncAttributeSharedSizeBytes); err != nil {
		return nil, fmt.Errorf("look at kernel %q: %w", name, err)
	}
	if err := k.findParams(); err != nil {
		return nil, fmt.Errorf("look at kernel %q: %w", name, err)
	}
	k.most = k.limits()
	k.memos = make([]atomic.Pointer[argMemo], len(k.params))
	return k, nil
}

// attribute reads a property of a kernel; 0 from drivers that do not know it.
func (m *Module) attribute(f cu.Function, a cu.FunctionAttribute) (int, error) {
	v, err := m.g.driver.FuncGetAttribute(m.g.ctx, a, f)
	if errors.Is(err, cu.ErrorNotSupported) {
		return 0, nil
	}
	return int(v), err
}

// Close waits for kernels of the module in flight and gives it up
// (cuModuleUnload): its kernels cannot be launched any more, but by graphs that
// have captured them; with the last of those it is unloaded. Close of a closed or
// nil module is nil.
func (m *Module) Close() error {
	if m == nil || !m.shut() {
		return nil
	}
	m.leak.Stop()
	return errors.Join(m.closeVariables(), m.dismiss(func() error { return m.g.soon(m.dispose) }))
}

// dispose waits, unloads and lets go of the GPU.
func (m *Module) dispose() error {
	if m.inUse() {
		return nil
	}
	err := m.wait(context.Background(), writes)
	if inCallback(err) || err != nil && !sticky(err) {
		return fmt.Errorf("close %v: it may be in use and is not unloaded: %w", m, err)
	}
	if err := m.g.driver.ModuleUnload(m.g.ctx, m.handle); inCallback(err) {
		return err
	} else if err != nil {
		m.g.leave()
		return fmt.Errorf("close %v: %w", m, err)
	}
	m.g.leave()
	return nil
}

// Kernel is a function of a module that streams launch. It is good until its
// module's Close, and safe for concurrent use.
type Kernel struct {
	m       *Module
	f       cu.Function
	name    string
	threads int // most in a block; 0 if not known
	shared  int // static shared memory, bytes a block
	most    limits

	known  bool // params are
	params []ptx.Param
	memos  []atomic.Pointer[argMemo] // of the arguments that params had last
	size   int                       // of all params, packed

	allowed atomic.Bool // dynamic shared memory beyond the default
}

// Name is the kernel's name.
func (k *Kernel) Name() string { return k.name }

// Params are the kernel's parameters: names and types where the module is PTX,
// else sizes and offsets, and nothing when the driver is too old to tell. The
// slice is the caller's own.
func (k *Kernel) Params() []ptx.Param { return slices.Clone(k.params) }

// findParams learns the parameters from the PTX, else from the driver.
func (k *Kernel) findParams() error {
	if k.m.parsed != nil {
		if f := k.m.parsed.Func(k.name); f != nil {
			k.params, k.size = f.ParamLayout()
			k.known = true
			return nil
		}
	}
	for i := 0; ; i++ {
		offset, size, err := k.m.g.driver.FuncGetParamInfo(k.m.g.ctx, k.f, uintptr(i))
		switch {
		case errors.Is(err, cu.ErrorInvalidValue): // past the last
			k.known = true
			return nil
		case errors.Is(err, cu.ErrorNotSupported):
			return nil
		case err != nil:
			return err
		}
		k.params = append(k.params, ptx.Param{Offset: int(offset), Size: int(size)})
		k.size = int(offset + size)
	}
}
