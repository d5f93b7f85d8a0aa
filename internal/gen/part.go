package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	procsPath = "libcuda/zz_procs.go"
	callsPath = "libcuda/zz_calls_unsafe.go"
)

// part is a generated part of the repository. Either this command makes it, or a
// test does.
type part struct {
	files []string // by path from the root of the module
	from  string   // what the part is made from

	make func(root string) ([]output, error) // nil where a test writes the part

	pkg, test string // the test that compares the part, and writes it with -update
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
		bring := p.bring
		if p.make == nil {
			bring = p.runTest
		}
		if err := bring(root, check); err != nil {
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

// runTest lets a test write a part, or compare it.
func (p *part) runTest(root string, check bool) error {
	args := []string{"test", p.pkg, "-run", "^" + p.test + "$"}
	if !check {
		args = append(args, "-update")
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil && check:
		return fmt.Errorf("%w\n%s", stale(strings.Join(p.files, ", ")), out)
	case err != nil:
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	case bytes.Contains(out, []byte("no tests to run")):
		return fmt.Errorf("package %s has no test %s, which writes %s", p.pkg, p.test, strings.Join(p.files, ", "))
	}
	return nil
}

func stale(path string) error { return fmt.Errorf("%s is stale (run \"go generate ./...\")", path) }
