package ferry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/address"
	"github.com/ferrygpu/ferry/internal/closing"
	"github.com/ferrygpu/ferry/internal/fatbin"
	"github.com/ferrygpu/ferry/internal/inflight"
	"github.com/ferrygpu/ferry/internal/inputfile"
	"github.com/ferrygpu/ferry/internal/kernelargs"
	"github.com/ferrygpu/ferry/internal/leak"
	"github.com/ferrygpu/ferry/internal/modcache"
	"github.com/ferrygpu/ferry/internal/nearest"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/ptx"
)

// Module is compiled code on a GPU. It is safe for concurrent use.
type Module struct {
	tracker inflight.Tracker // of launches
	g       *GPU
	handle  cu.Module
	leak    runtime.Cleanup
	parsed  *ptx.Module // shared, not changed; nil if the image is not PTX that Ferry can parse
	log     string      // of the compiler

	mu        sync.Mutex
	variables map[string]*allocation // by name, for Global and ManagedGlobal
	closing   bool                   // the last variable in use disposes of the module
	retry     closing.Retry          // the next Close disposes: the wait of the last one failed
}

// LoadOptions are options of the compiler for [Load], [LoadFile] and [Link]. The software
// GPU has no compiler: it checks the options, and uses those of registers and logs. With
// Optimize 0 or Debug it joins no multiplication with an addition, as ptxas.
type LoadOptions struct {
	Optimize     *int // level of optimization, from 0 to 4, as in new(0); nil for the default, 4
	MaxRegisters int  // most registers of a thread; 0 leaves it to the compiler
	LineInfo     bool // keep the lines of the source, for profilers
	Debug        bool // keep what debuggers need; slow code
	Verbose      bool // log what each kernel needs; see [Module.Log]

	// Bytes of the log of the compiler and of its error log, 0 for 16 KiB. A longer log
	// is cut.
	InfoLogBytes, ErrorLogBytes int
}

// maxLogBytes is the largest log that a caller can ask for.
const maxLogBytes = 64 << 20

// driverOptions returns the options as the driver takes them. It checks them first.
func (o *LoadOptions) driverOptions(what string) (*cu.JITOptions, error) {
	if o == nil {
		return nil, nil
	}
	j := &cu.JITOptions{LineInfo: o.LineInfo, DebugInfo: o.Debug, Verbose: o.Verbose,
		MaxRegisters: uint32(o.MaxRegisters), InfoLogBytes: uint32(o.InfoLogBytes), ErrorLogBytes: uint32(o.ErrorLogBytes)}
	if o.Optimize != nil {
		if *o.Optimize < 0 || *o.Optimize > cu.MaxOptimizationLevel {
			return nil, refusal.Invalid("%s: Optimize is %d: must be 0 to %d", what, *o.Optimize, cu.MaxOptimizationLevel)
		}
		j.OptimizationLevel = new(uint32(*o.Optimize))
	}
	if o.MaxRegisters < 0 || int64(o.MaxRegisters) > math.MaxInt32 {
		return nil, refusal.Invalid("%s: MaxRegisters is %d: must be 0 or more", what, o.MaxRegisters)
	}
	for _, n := range []int{o.InfoLogBytes, o.ErrorLogBytes} {
		if n < 0 || n > maxLogBytes {
			return nil, refusal.Invalid("%s: a log of %d bytes: must be 0 to %d", what, n, maxLogBytes)
		}
	}
	return j, nil
}

// Load compiles PTX for the GPU (cuModuleLoadDataEx), or loads a cubin or fatbin. The
// software GPU runs the PTX of a fatbin, and refuses a cubin. o may be nil. If PTX does not
// compile, the error is a *cu.JITError with the messages of the compiler; %+v prints all of
// them. Package kernels has PTX to start with.
//
// Each call returns a module with variables of its own. PTX that the process has loaded
// before is not parsed again.
func Load(g *GPU, image []byte, o *LoadOptions) (*Module, error) { return load(g, "PTX", image, o) }

// LoadFile is [Load] for an image in a file.
func LoadFile(g *GPU, path string, o *LoadOptions) (*Module, error) {
	if g == nil {
		return nil, refusal.Invalid("load %s: no GPU given (nil)", path)
	}
	image, err := inputfile.Read(path, inputfile.Image)
	if err != nil {
		return nil, fmt.Errorf("load a module: %w", err)
	}
	return load(g, path, image, o)
}

