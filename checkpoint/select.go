package checkpoint

import (
	"fmt"
	"path"
	"strings"

	"github.com/ferrygpu/ferry/internal/nearest"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/refusal"
)

// selected returns the tensors that the options select, in the order of the checkpoint.
func (c *Checkpoint) selected(o *Options) ([]Info, error) {
	found := make([]bool, len(o.Tensors))
	var all []Info
	for _, t := range c.tensors {
		ok, err := matches(o.Tensors, found, t.Name)
		if err != nil {
			return nil, err
		}
		if ok && (o.Select == nil || o.Select(t)) {
			all = append(all, t)
		}
	}
	for i, pattern := range o.Tensors {
		if !found[i] {
			return nil, c.noTensor(pattern)
		}
	}
	if len(all) == 0 && len(c.tensors) > 0 {
		return nil, refusal.Invalid("Select wants none of the %d tensors", len(c.tensors))
	}
	return all, nil
}

// matches reports whether one of the patterns matches a name; without patterns all names match. It
// marks the patterns that do.
func matches(patterns []string, found []bool, name string) (any bool, err error) {
	for i, pattern := range patterns {
		ok, err := match(pattern, name)
		if err != nil {
			return false, refusal.Invalid("the pattern %s is wrong: %v", printable.Value(pattern), err)
		}
		found[i] = found[i] || ok
		any = any || ok
	}
	return any || len(patterns) == 0, nil
}

// match is path.Match with a * that also matches slashes. No name has the control character that
// stands for them.
func match(pattern, name string) (bool, error) {
	return path.Match(strings.ReplaceAll(pattern, "/", "\x01"), strings.ReplaceAll(name, "/", "\x01"))
}

// noTensor is the error for a name or pattern that no tensor has.
func (c *Checkpoint) noTensor(name string) error {
	names := make([]string, min(len(c.tensors), 10_000))
	for i := range names {
		names[i] = c.tensors[i].Name
	}
	hint := ""
	if len(names) > 0 {
		hint = ": " + printable.Text(nearest.Ask(name, names))
	}
	return refusal.Invalid("no tensor %s in %v%s", printable.Value(name), c, hint)
}

// describe says which tensors a load is about.
func describe(tensors []Info) string {
	if len(tensors) == 1 {
		return "tensor " + printable.Value(tensors[0].Name)
	}
	bytes := int64(0)
	for i := range tensors {
		bytes += tensors[i].Bytes
	}
	return fmt.Sprintf("%d tensors, %s", len(tensors), refusal.Size(uintptr(bytes)))
}
