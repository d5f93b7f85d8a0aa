package simt

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/callsite"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/ptx"
)

// Program is a decoded module. It is immutable and safe for concurrent use.
type Program struct {
	module  *ptx.Module
	funcs   map[string]*function
	list    []*function // index: function.id
	kernels map[string]*Kernel

	variables []string       // whose addresses the code uses
	indices   map[string]int // of variables, by name
	accesses  int            // memory instructions decoded so far

	declared map[*ptx.Var]int // number of each shared variable in the order of declaration

	constBytes int // of all constant variables

	plain bool // as compiled without optimisation: no multiplication is joined with an addition
}

// Kernel is an entry of a program.
type Kernel struct {
	Name        string
	Params      []ptx.Param
	ParamBytes  int    // of the packed arguments
	SharedBytes int    // static shared memory
	LocalBytes  int    // per thread, without what calls add
	ConstBytes  int    // constant variables of the module
	Registers   int    // estimate of what a thread needs at once, in units of 32 bits, at most 255
	Barriers    int    // barriers of a block that the kernel can use
	MaxThreads  int    // per block, from .maxntid or .reqntid, otherwise 1024
	ReqBlock    [3]int // .reqntid; zero when absent
	Heap        bool   // the kernel can call malloc or free

	// Unsupported is the error for the first instruction that the kernel can reach
	// and that this package does not run. Run returns it for a launch of the kernel.
	Unsupported error

	program   *Program
	fn        *function
	addresses []uint64 // of Program.variables; Bind sets them
	shared    map[*ptx.Var]uint64
	dynamicAt int // where dynamic shared memory starts

	boundedStack bool // a compiler knows how much stack the kernel needs
}

// UnsupportedError is the error for an instruction that the interpreter does not run.
// It wraps [cu.ErrorNotSupported].
type UnsupportedError struct {
	Kernel    string
	File      string // of the PTX, may be empty
	Line, Col int    // in the file, both from 1
	Op        string // the opcode with its modifiers
	What      string // what is not supported
	Source    string // the source line
}

// Error returns the position, what is not supported, the source line, and a caret
// under the instruction.
func (e *UnsupportedError) Error() string {
	at := ptx.Error{
		File: e.File, Pos: ptx.Pos{Line: e.Line, Col: e.Col}, Line: e.Source,
		Msg: fmt.Sprintf("kernel %s: %s: %s: %s", e.Kernel, e.Op, e.What, cu.ErrorNotSupported.Name()),
	}
	return at.Error()
}

func (e *UnsupportedError) Unwrap() error { return cu.ErrorNotSupported }

// unsupported returns the error of a kernel that can reach an unsupported
// instruction.
func (p *Program) unsupported(kernel string, u *unsupported) error {
	file, text := u.in.src.Text()
	return &UnsupportedError{
		Kernel: kernel, File: file, Line: u.pos.Line, Col: u.pos.Col, Op: u.op, What: u.what,
		Source: sourceLine(text, u.pos.Line),
	}
}

// sourceLine returns line n of a text, counted from 1.
func sourceLine(text string, n int) string {
	for line := range strings.Lines(text) {
		if n--; n == 0 {
			return strings.TrimRight(line, "\r\n")
		}
	}
	return ""
}

// Link decodes a module and binds it: it is [Decode] and [Program.Bind] in one. It fails
// for a nil module only.
func Link(m *ptx.Module, addr func(name string) (uint64, bool)) (*Program, error) {
	p, err := Decode(m)
	if err != nil {
		return nil, err
	}
	return p.Bind(addr), nil
}

// Bind returns the program with the addresses of its module-scope variables in global and
// constant space, which addr returns. The programs share their code. A kernel that can
// reach a variable without an address cannot run; its error is in [Kernel.Unsupported].
func (p *Program) Bind(addr func(name string) (uint64, bool)) *Program {
	bound := *p
	addresses := make([]uint64, len(p.variables))
	lost := map[int]bool{}
	for i, name := range p.variables {
		ok := addr != nil
		if ok {
			addresses[i], ok = addr(name)
		}
		if !ok {
			lost[i] = true
		}
	}
	bound.kernels = make(map[string]*Kernel, len(p.kernels))
	for name, k := range p.kernels {
		c := *k
		c.program, c.addresses = &bound, addresses
		if u := c.lostVariable(lost); u != nil && c.Unsupported == nil {
			c.Unsupported = p.unsupported(name, u)
		}
		bound.kernels[name] = &c
	}
	return &bound
}

// lostVariable returns the error for the use of a variable in lost that the kernel can reach.
func (k *Kernel) lostVariable(lost map[int]bool) *unsupported {
	if len(lost) == 0 {
		return nil
	}
	for _, f := range reachable(k.fn) {
		for _, v := range f.uses {
			if lost[v] {
				return f.firstUse(f.program.variables[v])
			}
		}
	}
	return nil
}

// variable returns the index of a variable whose address the code uses.
func (p *Program) variable(name string) int {
	i, ok := p.indices[name]
	if !ok {
		i = len(p.variables)
		p.indices[name] = i
		p.variables = append(p.variables, name)
	}
	return i
}

