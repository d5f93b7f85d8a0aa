package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// libraryFolders are where the dynamic linker looks, on systems of Debian and of others.
var libraryFolders = map[string][]string{
	"amd64": {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"},
	"arm64": {"/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"},
}

// find returns the path of a library on this machine.
func find(name string) (path string, found bool) {
	for _, folder := range libraryFolders[runtime.GOARCH] {
		path := filepath.Join(folder, name)
		if _, err := os.Stat(path); err == nil {
			return path, true
		}
	}
	return "", false
}

// needs returns the names of the libraries that a program or a library asks for.
func needs(path string) ([]string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ImportedLibraries()
}

// interpreter returns the path of the dynamic linker of a program.
func interpreter(path string) (string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		data := make([]byte, p.Filesz)
		if _, err := p.ReadAt(data, 0); err != nil {
			return "", fmt.Errorf("the dynamic linker of %s: %w", path, err)
		}
		return strings.TrimRight(string(data), "\x00"), nil
	}
	return "", fmt.Errorf("%s names no dynamic linker: it is a static program", path)
}

// closure returns the paths of all libraries that a program needs, with those that more needs,
// and the dynamic linker.
func closure(program string, more []string) ([]string, error) {
	linker, err := interpreter(program)
	if err != nil {
		return nil, err
	}
	all := map[string]string{filepath.Base(linker): linker}
	names, err := needs(program)
	if err != nil {
		return nil, err
	}
	for names = append(names, more...); len(names) > 0; names = names[1:] {
		name := names[0]
		if all[name] != "" {
			continue
		}
		path, found := find(name)
		if !found {
			return nil, fmt.Errorf("library %s, which %s or the driver needs: %w", name, program, fs.ErrNotExist)
		}
		all[name] = path
		deeper, err := needs(path)
		if err != nil {
			return nil, err
		}
		names = append(names, deeper...)
	}
	return slices.Sorted(maps.Values(all)), nil
}

// machine names the system, for the result.
func machine() string {
	name := runtime.GOOS + "/" + runtime.GOARCH
	data, err := os.ReadFile("/etc/os-release")
	if errors.Is(err, fs.ErrNotExist) {
		return name
	}
	for line := range strings.Lines(string(data)) {
		if pretty, ok := strings.CutPrefix(line, "PRETTY_NAME="); ok {
			name += ", libraries of " + strings.Trim(strings.TrimSpace(pretty), `"`)
		}
	}
	return name
}
