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

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/ptx"
)

// Module is compiled code on a GPU. It is safe for concurrent use.
type Module struct {
	tracker inflight.Tracker // of launches
	g       *GPU
	handle  cu.Module
	leak    runtime.Cleanup
	parsed  *ptx.Module // nil if the image is not PTX that Ferry can parse

	mu        sync.Mutex
	variables map[string]*allocation // by name, for Global and ManagedGlobal
	closing   bool                   // the last variable in use disposes of the module
}

// Load compiles PTX for the GPU or, on hardware, loads a cubin or fatbin
// (cuModuleLoadDataEx). If PTX does not compile, the error is a *cu.JITError with the
// messages of the compiler; %+v prints all of them. Package kernels has PTX to start with.
func Load(g *GPU, image []byte) (*Module, error) { return load(g, "PTX", image) }

// LoadFile is [Load] for an image in a file.
func LoadFile(g *GPU, path string) (*Module, error) {
	if g == nil {
		return nil, refusal.Invalid("load %s: no GPU given (nil)", path)
	}
	image, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load a module: %w", err)
	}
	return load(g, path, image)
}

// load implements Load and LoadFile. name is for messages.
func load(g *GPU, name string, image []byte) (*Module, error) {
	if err := g.enter("load a module"); err != nil {
		return nil, err
	}
	parsed, syntax := parsePTX(name, image)
	handle, err := g.driver.ModuleLoadData(g.ctx, image)
	if err != nil {
		g.leave()
		if syntax != nil { // unlike the driver's error it has the name of the file, and the line
			err = errors.Join(syntax, err)
		}
		return nil, fmt.Errorf("load %s (%s) on %s: %w", name, refusal.Size(uintptr(len(image))), g.label, err)
	}
	m := &Module{g: g, handle: handle, parsed: parsed}
	m.tracker.Init()
	m.leak = watchLeak(m, m.String)
	return m, nil
}

// parsePTX parses an image that is PTX. For other images both results are nil.
func parsePTX(name string, image []byte) (*ptx.Module, error) {
	text := strings.TrimRight(string(image), "\x00")
	if strings.ContainsRune(text, 0) || !strings.Contains(text, ".version") {
		return nil, nil
	}
	return ptx.Parse(name, text)
}

// String returns a description of the module: "a module (vector_add, copy) on cuda:0".
func (m *Module) String() string {
	if m == nil || m.g == nil {
		return "no module"
	}
	return fmt.Sprintf("a module (%s) on %s", m.names(), m.g.label)
}

// Kernels returns the names of the module's kernels, in the order of the source. It returns
// nil for a cubin or fatbin.
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

// names returns the names of the kernels as text.
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

// enter counts a use of the module. It fails when the module is nil or closed.
// m.tracker.Leave ends the use.
func (m *Module) enter(what, name string) error {
	if m == nil || m.g == nil {
		return refusal.Invalid("%s %q: no module given (nil)", what, name)
	}
	if !m.tracker.Enter() {
		return fmt.Errorf("%s %q: %v: %w", what, name, m, ErrClosed)
	}
	return nil
}

// Kernel finds a kernel by name (cuModuleGetFunction). If there is no such kernel, the
// error wraps cu.ErrorNotFound and lists the kernels that exist.
func (m *Module) Kernel(name string) (*Kernel, error) {
	if err := m.enter("find kernel", name); err != nil {
		return nil, err
	}
	defer m.tracker.Leave()
	f, err := m.g.driver.ModuleGetFunction(m.g.ctx, m.handle, name)
	if err != nil {
		return nil, fmt.Errorf("find kernel %q: %w (there are: %s)", name, err, m.names())
	}
	k, err := newKernel(m, f, name)
	if err != nil {
		return nil, fmt.Errorf("read the attributes of kernel %q: %w", name, err)
	}
	return k, nil
}

// Close waits for the kernels of the module that are in flight, and unloads the module
// (cuModuleUnload). Its kernels cannot be launched any more, except by graphs that have
// captured them: the last of these graphs unloads the module. Close of a closed or nil
// module does nothing and returns nil.
func (m *Module) Close() error {
	if m == nil || m.g == nil {
		return nil
	}
	if first, _ := m.tracker.Close(); !first {
		return nil
	}
	m.leak.Stop()
	return afterHostFunction(m.drain)
}

// drain waits for the calls that use the closed module. It continues with dispose once no
// graph owns the module.
func (m *Module) drain() error {
	if err := m.tracker.TryDrain(m.g.mayWait); err != nil {
		return err
	}
	return errors.Join(m.closeVariables(), m.tracker.AfterOwners(func() error { return afterHostFunction(m.dispose) }))
}

// dispose waits for the kernels in flight, unloads the module and leaves the GPU. If a
// variable is in use, its last user disposes of the module later.
func (m *Module) dispose() error {
	if m.inUse() {
		return nil
	}
	err := m.tracker.Wait(context.Background(), inflight.Write)
	if inHostFunction(err) || err != nil && !sticky(err) {
		return fmt.Errorf("close %v: the hardware may be using it, so it is not unloaded: %w", m, err)
	}
	err = m.g.driver.ModuleUnload(m.g.ctx, m.handle)
	if inHostFunction(err) {
		return err
	}
	m.g.leave()
	if err != nil {
		return fmt.Errorf("close %v: %w", m, err)
	}
	return nil
}

