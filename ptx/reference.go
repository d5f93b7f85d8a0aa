package ptx

// reference is a use of a name that may be declared later.
type reference struct {
	name  string
	pos   Pos
	f     *Func // nil outside of functions
	scope *scope
	alias string // what the name gets as a second name

	// Where to put the unique name of a label: an operand, or a member of a table.
	instr int
	table string
	arg   int  // -1: nowhere
	code  bool // only a place to branch to will do
}

// resolveForward checks the names that had not been declared when they were used.
func (p *parser) resolveForward() {
	for _, r := range p.forward {
		target, hidden := p.m.funcs[r.name], false
		if r.f != nil {
			v, _ := r.f.names.find(r.name) // declared in another scope than that of the use
			hidden = v != nil
		}
		switch {
		case r.alias != "" && target != nil:
			p.m.funcs[r.alias] = target
		case r.alias != "" || hidden || target == nil && p.m.vars[r.name] == nil:
			p.lostDeclaration = p.lostName
			p.undeclared(r.scope, r.name, r.pos)
		}
	}
}

// noteAddress remembers the width of a register that holds an address.
func (p *parser) noteAddress(t Type) {
	if !p.sized {
		p.addresses[min(t.Size()/8, 1)] = true
	}
}

func (p *parser) guessAddressSize() {
	if p.sized {
		return
	}
	p.m.AddressSize = 64
	if p.addresses[0] && !p.addresses[1] {
		p.m.AddressSize = 32
	}
}