// load implements Load and LoadFile. name is for messages.
func load(g *GPU, name string, image []byte, o *LoadOptions) (*Module, error) {
	const what = "load a module"
	options, err := o.driverOptions(what)
	if err != nil {
		return nil, err
	}
	if err := g.enter(what); err != nil {
		return nil, err
	}
	parsed, syntax := parsePTX(name, image)
	handle, log, err := g.driver.ModuleLoadDataEx(g.ctx, image, options)
	if err != nil {
		g.leave()
		if syntax != nil { // unlike the driver's error it has the name of the file, and the line
			err = errors.Join(syntax, err)
		}
		return nil, fmt.Errorf("load %s (%s) on %s: %w", name, refusal.Size(uintptr(len(image))), g.label, err)
	}
	return newModule(g, handle, parsed, log), nil
}

// newModule returns a loaded module. The caller has entered the GPU.
func newModule(g *GPU, handle cu.Module, parsed *ptx.Module, log string) *Module {
	m := &Module{g: g, handle: handle, parsed: parsed, log: log}
	m.tracker.Init()
	m.leak = leak.Watch(m, m.String)
	return m
}

// LinkInput is one of the images of [Link]: PTX, a cubin or fatbin with relocatable code
// (nvcc -dc), or on hardware a host object or library with such code.
type LinkInput struct {
	Name  string // for messages
	Image []byte
}

// Link makes one module of several (cuLinkCreate). A function or variable that one input
// declares extern is the one that another input defines. The software GPU links PTX, and
// the PTX of fatbins. o may be nil. If a name is missing or defined twice, the error is a
// *cu.JITError with the messages of the linker.
func Link(g *GPU, inputs []LinkInput, o *LoadOptions) (*Module, error) {
	const what = "link modules"
	options, err := o.driverOptions(what)
	if err != nil {
		return nil, err
	}
	if len(inputs) == 0 {
		return nil, refusal.Invalid("%s: no inputs given", what)
	}
	if err := g.enter(what); err != nil {
		return nil, err
	}
	m, err := link(g, inputs, options)
	if err != nil {
		g.leave()
		return nil, fmt.Errorf("%s (%s) on %s: %w", what, inputNames(inputs), g.label, err)
	}
	return m, nil
}

// link implements Link. The caller has entered the GPU. It stays on one thread of the system, as
// [cu.Linking] demands.
func link(g *GPU, inputs []LinkInput, options *cu.JITOptions) (m *Module, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	d := g.driver
	state, err := d.LinkCreate(g.ctx, options)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := endLink(g, state); e != nil && err == nil {
			m.leak.Stop()
			err = refusal.Join(fmt.Errorf("end the link: %w", e), d.ModuleUnload(g.ctx, m.handle))
		}
	}()
	for i := range inputs {
		in := &inputs[i]
		if err := d.LinkAddData(g.ctx, state, inputKind(in.Image), in.Image, in.Name); err != nil {
			if _, syntax := parsePTX(in.Name, in.Image); syntax != nil {
				err = errors.Join(syntax, err)
			}
			return nil, fmt.Errorf("input %s (%s): %w", in.Name, refusal.Size(uintptr(len(in.Image))), err)
		}
	}
	image, linked, err := d.LinkComplete(g.ctx, state)
	if err != nil {
		return nil, err
	}
	handle, log, err := d.ModuleLoadDataEx(g.ctx, image, options)
	if err != nil {
		return nil, err
	}
	return newModule(g, handle, parseInputs(inputs), linked+log), nil
}

// endLink destroys a link. One that the driver does not destroy is left to Close of the GPU, because
// a link must end before its context.
func endLink(g *GPU, state cu.LinkState) error {
	end := func() error { return g.driver.LinkDestroy(g.ctx, state) }
	err := end()
	if err != nil && !refusal.Sticky(err) {
		g.endAtClose(func() error {
			if err := end(); !errors.Is(err, cu.ErrorInvalidHandle) { // the call that failed has destroyed it
				return err
			}
			return nil
		})
	}
	return err
}

func inputNames(inputs []LinkInput) string {
	names := make([]string, len(inputs))
	for i := range inputs {
		names[i] = inputs[i].Name
	}
	return strings.Join(names, ", ")
}

