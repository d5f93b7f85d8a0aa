package runner

import (
	"fmt"
	"os"
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

// kernel finds a kernel by its name.
func (p *Program) kernel(name string) (*ptx.Func, error) {
	for _, f := range p.module.Entries() {
		if f.Name == name {
			return f, nil
		}
	}
	names := p.Kernels()
	if len(names) == 0 {
		return nil, fmt.Errorf("kernel %q is not in %s, which has no kernels", name, p.File)
	}
	return nil, fmt.Errorf("kernel %q is not in %s, which has the kernels %s", name, p.File, strings.Join(names, ", "))
}

// line returns a line of the source, numbered from 1, or "" if there is none.
func (p *Program) line(n int) string {
	lines := strings.SplitN(p.Source, "\n", n+1)
	if n < 1 || n > len(lines) {
		return ""
	}
	return strings.TrimSpace(lines[n-1])
}
