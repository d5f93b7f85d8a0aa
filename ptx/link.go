package ptx

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Input is one module of [Link].
type Input struct {
	Name   string // for messages
	Module *Module
}

// LinkError is one name that cannot be linked.
type LinkError struct {
	Symbol    string
	Input     string // the name of the input with the problem
	Msg       string // the problem, with both names
	Undefined bool   // a further input may define the name
}

func (e *LinkError) Error() string { return e.Msg }

// LinkErrors is a list of problems of one link.
type LinkErrors []*LinkError

// Error joins the errors with newlines.
func (l LinkErrors) Error() string {
	all := make([]string, len(l))
	for i, e := range l {
		all[i] = e.Msg
	}
	return strings.Join(all, "\n")
}

// Unwrap lets [errors.As] find the first [*LinkError].
func (l LinkErrors) Unwrap() []error {
	all := make([]error, len(l))
	for i, e := range l {
		all[i] = e
	}
	return all
}

// Link makes one module of several, as the linker of device code does. A name that one
// module declares .extern stands for the .visible, .weak or .common definition of another.
// Of several .weak definitions the first stays, unless one is .visible. Names without a
// linkage directive belong to their module; Link renames them to name + "$" + number where
// another module has the same name. The inputs stay as they are and share memory with the
// result.
//
// Names in provided are defined outside of the modules. The error is a [LinkErrors], of up
// to ten names that are used and defined nowhere, or defined twice. The module is then nil.
func Link(inputs []Input, provided ...string) (*Module, error) {
	l := &linker{provided: provided, globals: map[string]*global{}, taken: map[string]bool{}}
	for _, name := range provided {
		l.taken[name] = true
	}
	for i := range inputs {
		l.collect(&inputs[i])
	}
	l.out = &Module{AddressSize: 64, vars: map[string]*Var{}, funcs: map[string]*Func{}}
	for i := range inputs {
		l.add(&inputs[i], i == 0)
	}
	for _, a := range l.aliases {
		l.addAlias(a[0], a[1])
	}
	for i := range inputs {
		l.check(&inputs[i])
	}
	if len(l.errs) > 0 {
		return nil, l.errs
	}
	return l.out, nil
}

// linker is the state of one link.
type linker struct {
	provided []string
	globals  map[string]*global // what the modules share, by name
	taken    map[string]bool    // names in use in the result
	aliases  [][2]string        // names in the result, and the functions that they stand for
	out      *Module
	errs     LinkErrors
}

// global is the definition of a name that modules share: a function or a variable.
type global struct {
	input   *Input
	linkage Linkage
	f       *Func
	v       *Var
}

func (l *linker) report(symbol string, in *Input, format string, args ...any) {
	if len(l.errs) < maxErrors {
		l.errs = append(l.errs, &LinkError{Symbol: symbol, Input: in.Name, Msg: fmt.Sprintf(format, args...)})
	}
}

func (l *linker) reportUndefined(symbol string, in *Input) {
	if len(l.errs) < maxErrors {
		l.errs = append(l.errs, &LinkError{Symbol: symbol, Input: in.Name, Undefined: true, Msg: fmt.Sprintf("undefined reference to %s in %s", symbol, in.Name)})
	}
}

// collect finds the definitions of a module that other modules can use.
func (l *linker) collect(in *Input) {
	m := in.Module
	for _, f := range m.Funcs {
		switch _, alias := m.Aliases[f.Name]; {
		case f.Linkage == Local && !f.Entry:
		case !f.Declared:
			l.define(f.Name, &global{in, f.Linkage, f, nil})
		case alias && !l.definedBy(in, f.Name): // it can be declared twice
			l.define(f.Name, &global{in, f.Linkage, m.funcs[f.Name], nil})
		}
	}
	for _, v := range m.Vars {
		if v.Linkage != Local && v.Linkage != Extern {
			l.define(v.Name, &global{in, v.Linkage, nil, v})
		}
	}
}

// definedBy reports whether a module has the definition of a name that modules share.
func (l *linker) definedBy(in *Input, name string) bool {
	g := l.globals[name]
	return g != nil && g.input == in
}

