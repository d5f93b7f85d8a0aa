package clib

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/test/ctest"
)

const variable = "FERRY_CLIB_TEST"

// test is the library of testdata, which needs another one beside it.
var test = Library{Names: []string{"libclibtest.so.13"}, Variable: variable, Needs: []string{"libclibneed"}, Package: "nothing"}

// TestOpen: functions get their arguments, and what the library needs is opened before it.
func TestOpen(t *testing.T) {
	path := ctest.Library(t, "testdata/need.c", "libclibneed.so.13", "-Wl,-soname,libclibneed.so.13")
	dir := filepath.Dir(path)
	copyFile(t, ctest.Library(t, "testdata/lib.c", test.Names[0], "-L"+dir, "-l:libclibneed.so.13"), filepath.Join(dir, test.Names[0]))
	t.Setenv(variable, filepath.Join(dir, test.Names[0]))
	var add func(a int32, b *int32, c uint64) uint64
	var name func() string
	got, err := test.Open(map[string]any{"clib_add": &add, "clib_name": &name})
	if err != nil || got != os.Getenv(variable) {
		t.Fatalf("opened %s, %v", got, err)
	}
	two := int32(2)
	if sum := add(-1, &two, 1<<40); sum != 1<<40+1001 || name() != "clib" {
		t.Errorf("%d, %q", sum, name())
	}
	for _, f := range []string{"clib_nothing", "clib_add"} {
		_, err := test.Open(map[string]any{f: &add, "clib_none": &name})
		if err == nil || !strings.Contains(err.Error(), "clib_none") || strings.Contains(err.Error(), f) != (f == "clib_nothing") {
			t.Errorf("functions that it lacks: %v", err)
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestPlaces: a library is found in LD_LIBRARY_PATH before toolkits, and there before the packages of
// pip. Nothing in the working directory is opened.
func TestPlaces(t *testing.T) {
	for _, v := range []string{variable, "CUDA_PATH", "CONDA_PREFIX"} {
		t.Setenv(v, "")
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile(test.Names[0], nil, 0o644); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	toolkit, python := filepath.Join(dir, "cuda"), filepath.Join(dir, "venv")
	t.Setenv("CUDA_HOME", toolkit)
	t.Setenv("VIRTUAL_ENV", python)
	t.Setenv("LD_LIBRARY_PATH", ":.:"+dir)
	want := []string{
		filepath.Join(dir, test.Names[0]),
		filepath.Join(toolkit, "lib64", test.Names[0]),
		filepath.Join(python, "lib/python3.12/site-packages/nvidia/cu13/lib", test.Names[0]),
	}
	for _, file := range want {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(test.paths(), " "); got != strings.Join(want, " ") {
		t.Errorf("got %s, want %s", got, want)
	}
	bin := filepath.Join(dir, "other", "bin")
	beside := filepath.Join(dir, "other/lib/python3.11/site-packages/nvidia/cublas/lib", test.Names[0])
	if err := errors.Join(os.MkdirAll(bin, 0o755), os.MkdirAll(filepath.Dir(beside), 0o755), os.WriteFile(beside, nil, 0o644),
		os.WriteFile(filepath.Join(bin, "python3"), []byte("#!/bin/sh\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	if _, err := exec.LookPath("python3"); err == nil && test.paths()[2] != beside {
		t.Errorf("beside python3: %s, want %s third", test.paths(), beside)
	}
	_, err := test.Open(nil)
	for _, part := range append(want, "no "+test.Names[0], "by "+variable, "pip's nothing", "folders: "+dir) {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, want %q in it", err, part)
		}
	}
	for _, path := range []string{test.Names[0], "./" + test.Names[0], "/nowhere/x.so"} {
		t.Setenv(variable, path)
		_, err := test.Open(nil)
		if err == nil || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "want an absolute path") == filepath.IsAbs(path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
