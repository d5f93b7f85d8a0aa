package ptx

import "strings"

// scope is the content of a pair of braces, or the header and body of a function.
type scope struct {
	up     *scope
	names  names
	labels map[string]label
	cache  map[string]resolved // results of lookup, by the name as written
}

// label is a place in the body, or a table or prototype that a label names.
type label struct {
	name string // unique in the function
	pos  Pos
	code bool // a place that can be branched to
}

// resolved is what a name stands for.
type resolved struct {
	op Operand // Reg, or Sym of a variable
	v  *Var    // nil for a special register
}

func (p *parser) pushScope() {
	p.levels++
	if p.levels > maxDepth {
		p.fail("scopes nested more than %d deep", maxDepth)
	}
	p.scope = &scope{up: p.scope}
}

func (p *parser) popScope() {
	p.levels--
	p.scope = p.scope.up
}

// declare adds a variable of the function to the innermost scope and gives it a
// unique name.
func (p *parser) declare(v *Var, param bool) bool {
	if old := p.scope.names.conflict(v.Name, v.Count); old != nil {
		p.reportAt(v.Pos, "%s is already declared at %s", v.Name, old.Pos)
		return false
	}
	p.scope.names.add(v.Name, v.Count, v)
	clear(p.scope.cache)
	if !param {
		v.Name = p.uniqueName(v)
	}
	p.f.names.add(v.Name, v.Count, v)
	return true
}

// uniqueName returns the name of the variable, or a new name if that is taken.
func (p *parser) uniqueName(v *Var) string {
	name := v.Name
	for p.f.names.conflict(name, v.Count) != nil || p.f.names.taken(name) || p.m.has(name) {
		p.renamed++
		name = v.Name + "$" + itoa(p.renamed)
		if v.Count != 0 {
			name += "$"
		}
	}
	return name
}

// lookup resolves a name of an instruction in the current scope, except labels and
// names of the module. The name may have a component: %v.x, %tid.x.
func (p *parser) lookup(text string) (r resolved, ok bool) {
	if r, ok := p.scope.cache[text]; ok {
		return r, true
	}
	base, suffix, _ := strings.Cut(text, ".")
	for s := p.scope; s != nil && !ok; s = s.up {
		if v, index := s.names.find(base); v != nil {
			r, ok = resolved{op: p.variableOperand(v, base, index, suffix), v: v}, true
		}
	}
	if !ok && isSpecial(base, suffix) {
		r, ok = resolved{op: Reg{Name: text, Special: true}}, true
	}
	if ok {
		put(&p.scope.cache, text, r)
	}
	return r, ok
}

// variableOperand returns a variable of the function as an operand.
func (p *parser) variableOperand(v *Var, base string, index int, suffix string) Operand {
	if v.Space != RegSpace {
		if suffix != "" {
			p.report("%s is not a register: it has no part .%s", base, suffix)
		}
		return Sym{Name: v.Name}
	}
	r := Reg{Name: v.Name}
	if v.Count != 0 {
		r.Name = base
		if !strings.HasPrefix(base, v.Name) || v.Name != base[:len(base)-len(itoa(index))] {
			r.Name = v.Name + itoa(index)
		}
	}
	switch {
	case suffix == "":
	case v.Vec > 1 && componentIndex(suffix) >= 0 && componentIndex(suffix) < v.Vec:
		r.Comp = "xyzw"[componentIndex(suffix)]
	case v.Vec <= 1 && isSelector(suffix):
		r.Sel = suffix
	default:
		p.report("%s is declared %s: it has no part .%s", base, v.typeText(), suffix)
	}
	return r
}

// componentIndex returns 0 to 3 for x, y, z, w or r, g, b, a, and -1 for other texts.
func componentIndex(s string) int {
	if len(s) != 1 {
		return -1
	}
	return max(strings.IndexByte("xyzw", s[0]), strings.IndexByte("rgba", s[0]))
}

// isSelector reports whether s is a part of a register that a video instruction
// selects.
func isSelector(s string) bool {
	switch s {
	case "b0", "b1", "b2", "b3", "h0", "h1":
		return true
	}
	return isPermutation(s)
}

// isPermutation reports whether s is a selector of a SIMD video instruction: h and
// two digits, or b and four digits.
func isPermutation(s string) bool {
	if len(s) != 3 && len(s) != 5 || s[0] != 'h' && s[0] != 'b' || (s[0] == 'h') != (len(s) == 3) {
		return false
	}
	for _, c := range s[1:] {
		if c < '0' || c > '7' {
			return false
		}
	}
	return true
}