// define records a definition, or decides between two of one name.
func (l *linker) define(name string, g *global) {
	l.taken[name] = true
	old := l.globals[name]
	switch {
	case old == nil || old.soft() && !g.soft():
		l.globals[name] = g
	case old.soft() && g.soft():
		if g.linkage == Common && old.linkage == Common && g.v.Size() > old.v.Size() {
			l.globals[name] = g
		}
	case g.soft():
	default:
		l.report(name, g.input, "multiple definition of %s in %s, first defined in %s", name, g.input.Name, old.input.Name)
	}
}

// soft reports whether another definition may replace this one.
func (g *global) soft() bool { return g.linkage == Weak || g.linkage == Common }

// add adds the definitions of a module that remain, with their names in the result.
func (l *linker) add(in *Input, first bool) {
	m := in.Module
	if first {
		l.out.Target, l.out.AddressSize, l.out.File = m.Target, m.AddressSize, m.File
	}
	if m.AddressSize != l.out.AddressSize {
		l.report("", in, "%s has %d-bit addresses, other inputs have %d-bit addresses", in.Name, m.AddressSize, l.out.AddressSize)
	}
	if v := l.out.Version; v.Major < m.Version.Major || v.Major == m.Version.Major && v.Minor < m.Version.Minor {
		l.out.Version = m.Version
	}
	r := &renamer{names: l.localNames(m), files: l.addFiles(m)}
	for _, v := range m.Vars {
		l.addVar(in, v, r)
	}
	for _, f := range m.Funcs {
		l.addFunc(in, f, r)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Aliases)) {
		if fresh := r.name(name); l.globals[fresh] == nil || l.definedBy(in, fresh) {
			l.aliases = append(l.aliases, [2]string{fresh, r.name(m.Aliases[name])})
		}
	}
}

// localNames returns the new names of names that belong to a module and are taken.
func (l *linker) localNames(m *Module) map[string]string {
	renamed := map[string]string{}
	claim := func(name string) {
		fresh := name
		for n := 1; l.taken[fresh] || fresh != name && m.has(fresh); n++ {
			fresh = name + "$" + itoa(n)
		}
		l.taken[fresh] = true
		if fresh != name {
			renamed[name] = fresh
		}
	}
	done := map[string]bool{}
	for _, f := range m.Funcs {
		if def := m.funcs[f.Name]; !done[f.Name] && f.Linkage == Local && !f.Entry && def != nil && !def.Declared && def.Linkage == Local {
			done[f.Name] = true
			claim(f.Name)
		}
	}
	for _, v := range m.Vars {
		if !done[v.Name] && v.Linkage == Local && m.vars[v.Name].Linkage == Local {
			done[v.Name] = true
			claim(v.Name)
		}
	}
	return renamed
}

// addFiles adds the names of source files and returns their numbers in the result.
func (l *linker) addFiles(m *Module) map[int]int {
	numbers := map[int]int{}
	for _, number := range slices.Sorted(maps.Keys(m.Files)) {
		numbers[number] = len(l.out.Files) + 1
		put(&l.out.Files, numbers[number], m.Files[number])
	}
	return numbers
}

// addVar adds a variable, unless another definition or declaration stands for it.
func (l *linker) addVar(in *Input, v *Var, r *renamer) {
	name := r.name(v.Name)
	if g := l.globals[name]; v.Linkage != Local && g != nil && g.v != v {
		switch {
		case g.v == nil:
			l.report(name, in, "%s is a variable in %s and a function in %s", name, in.Name, g.input.Name)
		case v.Linkage == Common && g.v.Linkage == Common: // the largest stays
		case v.Size() != 0 && g.v.Size() != 0 && v.Size() != g.v.Size():
			l.report(name, in, "variable %s has %d bytes in %s and %d bytes in %s", name, v.Size(), in.Name, g.v.Size(), g.input.Name)
		}
		return
	}
	if old := l.out.vars[name]; v.Linkage == Extern && (v.Space != SharedSpace || old != nil) {
		if old != nil && old.Space == v.Space {
			old.Align = max(old.Align, v.Align)
		}
		return // check reports it if it is used
	}
	c := *v
	c.Name = name
	c.Relocs = slices.Clone(v.Relocs)
	for i := range c.Relocs {
		c.Relocs[i].Symbol = r.name(c.Relocs[i].Symbol)
	}
	l.out.Vars = append(l.out.Vars, &c)
	l.out.vars[name] = &c
}

