package checkpoint

import (
	"path"
	"strings"

	"github.com/ferrygpu/ferry/internal/nearest"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// selected returns the tensors that the options select, in the order of the checkpoint.
func (c *Checkpoint) selected(o *Options) ([]Info, error) {
	if len(o.Tensors) == 0 && o.Select == nil {
		return c.tensors, nil
	}
	p := newPatterns(o.Tensors)
	var all []Info
	for _, t := range c.tensors {
		ok, err := p.match(t.Name)
		if err != nil {
			return nil, err
		}
		if ok && (o.Select == nil || o.Select(t)) {
			all = append(all, t)
		}
	}
	if name, ok := p.unmatched(o.Tensors); ok {
		return nil, c.noTensor(name)
	}
	if len(all) == 0 && len(c.tensors) > 0 {
		return nil, refusal.Invalid("Select wants none of the %d tensors", len(c.tensors))
	}
	return all, nil
}

// patterns finds names. Those without a special letter are looked up, because a program may name
// 100,000 tensors.
type patterns struct {
	names  map[string]bool // and whether a tensor has the name
	others []string
	found  []bool // by pattern of others
}

func newPatterns(all []string) *patterns {
	p := &patterns{names: map[string]bool{}}
	for _, pattern := range all {
		if strings.ContainsAny(pattern, `*?[\`) {
			p.others = append(p.others, pattern)
		} else {
			p.names[pattern] = false
		}
	}
	p.found = make([]bool, len(p.others))
	return p
}

// match reports whether one of the patterns matches a name; without patterns all names match.
func (p *patterns) match(name string) (matches bool, err error) {
	if _, ok := p.names[name]; ok {
		p.names[name], matches = true, true
	}
	for i, pattern := range p.others {
		ok, err := match(pattern, name)
		if err != nil {
			return false, refusal.Invalid("the pattern %s is wrong: %v", printable.Value(pattern), err)
		}
		ok = ok || pattern == name // such as head[0]
		p.found[i] = p.found[i] || ok
		matches = matches || ok
	}
	return matches || len(p.names)+len(p.others) == 0, nil
}

// unmatched returns the first of all patterns that no name has matched.
func (p *patterns) unmatched(all []string) (string, bool) {
	next := 0
	for _, pattern := range all {
		found, isName := p.names[pattern]
		if !isName {
			found = p.found[next]
			next++
		}
		if !found {
			return pattern, true
		}
	}
	return "", false
}

// match is path.Match with a * that also matches slashes. No name has the control character that
// stands for them.
func match(pattern, name string) (bool, error) {
	return path.Match(strings.ReplaceAll(pattern, "/", "\x01"), strings.ReplaceAll(name, "/", "\x01"))
}

// noTensor is the error for a name or pattern that no tensor has.
func (c *Checkpoint) noTensor(name string) error {
	hint := ""
	if names := c.comparable(name); len(names) > 0 {
		hint = ": " + printable.Text(nearest.Ask(name, names))
	}
	return refusal.Invalid("no tensor %s in %v%s", printable.Value(name), c, hint)
}

// comparable returns the first tensors' names that a wrong name is compared with. To compare two takes
// time in proportion to the product of their lengths, so long names of a hostile file are left out.
func (c *Checkpoint) comparable(name string) (names []string) {
	const longest, most = 256, 20 << 20
	if len(name) > longest {
		return nil
	}
	work := 0
	for i := range c.tensors {
		have := c.tensors[i].Name
		if len(have) > longest {
			continue
		}
		if work += len(name) * len(have); work > most {
			break
		}
		names = append(names, have)
	}
	return names
}
