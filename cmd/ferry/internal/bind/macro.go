package bind

import (
	"slices"
	"strings"
)

// macro is a definition of the preprocessor.
type macro struct {
	params   []string
	function bool // NAME(...): its arguments follow it
	body     []token
}

// expander replaces the macros that make kernels: those whose text has __global__. Other
// macros stay as they are written, because the compiler resolves types.
type expander struct {
	macros map[string]*macro
	active map[string]bool // macros whose text is being replaced, which stay as they are
	out    []token
	room   int // tokens that may still be added
}

// expandKernels returns tokens with the macros replaced that contain __global__.
func expandKernels(tokens []token) []token {
	e := &expander{macros: map[string]*macro{}, active: map[string]bool{}, room: 4*len(tokens) + 10_000}
	for i := 0; i < len(tokens); i++ {
		if tokens[i].kind == directive {
			e.define(tokens[i].text)
		}
		i += e.expand(tokens, i)
	}
	return e.out
}

// define reads a directive, if it is #define or #undef.
func (e *expander) define(line string) {
	tokens, _ := tokenize(strings.ReplaceAll(line[1:], "\\\n", " "))
	if len(tokens) < 2 || tokens[1].kind != word {
		return
	}
	name := tokens[1].text
	switch tokens[0].text {
	case "undef":
		delete(e.macros, name)
	case "define":
		m := &macro{body: tokens[2:]}
		if _, after, _ := strings.Cut(line, name); strings.HasPrefix(after, "(") {
			end := matching(tokens, 2)
			m.function, m.body = true, tokens[min(end+1, len(tokens)):]
			for _, t := range tokens[2:min(end, len(tokens))] {
				if t.kind == word || t.is("...") {
					m.params = append(m.params, t.text)
				}
			}
		}
		delete(e.macros, name)
		if e.makesKernels(m) {
			e.macros[name] = m
		}
	}
}

// makesKernels reports whether the text of a macro has __global__, or a macro that has it.
func (e *expander) makesKernels(m *macro) bool {
	return slices.ContainsFunc(m.body, func(t token) bool { return t.is("__global__") || t.kind == word && e.macros[t.text] != nil })
}

// expand adds the token at i, or the text of the macro that it names. It returns how many
// tokens it has used besides that at i.
func (e *expander) expand(tokens []token, i int) (used int) {
	t := tokens[i]
	m := e.macros[t.text]
	if t.kind != word || m == nil || e.active[t.text] {
		e.add(t)
		return 0
	}
	var args [][]token
	if m.function {
		if i+1 >= len(tokens) || !tokens[i+1].is("(") {
			e.add(t)
			return 0
		}
		end := matching(tokens, i+1)
		args, used = split(tokens[i+2:max(i+2, min(end, len(tokens)))], ","), min(end, len(tokens)-1)-i
	}
	body := m.substitute(args, t.line)
	if e.room -= len(body); e.room < 0 {
		return used
	}
	e.active[t.text] = true
	for j := 0; j < len(body); j++ {
		j += e.expand(body, j)
	}
	delete(e.active, t.text)
	return used
}

func (e *expander) add(t token) { e.out = append(e.out, t) }

// substitute returns the text of a macro with arguments for its parameters. All tokens are
// on the line where the macro is used.
func (m *macro) substitute(args [][]token, line int) []token {
	var out []token
	for i := 0; i < len(m.body); i++ {
		switch t := m.body[i]; {
		case t.is("##") && len(out) > 0 && i+1 < len(m.body):
			i++
			next := m.argument(m.body[i], args)
			if len(next) > 0 {
				out[len(out)-1].text += next[0].text
				out = append(out, next[1:]...)
			}
		default:
			out = append(out, m.argument(t, args)...)
		}
	}
	for i := range out {
		out[i].line = line
	}
	return out
}

// argument returns the argument for a parameter, and other tokens as they are.
func (m *macro) argument(t token, args [][]token) []token {
	if i := slices.Index(m.params, t.text); t.kind == word && i >= 0 {
		if i < len(args) {
			return slices.Clone(args[i])
		}
		return nil
	}
	return []token{t}
}

// matching returns the index of the bracket that closes the one at i, or len(tokens).
func matching(tokens []token, i int) int {
	depth := 0
	for ; i < len(tokens); i++ {
		if tokens[i].kind != punct {
			continue
		}
		switch tokens[i].text {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			if depth--; depth <= 0 {
				return i
			}
		}
	}
	return len(tokens)
}

// maxAngle is how many tokens the brackets of a template can have.
const maxAngle = 1000

// matchingAngle returns the index of the > that closes the < at i. It returns i if that is
// no bracket: it does not close before a token that ends a declaration.
func matchingAngle(tokens []token, i int) int {
	depth := 0
	for j := i; j < min(len(tokens), i+maxAngle); j++ {
		if tokens[j].kind != punct {
			continue
		}
		switch tokens[j].text {
		case "<":
			depth++
		case ">":
			if depth--; depth == 0 {
				return j
			}
		case "(", "[":
			if j = matching(tokens, j); j == len(tokens) {
				return i
			}
		case ")", "]", "{", "}", ";":
			return i
		}
	}
	return i
}

// split splits tokens at a separator that is outside of brackets. The < of a template is a
// bracket, unless it is behind "=", where it is an operator.
func split(tokens []token, separator string) [][]token {
	if len(tokens) == 0 {
		return nil
	}
	var out [][]token
	start, value := 0, false
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		switch {
		case t.is(separator):
			out = append(out, tokens[start:i])
			start, value = i+1, false
		case t.is("="):
			value = true
		case t.is("(") || t.is("[") || t.is("{"):
			i = matching(tokens, i)
		case t.is("<") && !value:
			i = matchingAngle(tokens, i)
		}
	}
	return append(out, tokens[min(start, len(tokens)):])
}
