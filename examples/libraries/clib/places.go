package clib

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// dirs lists where CUDA's libraries are: in LD_LIBRARY_PATH, in toolkits, and in the packages of pip.
func dirs() (dirs []string) {
	for _, dir := range filepath.SplitList(os.Getenv("LD_LIBRARY_PATH")) {
		if filepath.IsAbs(dir) {
			dirs = append(dirs, dir)
		}
	}
	for _, toolkit := range slices.Concat([]string{os.Getenv("CUDA_HOME"), os.Getenv("CUDA_PATH")}, glob("/usr/local/cuda*")) {
		if filepath.IsAbs(toolkit) {
			dirs = append(dirs, toolkit+"/lib64")
		}
	}
	dirs = append(dirs, "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/opt/cuda/lib64")
	for _, prefix := range pythons() {
		for _, packages := range []string{"site-packages", "dist-packages"} {
			dirs = append(dirs, glob(prefix+"/lib/python3*/"+packages+"/nvidia/*/lib")...)
		}
	}
	return dirs
}

// pythons lists the folders that hold a Python and its packages.
func pythons() (prefixes []string) {
	if python, err := exec.LookPath("python3"); err == nil && filepath.IsAbs(python) {
		prefixes = append(prefixes, filepath.Dir(filepath.Dir(python))) // of a virtual environment, too
	}
	for _, variable := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if prefix := os.Getenv(variable); filepath.IsAbs(prefix) {
			prefixes = append(prefixes, prefix)
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		prefixes = append(prefixes, home+"/.local")
	}
	return append(prefixes, "/usr/local", "/usr")
}

func glob(pattern string) []string {
	found, _ := filepath.Glob(pattern) // the pattern is right
	return found
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
