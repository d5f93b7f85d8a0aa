package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	check := flag.Bool("check", false, "write nothing; fail when a file differs")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// run writes the files, or compares them.
func run(check bool) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	files, err := generate(root)
	if err != nil {
		return err
	}
	for _, f := range files {
		path := filepath.Join(root, f.path)
		old, err := os.ReadFile(path)
		switch {
		case err == nil && bytes.Equal(old, f.text):
		case check:
			return fmt.Errorf("%s differs from what cu/driver.go says; run go generate ./libcuda", f.path)
		default:
			if err := os.WriteFile(path, f.text, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// output is a file to be, by its path from the root of the module.
type output struct {
	path string
	text []byte
}

// generate makes every file from the sources under root.
func generate(root string) ([]output, error) {
	const source = "cu/driver.go"
	src, err := os.ReadFile(filepath.Join(root, source))
	if err != nil {
		return nil, err
	}
	methods, err := parse(source, src)
	if err != nil {
		return nil, err
	}
	procs, err := procsFile(methods)
	if err != nil {
		return nil, err
	}
	calls, err := callsFile(methods)
	if err != nil {
		return nil, err
	}
	return []output{
		{"libcuda/zz_procs.go", procs},
		{"libcuda/zz_calls_unsafe.go", calls},
	}, nil
}

// moduleRoot is the nearest folder upwards that has a go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("no go.mod here or above")
		}
		dir = up
	}
}
