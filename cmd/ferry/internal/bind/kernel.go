package bind

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/ptx"
)

// kernel is a kernel that gets a method.
type kernel struct {
	entry  string // name in the PTX
	c      string // qualified name in C, with template arguments
	name   string // of the method
	field  string // of the field with the *ferry.Kernel
	doc    []string
	text   string // the signature in C
	params []*param
}

// param is a parameter of a kernel.
type param struct {
	name   string // in C, or "p0"
	local  string // in Go
	ctype  *ctype
	typ    string // in Go
	size   int
	reads  bool // a pointer to const
	memory bool // the Go type is a ferry.Memory
	note   string
}

// readKernels combines what the PTX, the text and the compiler tell about the kernels of a
// module. p is nil if there is no compiler.
func readKernels(ctx context.Context, m *ptx.Module, src *source, p *prober) ([]*kernel, error) {
	entries := m.Entries()
	symbols := make([]symbol, len(entries))
	texts := make([][]*srcKernel, len(entries))
	for i, f := range entries {
		symbols[i] = readSymbol(f.Name)
		texts[i] = src.find(symbols[i].path, symbols[i].mangled)
	}
	if p != nil {
		if err := askSignatures(ctx, p, symbols, texts); err != nil {
			return nil, err
		}
	}
	var out []*kernel
	for _, i := range sourceOrder(entries, texts, src) {
		out = append(out, newKernel(entries[i], &symbols[i], texts[i]))
	}
	return out, nil
}

// sourceOrder returns the indices of entries in the order of the text, because compilers
// order them differently. Instances of a template are ordered by their names. Kernels that
// are not in the text come last, in the order of the PTX.
func sourceOrder(entries []*ptx.Func, texts [][]*srcKernel, src *source) []int {
	order, place := make([]int, len(entries)), make([]int, len(entries))
	for i := range order {
		order[i], place[i] = i, len(src.kernels)
		if len(texts[i]) > 0 {
			place[i] = slices.Index(src.kernels, texts[i][0])
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if place[a] == place[b] && place[a] < len(src.kernels) {
			return cmp.Compare(entries[a].Name, entries[b].Name)
		}
		return cmp.Compare(place[a], place[b])
	})
	return order
}

// find returns the kernels with a name in the text. The namespace of a name that is not
// mangled is not known.
func (s *source) find(path string, qualified bool) []*srcKernel {
	var out []*srcKernel
	for _, k := range s.kernels {
		if qualified && k.name() == path || !qualified && k.path[len(k.path)-1] == path {
			out = append(out, k)
		}
	}
	return out
}

// askSignatures asks the compiler for the parameters of kernels whose names do not tell
// them: those with C names, and instances of templates, whose types may depend on others.
func askSignatures(ctx context.Context, p *prober, symbols []symbol, texts [][]*srcKernel) error {
	var questions []string
	var of []int
	for i, s := range symbols {
		if s.typed && s.args == "" {
			continue
		}
		name := "::" + s.path + s.args
		if !s.mangled && len(texts[i]) > 0 {
			name = "::" + texts[i][0].name()
		}
		questions, of = append(questions, signatureQuestion(name)), append(of, i)
	}
	answers, err := p.ask(ctx, questions)
	if err != nil {
		return err
	}
	for j, tags := range answers {
		if params, ok := signatureAnswer(tags); ok {
			symbols[of[j]].params, symbols[of[j]].typed = params, true
		}
	}
	return nil
}

// newKernel makes a kernel from its entry.
func newKernel(f *ptx.Func, s *symbol, texts []*srcKernel) *kernel {
	layout, _ := f.ParamLayout()
	k := &kernel{entry: f.Name, c: s.path + s.args}
	text := pickText(texts, layout, s)
	if text == nil {
		text = &srcKernel{}
	}
	k.doc = text.doc
	types := s.params
	if !s.typed && text.path != nil {
		types = spelledTypes(text.params)
	}
	known := len(types) == len(layout) && (s.typed || text.path != nil)
	for i, l := range layout {
		p := &param{name: ptxName(f.Name, &l, i), size: l.Size}
		if known {
			p.ctype = types[i]
		}
		if p.ctype == nil || !fits(p.ctype, &l) {
			p.ctype = ptxType(&l)
		}
		if i < len(text.params) && text.params[i].name != "" {
			p.name = text.params[i].name
		}
		k.params = append(k.params, p)
	}
	if k.text = text.text; k.text == "" {
		k.text = k.declaration()
	}
	return k
}

// ptxName returns the name of parameter i for a kernel without a text: that in the PTX,
// unless a compiler made it from the name of the kernel.
func ptxName(kernel string, p *ptx.Param, i int) string {
	if p.Name == "" || strings.HasPrefix(p.Name, kernel+"_param_") {
		return fmt.Sprintf("p%d", i)
	}
	return p.Name
}

