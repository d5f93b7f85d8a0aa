package ptx

import "slices"

// function parses an entry or a function: header, directives, and the body if there
// is one.
func (p *parser) function(link Linkage) {
	lost := p.lostName
	p.lostName = true // until the header is parsed
	f := &Func{Entry: p.tok.text == "entry", Linkage: link, module: p.m, Labels: make(map[string]int)}
	p.at = Loc{}
	p.f, p.scope, p.levels, p.renamed, p.missing, p.lostDeclaration, p.jumps = f, &scope{}, 0, 0, nil, false, nil
	p.next()
	p.functionDirectives(f)
	if p.tok.kind == '(' {
		if f.Entry {
			p.fail("an entry returns nothing: expected its name, found '('")
		}
		f.Returns = p.parameters(true)
	}
	f.Name, f.Pos = p.name("the name of a function")
	if p.tok.kind == '(' {
		f.hasParams = true
		f.Params = p.parameters(true)
	}
	p.functionDirectives(f)
	f.Declared = p.tok.kind != '{'
	if f.Declared && !p.endsDeclaration() {
		p.fail("expected the body of %s or ';', found %s", f.Name, p.tok)
	}
	if p.bad {
		p.f = nil
		return
	}
	p.lostName = lost
	p.addFunc(f)
	if p.f.Declared {
		p.accept(';')
	} else {
		p.declareModuleRegisters()
		p.next()
		p.body()
		f.Body = p.instrs.take()
		p.resolveJumps()
	}
	p.checkEntry(f)
	p.f, p.scope = nil, nil
}

// endsDeclaration reports whether a function without a body ends here: at its
// semicolon or, as compilers before PTX 2.0 omitted that, at the next directive.
func (p *parser) endsDeclaration() bool {
	return p.tok.kind == ';' || p.tok.kind == tokDot && slices.Contains(moduleDirectives, p.tok.text)
}

// addFunc records a function by its name.
func (p *parser) addFunc(f *Func) {
	old := p.m.funcs[f.Name]
	switch {
	case p.m.vars[f.Name] != nil:
		p.reportAt(f.Pos, "%s is already declared as a variable at %s", f.Name, p.m.vars[f.Name].Pos)
	case old != nil && !old.Declared && !f.Declared:
		p.reportAt(f.Pos, "%s is already defined at %s", f.Name, old.Pos)
	case old != nil && !sameSignature(old, f):
		p.reportAt(f.Pos, "%s has other parameters or results than where it was declared, at %s", f.Name, old.Pos)
	}
	p.m.Funcs = append(p.m.Funcs, f)
	if old == nil || old.Declared {
		p.m.funcs[f.Name] = f
	}
}

func sameSignature(a, b *Func) bool {
	return a.Entry == b.Entry && sameSizes(a.Params, b.Params) && sameSizes(a.Returns, b.Returns)
}

func sameSizes(a, b []*Var) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Size() != b[i].Size() {
			return false
		}
	}
	return true
}

// maxParamBytes is the most bytes that the parameters of a kernel may take, in any
// PTX version.
const maxParamBytes = 32764

func (p *parser) checkEntry(f *Func) {
	if !f.Entry {
		return
	}
	sized := true
	for _, v := range f.Params {
		switch {
		case v.Space != ParamSpace:
			p.reportAt(v.Pos, "%s: a parameter of an entry is declared .param, not .%s", v.Name, v.Space)
		case len(v.Dims) > 0 && v.Dims[0] < 0:
			p.reportAt(v.Pos, "%s: a parameter of an entry needs an extent", v.Name)
		}
		sized = sized && v.Size() <= maxParamBytes
	}
	if _, total := f.ParamLayout(); !sized || total > maxParamBytes {
		p.reportAt(f.Pos, "the parameters of %s take more than %d bytes", f.Name, maxParamBytes)
	}
}

// parameters parses a list in parentheses. If named is set, the parameters become
// names of the function.
func (p *parser) parameters(named bool) []*Var {
	p.expect('(', "before the parameters")
	var list []*Var
	for p.tok.kind != ')' && !p.bad {
		v := p.parameter(named)
		if p.bad {
			return nil
		}
		if named {
			p.declareParam(v)
		}
		list = append(list, v)
		if !p.accept(',') {
			break
		}
	}
	p.expect(')', "after the parameters")
	return list
}

