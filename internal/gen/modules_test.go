package main

import (
	"debug/buildinfo"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/sample"
)

// TestModulesOfPrograms builds the command, and a program that uses the library, for two systems. Go
// writes the modules that it has linked into a program: they are those that the page says.
func TestModulesOfPrograms(t *testing.T) {
	if !sample.Full() {
		t.Skip("it builds four programs: FERRY_FULL=1 runs it")
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	modules, err := readModules(root)
	if err != nil {
		t.Fatal(err)
	}
	linked := map[int]map[string]bool{inLibrary: {}, inCommand: {}}
	for _, system := range []string{"linux", "windows"} {
		for use, pkg := range map[int]string{inLibrary: "./examples/kernels/saxpy", inCommand: "./cmd/ferry"} {
			for _, path := range linkedModules(t, root, system, pkg) {
				linked[use][path] = true
			}
		}
	}
	for _, m := range modules {
		if got := linked[inCommand][m.path]; got != (m.use <= inCommand) {
			t.Errorf("%s is linked into the command: %t; the page says %s", m.path, got, useTexts[m.use])
		}
		if got := linked[inLibrary][m.path]; got && m.use != inLibrary {
			t.Errorf("%s is linked into a program that imports Ferry; the page says %s", m.path, useTexts[m.use])
		}
		delete(linked[inCommand], m.path)
	}
	if len(linked[inCommand]) > 0 || len(linked[inLibrary]) < 2 {
		t.Errorf("not on the page: %v; in the library: %v", linked[inCommand], linked[inLibrary])
	}
}

// linkedModules builds a program and returns the modules in it.
func linkedModules(t *testing.T, root, system, pkg string) (paths []string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	cmd := exec.Command("go", "build", "-ldflags=-w", "-o", file, pkg)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH=amd64")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range info.Deps {
		paths = append(paths, d.Path)
	}
	return paths
}

// TestModulesOfEachUse: a module that several import has the use that reaches users first.
func TestModulesOfEachUse(t *testing.T) {
	graph := map[string]*goPackage{}
	add := func(module, name string, imports ...string) {
		p := &goPackage{ImportPath: module, Name: name, Dir: "/m/" + module, Imports: imports}
		p.Module = &struct {
			Path, Version, Dir string
			Main               bool
		}{Path: module, Version: "v1", Dir: "/m/" + module, Main: strings.HasPrefix(module, "github.com/ferrygpu/ferry")}
		graph[module] = p
	}
	add(module, "ferry", "shared")
	add(module+"/cmd/ferry", "main", "flags", module)
	add(module+"/internal/test/x", "x", "shared", "flags", "testing2")
	add(module+"/examples/y", "main", "graphics")
	add("shared", "shared", "below")
	add("below", "below")
	add("flags", "flags")
	add("testing2", "testing2")
	add("graphics", "graphics")
	modules := map[string]*goModule{}
	addModules(modules, graph, useOfPackage)
	for path, want := range map[string]struct {
		use    int
		direct bool
		needs  []string
	}{
		"shared": {inLibrary, true, []string{"below"}}, "below": {inLibrary, false, nil}, "flags": {inCommand, true, nil},
		"testing2": {inTests, true, nil}, "graphics": {inTests, true, nil},
	} {
		m := modules[path]
		if m == nil || m.use != want.use || m.direct != want.direct || len(m.needs) != len(want.needs) || len(want.needs) == 1 && !m.needs[want.needs[0]] {
			t.Errorf("%s: %+v, want %+v", path, m, want)
		}
	}
	if len(modules) != 5 {
		t.Errorf("%d modules, want 5", len(modules))
	}
}

// TestLicences reads texts, and folders with files of licences.
func TestLicences(t *testing.T) {
	const (
		mit    = "Permission is hereby granted, free of charge,\n * to any person obtaining a copy of"
		apache = "   Apache License\n   Version 2.0, January 2004\n"
		bsd2   = "Redistribution and use in source and binary forms, with or without\nmodification, are permitted provided"
		bsd3   = bsd2 + " Neither the name may be used to endorse or\n// promote products derived from this software without specific prior written permission."
	)
	for text, want := range map[string][]string{
		mit: {"MIT"}, apache: {"Apache-2.0"}, bsd2: {"BSD-2-Clause"}, bsd3: {"BSD-3-Clause"},
		apache + bsd3 + mit: {"Apache-2.0", "BSD-3-Clause", "MIT"}, "Do what you like.": nil,
	} {
		if got := licencesIn(text); !slices.Equal(got, want) {
			t.Errorf("%q has %v, want %v", text, got, want)
		}
	}
	dir := t.TempDir()
	m := &goModule{path: "m", dir: dir, packages: map[string]bool{filepath.Join(dir, "a", "b"): true}}
	write(t, filepath.Join(dir, "a", "b", "license.go"), "package b")
	if _, err := readLicences(m); err == nil || !strings.Contains(err.Error(), "no file with a licence") {
		t.Errorf("without a licence: %v", err)
	}
	write(t, filepath.Join(dir, "COPYING.txt"), mit)
	write(t, filepath.Join(dir, "a", "LICENCE"), bsd2)
	write(t, filepath.Join(dir, "c", "LICENSE"), "not used by Ferry")
	if got, err := readLicences(m); err != nil || !slices.Equal(got, []string{"BSD-2-Clause", "MIT"}) {
		t.Errorf("%v, %v", got, err)
	}
	write(t, filepath.Join(dir, "a", "b", "LICENSE-OTHER"), "Do what you like.")
	if _, err := readLicences(m); err == nil || !strings.Contains(err.Error(), "LICENSE-OTHER of module m") {
		t.Errorf("with a licence that is not known: %v", err)
	}
	if _, err := readLicences(&goModule{path: "m"}); err == nil || !strings.Contains(err.Error(), "go mod download") {
		t.Errorf("of a module that is not here: %v", err)
	}
}

// TestBill reads the bill of materials: each reference leads to a component, which go.sum has a hash of.
func TestBill(t *testing.T) {
	m := &goModule{path: "a", version: "v1", licences: []string{"ISC", "MIT"}, needs: map[string]bool{"b": true}, use: inTests}
	n := &goModule{path: "b", version: "v2", licences: []string{"MIT"}, direct: true}
	sums := "a v1/go.mod h1:AAAA\na v1 h1:AQID\nb v2 h1:BAUG\n"
	text, err := billOf([]*goModule{m, n}, sums)
	if err != nil {
		t.Fatal(err)
	}
	var b bill
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	a := b.Components[0]
	if a.Scope != "excluded" || a.Hashes[0].Content != "010203" || a.Licences[0].Expression != "ISC AND MIT" || a.Ref != "pkg:golang/a@v1" {
		t.Errorf("%+v", a)
	}
	if c := b.Components[1]; c.Scope != "required" || c.Hashes[0].Content != "040506" {
		t.Errorf("%+v", c)
	}
	var refs []string
	for _, d := range b.Dependencies {
		refs = append(refs, d.Ref+": "+strings.Join(d.Needs, " "))
	}
	if want := []string{"pkg:golang/" + module + ": pkg:golang/b@v2", "pkg:golang/a@v1: pkg:golang/b@v2", "pkg:golang/b@v2: "}; !slices.Equal(refs, want) {
		t.Errorf("got %q, want %q", refs, want)
	}
	if _, err := billOf([]*goModule{m, n}, "a v1 h1:AQID\n"); err == nil || !strings.Contains(err.Error(), "b v2") {
		t.Errorf("without a hash: %v", err)
	}
}
