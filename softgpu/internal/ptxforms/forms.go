package ptxforms

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/ferrygpu/ferry/ptx"
)

// pattern is one line of the table: an operation, and the modifiers that it may have.
type pattern struct {
	op    string
	types []field // in the order in which they are written
	flags []field // in any order
	hints bool    // cache hints are allowed anywhere
}

// field is one modifier: one of the words, or none if it is optional.
type field struct {
	words    []string
	optional bool
	rotate   bool // Forms lists every word at least once, not every combination
}

// extraTypes are the names of types that no register has.
var extraTypes = []string{
	"u16x2", "s16x2", "e4m3", "e5m2", "e4m3x2", "e5m2x2", "tf32", "u8x4", "s8x4", "u4", "s4", "b1",
}

func isType(word string) bool {
	_, ok := ptx.ParseType(word)
	return ok || slices.Contains(extraTypes, word)
}

// isHint reports whether a modifier is only a hint for the caches.
func isHint(word string) bool {
	switch word {
	case "ca", "cg", "cs", "lu", "cv", "wb", "wt":
		return true
	}
	return strings.HasPrefix(word, "L1::") || strings.HasPrefix(word, "L2::")
}

// parsePattern parses a line of the table: words separated by blanks, the operation
// first. A word a|b|c lists alternatives. It ends with ? if the modifier may be
// missing, and with ~ if it rotates. @name stands for a list of formWords, % for
// cache hints.
func parsePattern(line string) pattern {
	words := strings.Fields(line)
	p := pattern{op: words[0]}
	for _, w := range words[1:] {
		if w == "%" {
			p.hints = true
			continue
		}
		var f field
		w, f.rotate = strings.CutSuffix(w, "~")
		w, f.optional = strings.CutSuffix(w, "?")
		for part := range strings.SplitSeq(w, "|") {
			if list, ok := strings.CutPrefix(part, "@"); ok {
				f.words = append(f.words, strings.Split(formWords[list], "|")...)
			} else {
				f.words = append(f.words, part)
			}
		}
		if isType(f.words[0]) {
			p.types = append(p.types, f)
		} else {
			p.flags = append(p.flags, f)
		}
	}
	return p
}

// patterns returns the patterns of the table by operation.
var patterns = sync.OnceValue(func() map[string][]pattern {
	m := map[string][]pattern{}
	for line := range strings.Lines(formTable) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			p := parsePattern(line)
			m[p.op] = append(m[p.op], p)
		}
	}
	return m
})

// unmatched returns the modifiers that do not fit p. complete reports whether every
// modifier that p requires is there.
func (p *pattern) unmatched(mods []string) (left []string, complete bool) {
	complete = true
	var used uint64
	at := 0
	for _, m := range mods {
		switch {
		case p.hints && isHint(m):
		case isType(m):
			if at < len(p.types) && slices.Contains(p.types[at].words, m) {
				at++
			} else {
				left = append(left, m)
			}
		default:
			i := p.flag(m, used)
			if i < 0 {
				left = append(left, m)
				continue
			}
			used |= 1 << i
		}
	}
	for i, f := range p.flags {
		complete = complete && (f.optional || used>>i&1 != 0)
	}
	return left, complete && at == len(p.types)
}

// flag returns the index of an unused field that has the word, -1 if there is none.
func (p *pattern) flag(word string, used uint64) int {
	for i, f := range p.flags {
		if used>>i&1 == 0 && slices.Contains(f.words, word) {
			return i
		}
	}
	return -1
}

// Check returns nil if the form of the instruction is in the table. Otherwise the
// error gives the reason, and the modifiers that do not fit where they can be told.
func Check(in *ptx.Instr) error {
	list := patterns()[in.Op]
	if len(list) == 0 {
		return errors.New(reason(in.Op))
	}
	least, found := unknownWords(in.Mods, list), false
	for i := range list {
		left, complete := list[i].unmatched(in.Mods)
		if complete && len(left) == 0 {
			return nil
		}
		if complete && (!found || len(left) < len(least)) {
			least, found = left, true
		}
	}
	switch len(least) {
	case 0:
		return fmt.Errorf("this form of %s does not exist, or the software GPU does not have it", in.Op)
	case 1:
		return fmt.Errorf("modifier .%s is not supported here", least[0])
	}
	return fmt.Errorf("modifiers .%s are not supported here", strings.Join(least, " and ."))
}

// reason returns why an operation without patterns does not run.
func reason(op string) string {
	for _, r := range Refused {
		if slices.Contains(r.Ops, op) {
			return r.Reason
		}
	}
	return "the software GPU does not have this instruction"
}

// unknownWords returns the modifiers that no pattern of an operation has.
func unknownWords(mods []string, list []pattern) (out []string) {
	for _, m := range mods {
		if !isHint(m) && !slices.ContainsFunc(list, func(p pattern) bool { return p.has(m) }) {
			out = append(out, m)
		}
	}
	return out
}

func (p *pattern) has(word string) bool {
	for _, f := range slices.Concat(p.flags, p.types) {
		if slices.Contains(f.words, word) {
			return true
		}
	}
	return false
}

// Family is a section of the table.
type Family struct {
	Name  string
	Forms []string // opcodes with their modifiers in full, sorted
}

// Families returns all forms of the table, by section: every combination of
// modifiers, but of rotating fields only every word at least once.
func Families() []Family {
	var out []Family
	for line := range strings.Lines(formTable) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "# "); ok {
			out = append(out, Family{Name: name})
		} else if line != "" {
			p, f := parsePattern(line), &out[len(out)-1]
			f.Forms = p.expand(f.Forms)
		}
	}
	for i := range out {
		slices.Sort(out[i].Forms)
		out[i].Forms = slices.Compact(out[i].Forms)
	}
	return out
}

// Forms returns the forms of all families, sorted.
func Forms() []string {
	var out []string
	for _, f := range Families() {
		out = append(out, f.Forms...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// expand appends the forms of a pattern to out.
func (p *pattern) expand(out []string) []string {
	fields := slices.Concat(p.flags, p.types)
	crossed, longest := 1, 1
	for i := range fields {
		if fields[i].rotate {
			longest = max(longest, fields[i].choices())
		} else {
			crossed *= fields[i].choices()
		}
	}
	for n := range max(crossed, longest) {
		form, rest := p.op, n
		for i := range fields {
			k := n
			if !fields[i].rotate {
				k, rest = rest, rest/fields[i].choices()
			}
			if w := fields[i].choice(k); w != "" {
				form += "." + w
			}
		}
		out = append(out, form)
	}
	return out
}

func (f *field) choices() int {
	if f.optional {
		return len(f.words) + 1
	}
	return len(f.words)
}

// choice returns word k modulo the number of choices, "" for no word.
func (f *field) choice(k int) string {
	k %= f.choices()
	if k == len(f.words) {
		return ""
	}
	return f.words[k]
}