// closeVariables closes the variables. Each calls forget when it is disposed of.
func (m *Module) closeVariables() error {
	m.mu.Lock()
	var all []*allocation
	for _, a := range m.variables {
		all = append(all, a)
	}
	m.mu.Unlock()
	var first error
	for _, a := range all {
		if err := a.closeNow(0); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// keep stores the allocation of a variable. If there is one already, it returns that.
func (m *Module) keep(a *allocation) *allocation {
	m.mu.Lock()
	defer m.mu.Unlock()
	if first := m.variables[a.name]; first != nil {
		return first
	}
	if m.variables == nil {
		m.variables = map[string]*allocation{}
	}
	m.variables[a.name] = a
	m.g.lifetime.AddUser()
	return a
}

// kept returns the stored allocation of a variable, or nil.
func (m *Module) kept(name string) *allocation {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.variables[name]
}

// forget removes an unused variable from a closed module. It disposes of the module if
// that had to wait for the variable.
func (m *Module) forget(a *allocation) error {
	m.mu.Lock()
	delete(m.variables, a.name)
	last := m.closing && len(m.variables) == 0
	m.mu.Unlock()
	if last {
		return afterHostFunction(m.dispose)
	}
	return nil
}

// inUse reports whether variables of the module are in use. The last of them then disposes
// of the module.
func (m *Module) inUse() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closing = len(m.variables) > 0
	return m.closing
}

// Global returns a variable of a module as a buffer (cuModuleGetGlobal). PTX declares such
// a variable .global or .const, CUDA C++ __device__ or __constant__. Its size must be a
// multiple of the size of T. The buffer is valid until the module is closed, and needs no
// Close. Kernels of the module that are in flight count as using it. If there is no such
// variable, the error wraps cu.ErrorNotFound and lists the variables that exist.
func Global[T any](m *Module, name string) (*Device[T], error) {
	r, err := globalOf[T](m, name, false)
	if err != nil {
		return nil, err
	}
	return &Device[T]{*r}, nil
}

// ManagedGlobal is [Global] for a variable in managed memory. PTX declares such a variable
// .attribute(.managed), CUDA C++ __managed__. The host can use it like memory of
// [AllocManaged]. For other variables the error wraps cu.ErrorInvalidValue.
func ManagedGlobal[T any](m *Module, name string) (*Managed[T], error) {
	r, err := globalOf[T](m, name, true)
	if err != nil {
		return nil, err
	}
	return &Managed[T]{*r}, nil
}

// globalOf returns the span of a variable, in elements of T.
func globalOf[T any](m *Module, name string, managed bool) (*span, error) {
	const what = "find variable"
	e, err := elementOf[T]()
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", what, name, err)
	}
	if err := m.enter(what, name); err != nil {
		return nil, err
	}
	defer m.tracker.Leave()
	a, err := variable(m, name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s %q: %w", what, name, err)
	case managed && a.kind != managedMemory:
		return nil, refusal.Invalid("%s %q: %v is not managed: use Global", what, name, a)
	case e.size == 0 || a.bytes%e.size != 0:
		return nil, refusal.Invalid("%s %q: it has %s, which is not a multiple of the size of %s, %s each", what, name, refusal.Size(a.bytes), e.name, refusal.Size(e.size))
	}
	r := a.whole()
	r.n = int(a.bytes / e.size)
	return &r, nil
}

// variable returns the allocation of a variable. The caller has entered the module.
func variable(m *Module, name string) (*allocation, error) {
	if a := m.kept(name); a != nil {
		return a, nil
	}
	d, ctx := m.g.driver, m.g.ctx
	p, bytes, err := d.ModuleGetGlobal(ctx, m.handle, name)
	if err != nil {
		return nil, fmt.Errorf("%w (there are: %s)", err, variableNames(m))
	}
	about, err := d.PointerGetAttributes(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("read its attributes: %w", err)
	}
	a := &allocation{g: m.g, kind: deviceMemory, name: name, count: int(bytes), bytes: bytes, dev: p, module: &m.tracker, free: m.forget}
	if about.IsManaged {
		a.kind, a.host = managedMemory, hostAddress(p)
	}
	a.Init()
	a.close = a.closeNow
	a.list()
	if first := m.keep(a); first != a {
		a.unlist()
		return first, nil
	}
	return a, nil
}

// variableNames lists the variables for a message.
func variableNames(m *Module) string {
	if m.parsed == nil {
		return "variables not known"
	}
	var names []string
	for _, v := range m.parsed.Vars {
		if v.Space == ptx.GlobalSpace || v.Space == ptx.ConstSpace {
			names = append(names, v.Name)
		}
	}
	if len(names) == 0 {
		return "no variables"
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
