package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ferrygpu/ferry/internal/inputfile"
	"github.com/ferrygpu/ferry/ptx"
)

// Program is a PTX file that was parsed without errors.
type Program struct {
	File   string
	Source string

	module *ptx.Module
}

// Load parses a PTX file. The error shows the line with the mistake. When ctx or the limit
// ends, Load returns at once and leaves the work to a goroutine. A limit of 0 is none.
func Load(ctx context.Context, file string, limit time.Duration) (*Program, error) {
	return within(ctx, limit, file, func() (*Program, error) { return parseFile(file) })
}

func parseFile(file string) (*Program, error) {
	text, err := inputfile.Read(file, inputfile.Source)
	if err != nil {
		return nil, err
	}
	m, err := ptx.Parse(file, string(text))
	if err != nil {
		return nil, err
	}
	return &Program{File: file, Source: string(text), module: m}, nil
}

// LoadLimitError reports that loading took longer than its limit.
type LoadLimitError struct {
	File  string
	Limit time.Duration
}

// Error names the file and the limit.
func (e *LoadLimitError) Error() string {
	return fmt.Sprintf("load %s: it takes longer than the limit of %v", e.File, e.Limit)
}

// within returns the result of f, or an error as soon as ctx or the limit ends.
func within[T any](ctx context.Context, limit time.Duration, file string, f func() (T, error)) (v T, err error) {
	var late <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		late = timer.C
	}
	var result T
	var failure error
	done := make(chan struct{})
	go func() {
		defer close(done)
		result, failure = f()
	}()
	select {
	case <-done:
		return result, failure
	case <-ctx.Done():
		return v, ctx.Err()
	case <-late:
		return v, &LoadLimitError{file, limit}
	}
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
