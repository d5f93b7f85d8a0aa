package ptx

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// hint returns " (did you mean x?)" if one of the candidates resembles the name,
// otherwise "".
func hint(name string, candidates []string) string {
	best, least := "", min(2, len(strings.TrimLeft(name, "%$."))/3)+1
	for _, c := range candidates {
		if d := difference(name, c, least+1); c != name && (d < least || d == least && c < best) {
			best, least = c, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

// dotHint returns the hint for a directive. The arguments do not have the dots.
func dotHint(name string, candidates []string) string {
	dotted := make([]string, len(candidates))
	for i, c := range candidates {
		dotted[i] = "." + c
	}
	return hint("."+name, dotted)
}

// difference returns 0 for names that differ only in case or in a leading % or $,
// otherwise the edit distance.
func difference(a, b string, limit int) int {
	if strings.EqualFold(a, b) || strings.TrimLeft(a, "%$") == strings.TrimLeft(b, "%$") {
		return 0
	}
	return editDistance(a, b, limit)
}

// editDistance counts the insertions, deletions, replacements and swaps of neighbours
// that lead from a to b. It stops at limit.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit || len(a) > 200 {
		return limit
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return min(last[len(b)], limit)
}

// undeclared reports that a name of an instruction is not declared, once per function
// and name.
func (p *parser) undeclared(s *scope, name string, pos Pos) {
	if p.lostDeclaration || p.missing[name] {
		return
	}
	put(&p.missing, name, true)
	base, part, _ := strings.Cut(name, ".")
	if isSpecial(base, "") {
		p.reportAt(pos, "special register %s has no part .%s", base, part)
		return
	}
	var candidates []string
	for ; s != nil; s = s.up {
		if prefix, v := s.names.rangeOf(base); v != nil {
			p.reportAt(pos, "register %s is not declared: %s<%d> at %s ends at %s%d", base, prefix, v.Count, v.Pos, prefix, v.Count-1)
			return
		}
		candidates = s.names.appendCandidates(candidates, base)
	}
	what := "symbol"
	if base[0] == '%' {
		what = "register"
		candidates = slices.AppendSeq(candidates, maps.Keys(specials))
	} else {
		candidates = p.m.appendNames(candidates)
	}
	p.reportAt(pos, "%s %s is not declared%s", what, base, hint(base, candidates))
}

// appendCandidates appends the names that an unknown name may have meant.
func (n *names) appendCandidates(list []string, unknown string) []string {
	for name := range n.single {
		list = append(list, name)
	}
	digits := unknown[digitsStart(unknown):]
	if digits == "" {
		return list
	}
	for prefix, v := range n.ranges {
		if k := rangeNumber(digits); k >= 0 && k < v.Count {
			list = append(list, prefix+digits)
		}
	}
	return list
}

// appendNames appends the names that the module declares.
func (m *Module) appendNames(list []string) []string {
	for name := range m.vars {
		list = append(list, name)
	}
	for name := range m.funcs {
		list = append(list, name)
	}
	return list
}

// has reports whether the module declares the name.
func (m *Module) has(name string) bool { return m.vars[name] != nil || m.funcs[name] != nil }
