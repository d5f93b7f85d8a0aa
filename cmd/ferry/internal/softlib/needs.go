package softlib

import (
	"debug/buildinfo"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Need says whether a program uses the library.
type Need int

const (
	// Never is for programs in Go that use package ferry, and for the go command, which runs
	// such: they find the software GPU in themselves.
	Never Need = iota
	// Perhaps is for other programs, which may load the library while they run, as Python does.
	Perhaps
	// Always is for programs that are linked with the driver, themselves or by another library.
	Always
)

// NeedOf returns whether a program, a path or a name in PATH, uses the library. A program that
// cannot be read counts as Perhaps: whoever starts it says what is wrong with it.
func NeedOf(program string) Need {
	path, err := exec.LookPath(program)
	if err != nil {
		return Perhaps
	}
	if links(path, map[string]bool{}) {
		return Always
	}
	if info, err := buildinfo.ReadFile(path); err == nil {
		if info.Path == "cmd/go" || strings.HasPrefix(info.Path, module+"/") || info.Main.Path == module {
			return Never
		}
		for _, dep := range info.Deps {
			if dep.Path == module {
				return Never
			}
		}
	}
	return Perhaps
}

// HasDetector reports whether a program has the race detector of C: it was built with -fsanitize=thread.
func HasDetector(program string) bool {
	path, err := exec.LookPath(program)
	if err != nil {
		return false
	}
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	all, _ := f.DynamicSymbols() // a static program has none
	return slices.ContainsFunc(all, func(s elf.Symbol) bool { return s.Name == "__tsan_init" })
}

// links reports whether a program or library is linked with the driver, itself or by what it
// is linked with. seen has the files before it.
func links(path string, seen map[string]bool) bool {
	if seen[path] {
		return false
	}
	seen[path] = true
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	needed, _ := f.ImportedLibraries() // a static program has none
	places := searched(f, path)
	f.Close()
	if slices.ContainsFunc(needed, func(name string) bool { return name == Name || name == linkName }) {
		return true
	}
	return slices.ContainsFunc(needed, func(name string) bool {
		for _, dir := range places {
			if full := filepath.Join(dir, name); exists(full) {
				return links(full, seen)
			}
		}
		return false
	})
}

// exists reports whether there is a file.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// searched returns the folders in which the loader looks for libraries of a file, but those of its
// cache: what the system has there is not linked with a driver that the user installs.
func searched(f *elf.File, path string) (all []string) {
	origin := filepath.Dir(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		origin = filepath.Dir(real)
	}
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		lists, _ := f.DynString(tag)
		for _, list := range lists {
			all = append(all, filepath.SplitList(strings.NewReplacer("$ORIGIN", origin, "${ORIGIN}", origin).Replace(list))...)
		}
	}
	return append(all, filepath.SplitList(os.Getenv(pathVariable))...)
}

// pathVariable is the environment variable with the folders of libraries.
const pathVariable = "LD_LIBRARY_PATH"

// Environment returns the variable with which a program finds the library first.
func (l *Library) Environment() string {
	value := l.Folder
	if old := os.Getenv(pathVariable); old != "" {
		value += string(filepath.ListSeparator) + old
	}
	return pathVariable + "=" + value
}