// Decode resolves the names of a module and decodes its functions. The result has no
// addresses of variables: [Program.Bind] adds them. The module must not change later.
//
// Decode does not fail for an instruction that cannot run. The error is in
// [Kernel.Unsupported] of each kernel that can reach the instruction. It fails for a nil
// module only.
func Decode(m *ptx.Module) (*Program, error) { return decodeModule(m, false) }

// DecodePlain is [Decode] for a module that is compiled without optimisation: no
// multiplication is joined with an addition.
func DecodePlain(m *ptx.Module) (*Program, error) { return decodeModule(m, true) }

func decodeModule(m *ptx.Module, plain bool) (*Program, error) {
	if m == nil {
		return nil, errors.New("link: no module")
	}
	p := &Program{
		module: m, plain: plain || slices.Contains(m.Target, "debug"), indices: map[string]int{}, declared: map[*ptx.Var]int{},
		funcs: map[string]*function{}, kernels: map[string]*Kernel{},
	}
	for _, f := range m.Funcs {
		if f.Declared {
			continue
		}
		fn := &function{id: len(p.list), name: f.Name, src: f, program: p}
		p.funcs[f.Name] = fn
		p.list = append(p.list, fn)
	}
	for alias := range m.Aliases {
		if f := m.Func(alias); f != nil && p.funcs[alias] == nil {
			p.funcs[alias] = p.funcs[f.Name]
		}
	}
	for _, v := range m.Vars {
		if v.Space == ptx.ConstSpace {
			p.constBytes += v.Size()
		}
	}
	p.numberShared()
	for _, fn := range p.list {
		fn.layout()
	}
	for _, fn := range p.list {
		fn.number()
	}
	for _, fn := range p.list {
		fl := newFlow(fn)
		fn.decode(fl)
		fn.pressure, fn.barriers = fl.findPressure(), fn.findBarriers()
	}
	g := newCallGraph(p)
	g.findStacks()
	needs := p.findNeeds()
	for _, fn := range p.list {
		if fn.src.Entry {
			p.kernels[fn.name] = p.newKernel(fn, needs[fn.id], g.bounded[fn.id])
		}
	}
	return p, nil
}

// Kernel returns the entry of that name, nil if there is none.
func (p *Program) Kernel(name string) *Kernel {
	if p == nil {
		return nil
	}
	return p.kernels[name]
}

// Address returns the value of a function pointer to a function of the module.
func (p *Program) Address(function string) (uint64, bool) {
	fn := p.funcs[function]
	if fn == nil {
		return 0, false
	}
	return fn.address(), true
}

// layoutShared places the shared variables that a kernel and its callees use, in the order of
// declaration. Variables without an extent start where the others end.
func (k *Kernel) layoutShared(shared []*ptx.Var) {
	n, align := 0, 16
	var open []*ptx.Var
	for _, v := range shared {
		size := v.Size()
		if size == 0 {
			open = append(open, v)
			align = max(align, max(v.Align, 1))
			continue
		}
		n = alignUp(n, max(v.Align, 1))
		k.shared[v] = uint64(n)
		n += size
	}
	k.SharedBytes = n
	for _, v := range open {
		k.shared[v] = uint64(alignUp(n, align))
	}
	k.dynamicAt = n
	if len(open) > 0 {
		k.dynamicAt = alignUp(n, align)
	}
}

// numberShared numbers the shared variables in the order of declaration.
func (p *Program) numberShared() {
	number := func(vars []*ptx.Var) {
		for _, v := range vars {
			if v.Space == ptx.SharedSpace {
				p.declared[v] = len(p.declared)
			}
		}
	}
	number(p.module.Vars)
	for _, f := range p.list {
		number(f.src.Vars)
	}
}

func (p *Program) newKernel(fn *function, n needs, boundedStack bool) *Kernel {
	k := &Kernel{
		Name: fn.name, Params: fn.params, ParamBytes: fn.paramBytes,
		LocalBytes: fn.localBytes, ConstBytes: p.constBytes,
		MaxThreads: 1024, ReqBlock: fn.src.ReqNTID, program: p, fn: fn,
		shared: map[*ptx.Var]uint64{}, boundedStack: boundedStack,
	}
	for _, dim := range [][3]int{fn.src.ReqNTID, fn.src.MaxNTID} {
		if dim[0] > 0 {
			k.MaxThreads = dim[0] * max(dim[1], 1) * max(dim[2], 1)
			break
		}
	}
	k.layoutShared(n.shared)
	k.Registers, k.Barriers, k.Heap = min(n.registers, 255), n.barriers, n.heap
	if n.bad != nil {
		k.Unsupported = p.unsupported(k.Name, n.bad)
	}
	return k
}

// source returns a line of the original source, such as "shift.cu:20", or "" if it is not known.
func (p *Program) source(at ptx.Loc) string {
	name, ok := p.module.Files[at.File]
	if !ok || at.Line == 0 {
		return ""
	}
	return printable.Path(callsite.Line(name, at.Line)) // quoted last: a quoted name has new backslashes
}

func alignUp(n, a int) int { return (n + a - 1) / a * a }
