package runner

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/ptx"
)

// Program is a PTX file that was parsed without errors.
type Program struct {
	File   string
	Source string

	module *ptx.Module
}

// Load parses a PTX file. The error shows the line with the mistake.
func Load(file string) (*Program, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	m, err := ptx.Parse(file, string(text))
	if err != nil {
		return nil, err
	}
	return &Program{File: file, Source: string(text), module: m}, nil
}

// Kernels returns the names of the file's kernels, in order.
func (p *Program) Kernels() []string {
	var names []string
	for _, f := range p.module.Entries() {
		names = append(names, f.Name)
	}
	return names
}

// kernel finds a kernel by its name: see [FindKernel].
func (p *Program) kernel(name string) (*ptx.Func, error) {
	names := p.Kernels()
	found, err := FindKernel(names, name)
	if err != nil {
		return nil, fmt.Errorf("kernel %q is not in %s, %w", name, p.File, err)
	}
	return p.module.Entries()[slices.Index(names, found)], nil
}

// FindKernel returns the one of names that is name or, if there is none, the only one
// that C++ mangled from name: "scale" finds "_Z5scaleifPKfPf". The error says what there
// is.
func FindKernel(names []string, name string) (string, error) {
	if slices.Contains(names, name) {
		return name, nil
	}
	var mangled []string
	for _, n := range names {
		if strings.HasPrefix(n, fmt.Sprintf("_Z%d%s", len(name), name)) {
			mangled = append(mangled, n)
		}
	}
	switch {
	case len(mangled) == 1:
		return mangled[0], nil
	case len(mangled) > 1:
		return "", fmt.Errorf("which has several of that name: %s", strings.Join(mangled, ", "))
	case len(names) == 0:
		return "", errors.New("which has no kernels")
	}
	return "", fmt.Errorf("which has the kernels %s", strings.Join(names, ", "))
}

// line returns a line of the source, numbered from 1, or "" if there is none.
func (p *Program) line(n int) string {
	lines := strings.SplitN(p.Source, "\n", n+1)
	if n < 1 || n > len(lines) {
		return ""
	}
	return strings.TrimSpace(lines[n-1])
}