// parameter parses one parameter. In a prototype it may be without a name.
func (p *parser) parameter(named bool) *Var {
	space, ok := spaceOf(p.tok.text)
	if p.tok.kind != tokDot || !ok || space != ParamSpace && space != RegSpace {
		p.fail("expected .param or .reg, found %s", p.tok)
		return nil
	}
	spec := p.declarationStart(space)
	if !named && p.tok.kind != tokName {
		spec.Name, spec.Pos = "_", p.tok.pos
		return &spec
	}
	v := p.declarator(spec)
	if v.Count != 0 {
		p.failAt(token{pos: v.Pos}, "%s<%d>: a parameter is one variable", v.Name, v.Count)
	}
	return v
}

func (p *parser) declareParam(v *Var) {
	if v.Name != "_" {
		p.declare(v, true)
	}
}

// functionDirectives parses the directives around the name and parameters of a
// function.
func (p *parser) functionDirectives(f *Func) {
	for p.tok.kind == tokDot && !slices.Contains(moduleDirectives, p.tok.text) {
		p.functionDirective(f)
	}
}

func (p *parser) functionDirective(f *Func) {
	t := p.tok
	p.next()
	switch t.text {
	case "maxntid":
		f.MaxNTID = p.dimensions(1)
	case "reqntid":
		f.ReqNTID = p.dimensions(1)
	case "reqnctapercluster":
		f.Cluster, f.ClusterPos = p.dimensions(1), t.pos
	case "minnctapersm", "maxnctapersm":
		f.MinBlocks = int(p.plainNumber("."+t.text, 1, maxRange))
	case "maxnreg":
		f.MaxRegs = int(p.plainNumber(".maxnreg", 1, maxRange))
	case "maxclusterrank":
		f.MaxClusterRank = int(p.plainNumber(".maxclusterrank", 1, maxRange))
	case "abi_preserve", "abi_preserve_control":
		p.plainNumber("."+t.text, 0, maxRange)
	case "noreturn":
		f.NoReturn = true
	case "explicitcluster", "blocksareclusters":
	case "attribute":
		p.attribute(nil)
	case "pragma":
		p.pragmaStrings()
		p.semicolon(".pragma")
	default:
		p.failAt(t, "unknown directive .%s of a function%s", t.text, dotHint(t.text, functionDirectives))
	}
}

var functionDirectives = []string{
	"maxntid", "reqntid", "reqnctapercluster", "minnctapersm", "maxnctapersm", "maxnreg", "maxclusterrank",
	"noreturn", "explicitcluster", "blocksareclusters", "attribute", "abi_preserve", "abi_preserve_control",
}

// dimensions parses one to three positive numbers. Missing ones become fill.
func (p *parser) dimensions(fill int) (d [3]int) {
	d = [3]int{fill, fill, fill}
	for i := range d {
		d[i] = int(p.plainNumber("a dimension", 1, maxRange))
		if !p.accept(',') {
			break
		}
	}
	return d
}

// body parses statements up to the brace that closes the function.
func (p *parser) body() {
	open := p.lastEnd
	p.levels = 1
	for p.levels > 0 {
		switch {
		case p.bad:
			p.sync()
		case p.tok.kind == '{':
			p.pushScope()
			p.next()
		case p.tok.kind == '}':
			p.next()
			p.popScope()
		case p.tok.kind == ';':
			p.next()
		case p.tok.kind == tokDot:
			p.bodyDirective()
		case p.tok.kind == tokName && p.lex.at(p.lex.blanks(p.lex.off), ':'):
			p.label()
		case p.tok.kind == tokEOF:
			p.reportAt(Pos{open.Line, open.Col - 1}, "the body of %s has no '}'", p.f.Name)
			return
		default:
			p.instruction()
		}
	}
}

func (p *parser) bodyDirective() {
	t := p.tok
	if space, ok := spaceOf(t.text); ok {
		p.localVariables(space)
		return
	}
	switch t.text {
	case "loc", "file", "section", "pragma":
		p.header(t)
	case "branchtargets", "calltargets", "callprototype":
		p.fail(".%s needs a label before it", t.text)
	default:
		p.fail("unknown directive .%s within a function%s", t.text, dotHint(t.text, bodyDirectives))
	}
}

var bodyDirectives = []string{
	"reg", "param", "local", "shared", "global", "const", "loc", "pragma", "branchtargets", "calltargets", "callprototype",
}