// addFunc adds a function, unless another definition or declaration stands for it.
func (l *linker) addFunc(in *Input, f *Func, r *renamer) {
	name := r.name(f.Name)
	old := l.out.funcs[name]
	g := l.globals[name]
	if name == f.Name && g != nil && g.f != f {
		switch {
		case g.f == nil:
			l.report(name, in, "%s is a function in %s and a variable in %s", name, in.Name, g.input.Name)
		case !sameSignature(f, g.f):
			l.report(name, in, "function %s has other parameters or results in %s than in %s", name, in.Name, g.input.Name)
		}
		return
	}
	if f.Declared && old != nil {
		return
	}
	c := r.function(f)
	c.Name = name
	l.out.Funcs = append(l.out.Funcs, c)
	l.out.funcs[name] = c
}

// addAlias adds a second name of a function, when all functions are there.
func (l *linker) addAlias(name, target string) {
	if f := l.out.funcs[target]; f != nil {
		put(&l.out.Aliases, name, target)
		l.out.funcs[name] = f
	}
}

// check reports names that a module uses and no module defines.
func (l *linker) check(in *Input) {
	reported := map[string]bool{}
	use := func(name string) string {
		if !reported[name] && l.undefined(in.Module, name) {
			reported[name] = true
			l.reportUndefined(name, in)
		}
		return name
	}
	for _, f := range in.Module.Funcs {
		r := &renamer{use: use}
		r.function(f)
	}
	for _, v := range in.Module.Vars {
		for _, rel := range v.Relocs {
			use(rel.Symbol)
		}
	}
}

// undefined reports whether a name that a module uses has no definition.
func (l *linker) undefined(m *Module, name string) bool {
	if l.globals[name] != nil || slices.Contains(l.provided, name) {
		return false
	}
	if f := m.funcs[name]; f != nil {
		return f.Declared
	}
	v := m.vars[name]
	return v != nil && v.Linkage == Extern && v.Space != SharedSpace
}

// renamer copies functions of one module with other names of the module's symbols.
type renamer struct {
	names map[string]string        // old to new; others stay
	files map[int]int              // the numbers of source files
	use   func(name string) string // if set, it is called for each symbol of the module instead

	f *Func // the function that is copied
}

// name returns the new name of a symbol of the module.
func (r *renamer) name(name string) string {
	if r.use != nil {
		return r.use(name)
	}
	if fresh, ok := r.names[name]; ok {
		return fresh
	}
	return name
}

// symbol returns the new name of a symbol in an operand, where a name of the function
// hides that of the module.
func (r *renamer) symbol(name string) string {
	if v, _ := r.f.names.find(name); v != nil {
		return name
	}
	_, label := r.f.Labels[name]
	_, table := r.f.Tables[name]
	_, prototype := r.f.Protos[name]
	if label || table || prototype {
		return name
	}
	return r.name(name)
}

// function returns a copy of f.
func (r *renamer) function(f *Func) *Func {
	c := *f
	r.f = f
	c.Body = slices.Clone(f.Body)
	for i := range c.Body {
		in := &c.Body[i]
		in.Operands = r.operands(in.Operands)
		in.Loc.File = r.files[in.Loc.File]
	}
	if len(f.Tables) > 0 {
		c.Tables = make(map[string][]string, len(f.Tables))
		for label, targets := range f.Tables {
			list := slices.Clone(targets)
			for i := range list {
				list[i] = r.symbol(list[i])
			}
			c.Tables[label] = list
		}
	}
	return &c
}

// operands returns a copy of a list, or the list itself if it has no names.
func (r *renamer) operands(list []Operand) []Operand {
	out := make([]Operand, len(list))
	for i, o := range list {
		out[i] = r.operand(o)
	}
	return out
}

func (r *renamer) operand(o Operand) Operand {
	switch o := o.(type) {
	case Sym:
		o.Name = r.symbol(o.Name)
		return o
	case Mem:
		if !o.IsReg && o.Base != "" {
			o.Base = r.symbol(o.Base)
		}
		o.Args = r.operands(o.Args)
		return o
	case Vec:
		return Vec{r.operands(o.Elems)}
	case List:
		return List{r.operands(o.Elems)}
	case Pair:
		return Pair{r.operand(o.First), r.operand(o.Second)}
	}
	return o
}
