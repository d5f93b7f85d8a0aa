package ptx

// reference is a use of a name that may be declared later.
type reference struct {
	name  string
	pos   Pos
	f     *Func // nil outside of functions
	scope *scope
	alias string // the second name for name, if this is an .alias

	// where to store the unique name of a label: in an operand, or in an entry of a
	// table
	instr int
	table string
	arg   int  // -1 for nowhere
	code  bool // the name must be a place to branch to
}

// resolveForward checks the names that were not declared when they were used.
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

// noteAddress records the width of a register that holds an address.
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