// inputKind returns what the linker must be told about an image.
func inputKind(image []byte) cu.JITInputType {
	switch {
	case fatbin.Is(image):
		return cu.JITInputFatbinary
	case fatbin.IsArchive(image):
		return cu.JITInputLibrary
	case fatbin.IsHostELF(image):
		return cu.JITInputObject
	case fatbin.IsELF(image):
		return cu.JITInputCubin
	}
	return cu.JITInputPTX
}

// parseInputs returns the module that the inputs make if all of them are PTX, otherwise
// nil: then the driver tells what the kernels take.
func parseInputs(inputs []LinkInput) *ptx.Module {
	modules := make([]ptx.Input, len(inputs))
	for i := range inputs {
		m, _ := parsePTX(inputs[i].Name, inputs[i].Image)
		if m == nil {
			return nil
		}
		modules[i] = ptx.Input{Name: inputs[i].Name, Module: m}
	}
	m, err := ptx.Link(modules, "vprintf", "__assertfail", "malloc", "free")
	if err != nil {
		return nil
	}
	return m
}

// parsePTX parses an image that is PTX. For other images both results are nil.
func parsePTX(name string, image []byte) (*ptx.Module, error) {
	text := bytes.TrimRight(image, "\x00")
	if bytes.IndexByte(text, 0) >= 0 || !bytes.Contains(text, []byte(".version")) {
		return nil, nil
	}
	m, err := modcache.Parse(text)
	return m, named(name, err)
}

// named returns a copy of an error of the parser with the name of the file.
func named(name string, err error) error {
	switch err := err.(type) {
	case *ptx.Error:
		e := *err
		e.File = name
		return &e
	case ptx.ErrorList:
		list := make(ptx.ErrorList, len(err))
		for i, e := range err {
			list[i] = named(name, e).(*ptx.Error)
		}
		return list
	}
	return err
}

// Log returns what the compiler and the linker had to say about the module: warnings and,
// with [LoadOptions].Verbose, what each kernel needs. Hardware logs nothing where the
// driver's cache has the code.
func (m *Module) Log() string {
	if m == nil {
		return ""
	}
	return m.log
}

// Warnings returns the lines of the log that are warnings.
func (m *Module) Warnings() []string {
	var list []string
	for line := range strings.Lines(m.Log()) {
		if line = strings.TrimSpace(line); strings.Contains(strings.ToLower(line), "warning") {
			list = append(list, line)
		}
	}
	return list
}

// String returns a description of the module: "a module (vector_add, copy) on cuda:0".
func (m *Module) String() string {
	if m == nil || m.g == nil {
		return "no module"
	}
	return fmt.Sprintf("a module (%s) on %s", m.names(), m.g.label)
}

// GPU returns the GPU of the module.
func (m *Module) GPU() *GPU {
	if m == nil {
		return nil
	}
	return m.g
}

// Handle returns the driver's handle of the module (a CUmodule), for another library. It must not
// unload it. After Close the handle is dead: see [Stream.Handle].
func (m *Module) Handle() cu.Module {
	if m == nil {
		return 0
	}
	return m.handle
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

// notFound returns an error of the driver for a name that a module lacks. It proposes the
// nearest of all names that the module has for things of a kind.
func (m *Module) notFound(err error, name, kind string, all []string) error {
	switch {
	case !errors.Is(err, cu.ErrorNotFound):
		return err
	case m.parsed == nil:
		return fmt.Errorf("%w (there are: %s not known)", err, kind)
	case len(all) == 0:
		return refusal.New(cu.ErrorNotFound, "there are no %s", kind)
	}
	return refusal.New(cu.ErrorNotFound, "did you mean %q? there are: %s", nearest.Names(name, all, 1)[0], strings.Join(all, ", "))
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
		return nil, fmt.Errorf("find kernel %q: %w", name, m.notFound(err, name, "kernels", m.Kernels()))
	}
	k, err := newKernel(m, f, name)
	if err != nil {
		return nil, fmt.Errorf("read the attributes of kernel %q: %w", name, err)
	}
	return k, nil
}

