package ferry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/ptx"
)

// Global is a variable of a module as a buffer (cuModuleGetGlobal): one that PTX
// declares .global or .const, CUDA C++ __device__ or __constant__. Its size must be
// a whole number of elements of T. It is good until the module's Close, and needs
// none of its own. Kernels of the module that are in flight count as using it. The
// error for one that is not there wraps cu.ErrorNotFound and lists those that are.
func Global[T any](m *Module, name string) (*Device[T], error) {
	r, err := globalOf[T](m, name, false)
	if err != nil {
		return nil, err
	}
	return &Device[T]{*r}, nil
}

// ManagedGlobal is [Global] of a variable in managed memory: one that PTX declares
// .attribute(.managed), CUDA C++ __managed__. The host has it, too, as it has the
// memory of [AllocManaged]. Another variable is cu.ErrorInvalidValue.
func ManagedGlobal[T any](m *Module, name string) (*Managed[T], error) {
	r, err := globalOf[T](m, name, true)
	if err != nil {
		return nil, err
	}
	return &Managed[T]{*r}, nil
}

// globalOf is a variable as elements of T.
func globalOf[T any](m *Module, name string, managed bool) (*region, error) {
	e, err := elementOf[T]()
	if err != nil {
		return nil, fmt.Errorf("find variable %q: %w", name, err)
	}
	if m == nil {
		return nil, refuse("find variable %q: no module given (nil)", name)
	}
	if !m.enter() {
		return nil, fmt.Errorf("find variable %q: %v: %w", name, m, ErrClosed)
	}
	defer m.leave()
	a, err := m.variable(name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("find variable %q: %w", name, err)
	case managed && a.kind != managedMemory:
		return nil, refuse("find variable %q: %v is not managed: use Global", name, a)
	case e.size == 0 || a.bytes%e.size != 0:
		return nil, refuse("find variable %q: it has %s, which is no number of elements of %s, %s each", name, sizeText(a.bytes), e.name, sizeText(e.size))
	}
	r := a.whole()
	r.n = int(a.bytes / e.size)
	return &r, nil
}

// variable is the allocation that stands for a variable. The module is entered.
func (m *Module) variable(name string) (*allocation, error) {
	m.mu.Lock()
	a := m.variables[name]
	m.mu.Unlock()
	if a != nil {
		return a, nil
	}
	d, ctx := m.g.driver, m.g.ctx
	p, bytes, err := d.ModuleGetGlobal(ctx, m.handle, name)
	if err != nil {
		return nil, fmt.Errorf("%w (there are: %s)", err, m.variableNames())
	}
	about, err := d.PointerGetAttributes(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("look at it: %w", err)
	}
	a = &allocation{g: m.g, kind: deviceMemory, name: name, count: int(bytes), bytes: bytes, dev: p, module: m}
	if about.IsManaged {
		a.kind, a.host = managedMemory, hostAddress(p)
	}
	a.init()
	a.route()
	a.enlist()
	if first := m.remember(a); first != a {
		a.delist()
		return first, nil
	}
	return a, nil
}

// remember keeps the allocation of a variable, or is the one kept before.
func (m *Module) remember(a *allocation) *allocation {
	m.mu.Lock()
	defer m.mu.Unlock()
	if first := m.variables[a.name]; first != nil {
		return first
	}
	if m.variables == nil {
		m.variables = map[string]*allocation{}
	}
	m.variables[a.name] = a
	m.g.life.again()
	return a
}

// variableNames lists the variables for a message.
func (m *Module) variableNames() string {
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

// closeVariables ends the use of the module's variables; each tells forget.
func (m *Module) closeVariables() error {
	m.mu.Lock()
	var all []*allocation
	for _, a := range m.variables {
		all = append(all, a)
	}
	m.mu.Unlock()
	var first error
	for _, a := range all {
		if err := a.close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// forget takes a variable that is not used any more out of a closed module, and
// unloads the module if that had to wait for it.
func (m *Module) forget(a *allocation) error {
	m.mu.Lock()
	delete(m.variables, a.name)
	last := m.late && len(m.variables) == 0
	m.mu.Unlock()
	if last {
		return m.g.soon(m.dispose)
	}
	return nil
}

// inUse says that variables of the module are in use, the last of which will
// dispose of the module.
func (m *Module) inUse() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.late = len(m.variables) > 0
	return m.late
}
