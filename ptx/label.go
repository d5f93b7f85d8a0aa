package ptx

// label parses "name:", and the table or prototype that may follow it.
func (p *parser) label() {
	name, pos := p.name("a label")
	p.expect(':', "after a label")
	if p.tok.kind == tokDot {
		switch p.tok.text {
		case "branchtargets", "calltargets":
			p.targets(name, pos)
			return
		case "callprototype":
			p.prototype(name, pos)
			return
		}
	}
	unique := p.defineLabel(name, pos, true)
	p.f.Labels[unique] = p.instrs.len()
}

// defineLabel adds a label to the current scope and returns its unique name.
func (p *parser) defineLabel(name string, pos Pos, code bool) string {
	if old, ok := p.scope.labels[name]; ok {
		p.reportAt(pos, "label %s is already defined at %s", name, old.pos)
		return name
	}
	unique := name
	for p.f.hasLabel(unique) {
		p.renamed++
		unique = name + "$" + itoa(p.renamed)
	}
	put(&p.scope.labels, name, label{name: unique, pos: pos, code: code})
	return unique
}

func (f *Func) hasLabel(name string) bool {
	if _, ok := f.Labels[name]; ok {
		return true
	}
	if _, ok := f.Tables[name]; ok {
		return true
	}
	return f.Protos[name] != nil
}

// targets parses .branchtargets or .calltargets with a list of names.
func (p *parser) targets(name string, pos Pos) {
	branch := p.tok.text == "branchtargets"
	unique := p.defineLabel(name, pos, false)
	jumps, forward := len(p.jumps), len(p.forward)
	p.next()
	var list []string
	for {
		target, at := p.name("a target")
		if p.countItem(); p.bad {
			p.jumps, p.forward = p.jumps[:jumps], p.forward[:forward] // they belong to the table that is dropped
			return
		}
		if r := (reference{name: target, pos: at, f: p.f, scope: p.scope, arg: len(list), code: branch}); branch {
			r.table = unique
			p.jumps = append(p.jumps, r)
		} else {
			p.forward = append(p.forward, r)
		}
		list = append(list, target)
		if !p.accept(',') {
			break
		}
	}
	put(&p.f.Tables, unique, list)
	p.semicolon("the targets")
}

// prototype parses .callprototype (results) _ (parameters).
func (p *parser) prototype(name string, pos Pos) {
	unique := p.defineLabel(name, pos, false)
	f := &Func{Name: unique, Pos: pos, Declared: true}
	put(&p.f.Protos, unique, f)
	p.next()
	if p.tok.kind == '(' {
		f.Returns = p.parameters(false)
	}
	p.name("_, which stands for the function's name")
	if p.tok.kind == '(' {
		f.Params = p.parameters(false)
	}
	p.functionDirectives(f)
	p.semicolon(".callprototype")
}

// resolveJumps resolves names that were not declared before their use: labels, or
// what the module declares later.
func (p *parser) resolveJumps() {
	for _, r := range p.jumps {
		l, ok := r.scope.label(r.name)
		switch {
		case ok && (l.code || !r.code):
			p.setTarget(r, l.name)
		case ok:
			p.reportAt(r.pos, "%s is not a place to branch to: it names a table or prototype", r.name)
		case r.code:
			p.noLabel(r)
		default:
			p.forward = append(p.forward, r)
		}
	}
}

func (p *parser) setTarget(r reference, name string) {
	switch {
	case r.arg < 0:
	case r.table != "":
		p.f.Tables[r.table][r.arg] = name
	default:
		sym, _ := p.f.Body[r.instr].Operands[r.arg].(Sym)
		sym.Name = name
		p.f.Body[r.instr].Operands[r.arg] = sym
	}
}

// label returns the label of that name in the scope or in a scope around it.
func (s *scope) label(name string) (label, bool) {
	for ; s != nil; s = s.up {
		if l, ok := s.labels[name]; ok {
			return l, true
		}
	}
	return label{}, false
}

func (p *parser) noLabel(r reference) {
	if p.missing[r.name] {
		return
	}
	put(&p.missing, r.name, true)
	if _, ok := p.f.Labels[r.name]; ok {
		p.reportAt(r.pos, "label %s is within braces that do not enclose this place", r.name)
		return
	}
	var candidates []string
	for s := r.scope; s != nil; s = s.up {
		for name := range s.labels {
			candidates = append(candidates, name)
		}
	}
	p.reportAt(r.pos, "label %s is not defined in %s%s", r.name, p.f.Name, hint(r.name, candidates))
}
