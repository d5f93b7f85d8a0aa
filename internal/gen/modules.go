package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// What a module is used for. A module has the first that fits.
const (
	inLibrary = iota // linked into programs that import Ferry
	inCommand        // linked into the command ferry
	inTests          // linked into tests and other commands of this repository
	inTools          // linked into tools that go.mod names
)

// targets are the systems for which modules are looked up. Tests and tools run on the first.
var targets = []string{"linux/amd64", "linux/arm64", "windows/amd64", "darwin/arm64", "js/wasm"}

// goModule is a module of other authors that Ferry uses.
type goModule struct {
	path, version, dir string

	use      int
	direct   bool            // packages of Ferry import it, or it is a tool
	packages map[string]bool // the folders of the packages that are used
	needs    map[string]bool // the modules that those packages import
	licences []string        // SPDX names, sorted
}

// goPackage is what go list says of a package.
type goPackage struct {
	ImportPath, Name, Dir string
	Imports               []string
	Standard              bool
	Module                *struct {
		Path, Version, Dir string
		Main               bool
	}
}

// readModules finds the modules that packages of Ferry import, on all systems, and their licences.
func readModules(root string) ([]*goModule, error) {
	modules := map[string]*goModule{}
	add := func(target string, useOf func(*goPackage) int, args ...string) error {
		graph, err := listPackages(root, target, args...)
		if err == nil {
			addModules(modules, graph, useOf)
		}
		return err
	}
	var errs []error
	for _, target := range targets {
		errs = append(errs, add(target, useOfPackage, "./..."))
	}
	errs = append(errs,
		add(targets[0], func(*goPackage) int { return inTests }, "-test", "./..."),
		add(targets[0], func(*goPackage) int { return inTools }, "tool"))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	sorted := slices.SortedFunc(maps.Values(modules), func(a, b *goModule) int { return strings.Compare(a.path, b.path) })
	for _, m := range sorted {
		licences, err := readLicences(m)
		if err != nil {
			return nil, err
		}
		m.licences = licences
	}
	return sorted, nil
}

// useOfPackage says what a package of this repository is used for.
func useOfPackage(p *goPackage) int {
	dir, _ := folderOf(p.ImportPath)
	switch {
	case dir == "cmd/ferry":
		return inCommand
	case p.Name == "main" || slices.ContainsFunc([]string{"cmd", "docs", "examples", "internal", "softgpu/racetest"}, func(top string) bool { return within(dir, top) }):
		return inTests
	default:
		return inLibrary
	}
}

// listPackages returns packages and all that they import, by import path.
func listPackages(root, target string, args ...string) (map[string]*goPackage, error) {
	system, processor, _ := strings.Cut(target, "/")
	cmd := exec.Command("go", append([]string{"list", "-deps", "-json=ImportPath,Name,Dir,Imports,Standard,Module"}, args...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+processor)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %v for %s: %w\n%s", args, target, err, stderr.Bytes())
	}
	graph := map[string]*goPackage{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(goPackage)
		switch err := d.Decode(p); {
		case errors.Is(err, io.EOF):
			return graph, nil
		case err != nil:
			return nil, err
		}
		graph[p.ImportPath] = p
	}
}

// addModules adds the modules of a graph. useOf says what a package of this repository, or a tool, is
// used for; what it imports is used for the same.
func addModules(modules map[string]*goModule, graph map[string]*goPackage, useOf func(*goPackage) int) {
	seen := map[*goPackage]int{} // the uses, as bits
	var visit func(p *goPackage, use int, direct bool)
	visit = func(p *goPackage, use int, direct bool) {
		if p == nil || p.Standard || p.Module == nil {
			return
		}
		if !p.Module.Main {
			m := addPackage(modules, graph, p, use)
			m.direct = m.direct || direct
		}
		if seen[p]&(1<<use) != 0 {
			return
		}
		seen[p] |= 1 << use
		for _, imported := range p.Imports {
			visit(graph[imported], use, p.Module.Main)
		}
	}
	for _, p := range graph {
		if p.Module != nil && (p.Module.Main || useOf(p) == inTools && p.Name == "main") {
			visit(p, useOf(p), true)
		}
	}
}

// addPackage notes a package of another module.
func addPackage(modules map[string]*goModule, graph map[string]*goPackage, p *goPackage, use int) *goModule {
	m := modules[p.Module.Path]
	if m == nil {
		m = &goModule{path: p.Module.Path, version: p.Module.Version, dir: p.Module.Dir, use: use,
			packages: map[string]bool{}, needs: map[string]bool{}}
		modules[m.path] = m
	}
	m.use = min(m.use, use)
	m.packages[p.Dir] = true
	for _, imported := range p.Imports {
		if q := graph[imported]; q != nil && q.Module != nil && q.Module.Path != m.path {
			m.needs[q.Module.Path] = true
		}
	}
	return m
}