// Close waits for the kernels of the module that are in flight, and unloads the module
// (cuModuleUnload). Its kernels cannot be launched any more, except by graphs that have
// captured them: the last of these graphs unloads the module. If the driver cannot wait,
// the error says so, and another Close tries again. While a [CopyFrom] or [CopyTo] uses a variable
// of the module, or a [Stream.External] the module, the error wraps cu.ErrorNotReady, and that call
// unloads the module when it returns. Otherwise Close of a closed or nil module does nothing and returns nil.
func (m *Module) Close() error {
	if m == nil || m.g == nil {
		return nil
	}
	if first, _ := m.tracker.Close(); !first {
		if m.tracker.Lent() {
			return m.errLent(inflight.ErrLent)
		}
		return refusal.Join(m.closeVariables(), m.retry.Close(m.dispose))
	}
	m.leak.Stop()
	return closing.AfterHostFunction(m.drain)
}

// drain waits for the calls that use the closed module. It continues with dispose once no
// graph owns the module.
func (m *Module) drain() error {
	if err := m.tracker.TryDrain(m.g.mayWait); err != nil {
		return err
	}
	return refusal.Join(m.closeVariables(), m.errLent(m.tracker.AfterOwners(func() error { return closing.AfterHostFunction(m.dispose) })))
}

// errLent explains inflight.ErrLent, and returns other errors as they are.
func (m *Module) errLent(err error) error {
	if err == inflight.ErrLent { //nolint:errorlint // it is not wrapped
		err = refusal.New(cu.ErrorNotReady, "close %v: an External that has not returned uses it, and unloads it when it returns", m)
	}
	return err
}

// dispose waits for the kernels in flight, unloads the module and leaves the GPU. If a
// variable is in use, its last user disposes of the module later.
func (m *Module) dispose() error {
	if m.inUse() {
		return nil
	}
	defer stopTimer(sayIfBusy(m.g, m, &m.tracker))
	err := m.tracker.Wait(context.Background(), inflight.Write)
	if closing.InHostFunction(err) {
		return err
	}
	if err != nil && !refusal.Sticky(err) {
		m.retry.Failed()
		return fmt.Errorf("close %v: the hardware may be using it, so it is not unloaded until it is closed again: %w", m, err)
	}
	if err = m.g.settle(); err == nil {
		err = m.g.driver.ModuleUnload(m.g.ctx, m.handle)
	}
	if closing.InHostFunction(err) {
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
	m.closing = m.closing && !last // once
	m.mu.Unlock()
	if last {
		return closing.AfterHostFunction(m.dispose)
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
	return &Device[T]{span: *r}, nil
}

// ManagedGlobal is [Global] for a variable in managed memory. PTX declares such a variable
// .attribute(.managed), CUDA C++ __managed__. The host can use it like memory of
// [AllocManaged]. For other variables the error wraps cu.ErrorInvalidValue.
func ManagedGlobal[T any](m *Module, name string) (*Managed[T], error) {
	r, err := globalOf[T](m, name, true)
	if err != nil {
		return nil, err
	}
	return &Managed[T]{span: *r}, nil
}

// globalOf returns the span of a variable, in elements of T.
func globalOf[T any](m *Module, name string, managed bool) (*span, error) {
	const what = "find variable"
	e, err := kernelargs.ElementOf[T]()
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
	case e.Size == 0 || a.bytes%e.Size != 0:
		return nil, refusal.Invalid("%s %q: it has %s, which is not a multiple of the size of %s, %s each", what, name, refusal.Size(a.bytes), e.Name, refusal.Size(e.Size))
	}
	r := a.whole()
	r.n = int(a.bytes / e.Size)
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
		return nil, m.notFound(err, name, "variables", variableNames(m))
	}
	about, err := d.PointerGetAttributes(ctx, p)
	if err != nil {
		return nil, fmt.Errorf("read its attributes: %w", err)
	}
	a := &allocation{g: m.g, kind: deviceMemory, name: name, count: int(bytes), bytes: bytes, dev: p, module: &m.tracker, free: m.forget}
	if about.IsManaged {
		a.kind, a.host = managedMemory, address.Host(p)
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

// variableNames returns the names of the variables, if they are known.
func variableNames(m *Module) (names []string) {
	if m.parsed == nil {
		return nil
	}
	for _, v := range m.parsed.Vars {
		if v.Space == ptx.GlobalSpace || v.Space == ptx.ConstSpace {
			names = append(names, v.Name)
		}
	}
	slices.Sort(names)
	return names
}
