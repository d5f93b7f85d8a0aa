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
	tracker inflight.Tracker // of its code
	g       *GPU
	handle  cu.Module
	leak    runtime.Cleanup
	parsed  *ptx.Module // nil when the image is no PTX that Ferry reads

	mu        sync.Mutex
	variables map[string]*allocation // those asked for
	closing   bool                   // the last of them disposes of the module
}

// Load compiles PTX text for the GPU, or loads a cubin or fatbin on hardware
// (cuModuleLoadDataEx). PTX that does not compile is a *cu.JITError with the
// compiler's messages; %+v prints them whole. Package kernels has PTX to begin with.
func Load(g *GPU, image []byte) (*Module, error) { return load(g, "PTX", image) }

// LoadFile is [Load] of a file.
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

// load is Load; name is for messages.
func load(g *GPU, name string, image []byte) (*Module, error) {
	if err := g.enter("load a module"); err != nil {
		return nil, err
	}
	parsed, syntax := parsePTX(name, image)
	handle, err := g.driver.ModuleLoadData(g.ctx, image)
	if err != nil {
		g.leave()
		if syntax != nil { // it has the file's name, and the line
			err = errors.Join(syntax, err)
		}
		return nil, fmt.Errorf("load %s (%s) on %s: %w", name, refusal.Size(uintptr(len(image))), g.label, err)
	}
	m := &Module{g: g, handle: handle, parsed: parsed}
	m.tracker.Init()
	m.leak = watchLeak(m, m.String)
	return m, nil
}

// parsePTX reads an image that is PTX. Both results are nil for one that is not.
func parsePTX(name string, image []byte) (*ptx.Module, error) {
	text := strings.TrimRight(string(image), "\x00")
	if strings.ContainsRune(text, 0) || !strings.Contains(text, ".version") {
		return nil, nil
	}
	return ptx.Parse(name, text)
}

// String names the module's kernels and its GPU.
func (m *Module) String() string {
	if m == nil || m.g == nil {
		return "no module"
	}
	return fmt.Sprintf("a module (%s) on %s", m.names(), m.g.label)
}

// Kernels is the names of the module's kernels in the order of the source. They are
// known for PTX only.
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

// enter counts a use of the module. m.tracker.Leave ends it.
func (m *Module) enter(what, name string) error {
	if m == nil || m.g == nil {
		return refusal.Invalid("%s %q: no module given (nil)", what, name)
	}
	if !m.tracker.Enter() {
		return fmt.Errorf("%s %q: %v: %w", what, name, m, ErrClosed)
	}
	return nil
}

// Kernel finds a kernel by name (cuModuleGetFunction). The error for one that does not
// exist wraps cu.ErrorNotFound and lists those that do.
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
		return nil, fmt.Errorf("look at kernel %q: %w", name, err)
	}
	return k, nil
}

// Close waits for kernels of the module in flight and gives it up (cuModuleUnload):
// its kernels cannot be launched any more, except by graphs that have captured them;
// with the last of those it is unloaded. Close of a closed or nil module is nil.
func (m *Module) Close() error {
	if m == nil || m.g == nil {
		return nil
	}
	if first, _ := m.tracker.Close(); !first {
		return nil
	}
	m.leak.Stop()
	return m.g.deferred.do(m.drain)
}

// drain waits for the calls that use the closed module, and goes on with dispose when
// no graph owns it.
func (m *Module) drain() error {
	if !m.tracker.Drained() {
		if err := m.g.mayWait(); err != nil {
			return err
		}
		m.tracker.Drain()
	}
	return errors.Join(m.closeVariables(), m.tracker.AfterOwners(func() error { return m.g.deferred.do(m.dispose) }))
}

// dispose waits, unloads and leaves the GPU.
func (m *Module) dispose() error {
	if m.inUse() {
		return nil
	}
	err := m.tracker.Wait(context.Background(), inflight.Write)
	if inHostFunction(err) || err != nil && !sticky(err) {
		return fmt.Errorf("close %v: it may be in use and is not unloaded: %w", m, err)
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

// closeVariables closes the variables that were asked for. Each reports to forget.
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

// keep keeps the allocation of a variable, or returns the one kept before.
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

// kept is the allocation of a variable that was asked for before, or nil.
func (m *Module) kept(name string) *allocation {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.variables[name]
}

// forget removes a variable that is not used any more from a closed module, and
// disposes of the module if that had to wait for it.
func (m *Module) forget(a *allocation) error {
	m.mu.Lock()
	delete(m.variables, a.name)
	last := m.closing && len(m.variables) == 0
	m.mu.Unlock()
	if last {
		return m.g.deferred.do(m.dispose)
	}
	return nil
}

// inUse reports that variables of the module are in use: the last of them will dispose
// of the module.
func (m *Module) inUse() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closing = len(m.variables) > 0
	return m.closing
}

// Global is a variable of a module as a buffer (cuModuleGetGlobal): one that PTX
// declares .global or .const, CUDA C++ __device__ or __constant__. Its size must be a
// whole number of elements of T. It is good until the module's Close, and needs none of
// its own. Kernels of the module that are in flight count as using it. The error for
// one that does not exist wraps cu.ErrorNotFound and lists those that do.
func Global[T any](m *Module, name string) (*Device[T], error) {
	r, err := globalOf[T](m, name, false)
	if err != nil {
		return nil, err
	}
	return &Device[T]{*r}, nil
}

// ManagedGlobal is [Global] of a variable in managed memory: one that PTX declares
// .attribute(.managed), CUDA C++ __managed__. The host can use it, too, as it can use
// memory of [AllocManaged]. Another variable is cu.ErrorInvalidValue.
func ManagedGlobal[T any](m *Module, name string) (*Managed[T], error) {
	r, err := globalOf[T](m, name, true)
	if err != nil {
		return nil, err
	}
	return &Managed[T]{*r}, nil
}

// globalOf is a variable as elements of T.
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
		return nil, refusal.Invalid("%s %q: it has %s, which is no number of elements of %s, %s each", what, name, refusal.Size(a.bytes), e.name, refusal.Size(e.size))
	}
	r := a.whole()
	r.n = int(a.bytes / e.size)
	return &r, nil
}

// variable is the allocation that stands for a variable of a module that is in use.
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
		return nil, fmt.Errorf("look at it: %w", err)
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