// pickText returns the kernel in the text that has as many parameters. Of several, such as
// overloads, it prefers one whose types are written as the compiler names them, then one
// with names, then one with a comment.
func pickText(texts []*srcKernel, layout []ptx.Param, s *symbol) *srcKernel {
	var best *srcKernel
	most := 0
	for _, t := range texts {
		if len(t.params) != len(layout) {
			continue
		}
		if score := t.score(s); best == nil || score > most {
			best, most = t, score
		}
	}
	return best
}

// score says how well a kernel in the text is the one that the compiler has named.
func (k *srcKernel) score(s *symbol) (n int) {
	for i, t := range spelledTypes(k.params) {
		if s.typed && t != nil && i < len(s.params) && !t.hasName() && t.String() != s.params[i].String() {
			n -= 1000
		}
		if k.params[i].name != "" {
			n += 10
		}
	}
	if len(k.doc) > 0 {
		n++
	}
	return n
}

// fits reports whether a type can be that of a parameter in PTX.
func fits(t *ctype, p *ptx.Param) bool {
	if t.size != 0 && t.size != p.Size && t.kind != reference {
		return false
	}
	isFloat := t.kind == float
	return p.Size != p.Type.Size() || !(isFloat && (p.Type.IsSigned() || p.Type >= ptx.U8 && p.Type <= ptx.U64) || !isFloat && (p.Type == ptx.F32 || p.Type == ptx.F64) && t.kind != named)
}

// ptxType returns what PTX tells about the type of a parameter.
func ptxType(p *ptx.Param) *ctype {
	name := "." + p.Type.String()
	t := &ctype{kind: unknown, size: p.Size, name: name}
	switch {
	case p.Size != p.Type.Size():
		t.name = fmt.Sprintf("%s[%d]", name, p.Size)
	case p.Type == ptx.F32 || p.Type == ptx.F64:
		t.kind = float
	case p.Size == 8: // an integer or an address
	case p.Type.IsSigned():
		t.kind = signed
	case p.Size <= 4:
		t.kind = unsigned
	}
	return t
}

// declaration returns the signature in C, from the types.
func (k *kernel) declaration() string {
	var params []string
	for _, p := range k.params {
		params = append(params, p.ctype.declare(p.name))
	}
	return "void " + k.c + "(" + strings.Join(params, ", ") + ")"
}

// resolveTypes finds the Go types of the parameters.
func (k *kernel) resolveTypes(g *goTypes) {
	for _, p := range k.params {
		t := p.ctype
		if t.kind == pointer {
			p.pointer(g)
			continue
		}
		goType := g.of(t, false)
		switch {
		case t.kind == reference:
			p.note = "a reference: the address of memory that a launch does not track"
		case t.kind == unknown && p.size == 8:
			goType = gotype{text: "cu.DevicePtr", size: 8}
			p.note = fmt.Sprintf("the type %s is not known here: an address, or an integer", t)
		case t.kind == unknown:
			p.note, goType = fmt.Sprintf("the type %s is not known here", t), bytesType(p.size)
		case goType.text == "":
			p.note, goType = goType.why, bytesType(p.size)
		case goType.size != p.size:
			p.note, goType = "its size in the PTX differs", bytesType(p.size)
		case strings.HasPrefix(t.name, "."):
			p.note = "the PTX says only " + t.name
		}
		p.typ = goType.text
	}
}

// pointer finds the Go type of a pointer.
func (p *param) pointer(g *goTypes) {
	e := g.of(p.ctype.elem, true)
	if p.ctype.elem.kind == void {
		e = unknownType("void * points to any type")
	}
	if e.text == "" || e.size == 0 {
		p.typ, p.note = "cu.DevicePtr", e.why+": a launch does not track the memory"
		return
	}
	p.typ, p.memory, p.reads = "ferry.Memory["+e.text+"]", true, p.ctype.elem.isConst()
}

// nameKernels gives each kernel a method name of its own.
func nameKernels(kernels []*kernel) error {
	short := func(k *kernel) string { return goName(k.c[1+lastScope(k.c):]) }
	count := map[string]int{}
	for _, k := range kernels {
		count[short(k)]++
	}
	owner, fields := map[string]*kernel{}, map[string]bool{}
	for _, k := range kernels {
		if k.name = short(k); count[k.name] > 1 {
			k.name = goName(k.c)
		}
		if slices.Contains([]string{"Close", "Module"}, k.name) {
			k.name += "Kernel"
		}
		if other := owner[k.name]; other != nil {
			return fmt.Errorf("kernels %s and %s would both become the method %s: rename one of them", other.declaration(), k.declaration(), k.name)
		}
		owner[k.name] = k
		k.field = lowerFirst(k.name)
		if isReservedField(k.field) {
			k.field += "Kernel"
		}
		k.field = unique(fields, k.field)
		k.nameParams()
	}
	return nil
}

// nameParams gives each parameter a Go name of its own.
func (k *kernel) nameParams() {
	taken := map[string]bool{}
	for _, p := range k.params {
		p.local = unique(taken, localName(p.name))
	}
}
