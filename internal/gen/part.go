package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const (
	procsPath = "libcuda/zz_procs.go"
	callsPath = "libcuda/zz_calls_unsafe.go"
)

// part is a generated part of the repository.
type part struct {
	files []string // by path from the root of the module
	from  string   // what the part is made from

	make func(root string) ([]output, error)
}

// parts lists the generated parts.
var parts = []part{
	{files: []string{procsPath, callsPath}, from: "the lines `//cu:` in `cu/driver.go`", make: libcudaFiles},
}

// output is a file to write, by path from the root of the module.
type output struct {
	path string
	text []byte
}

// generate writes the parts that differ, or only checks them. The error names
// every part that failed.
func generate(root string, parts []part, check bool) error {
	var failed []error
	for i := range parts {
		p := &parts[i]
		if err := p.bring(root, check); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// bring makes a part and writes it, or compares it.
func (p *part) bring(root string, check bool) error {
	outputs, err := p.make(root)
	if err != nil {
		return err
	}
	for _, o := range outputs {
		path := filepath.Join(root, o.path)
		old, err := os.ReadFile(path)
		switch {
		case err == nil && bytes.Equal(old, o.text):
		case check:
			return stale(o.path)
		default:
			if err := os.WriteFile(path, o.text, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

func stale(path string) error { return fmt.Errorf("%s is stale: run go generate ./...", path) }
