package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	purego       = "github.com/ebitengine/purego"
	maxRootFiles = 55 // the package, its own tests and examples, and what belongs in a root

	// opening stands in `internal` because two wings open drivers by it, but above softgpu, trace,
	// check and fault, which it opens.
	opening = "internal/devices"
)

// TestLayout holds the layout that docs/ARCHITECTURE.md shows: what folders do not let the
// compiler say about imports, comments of packages, and the number of files in the root.
func TestLayout(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	folders, err := readFolders(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(folders) < 80 {
		t.Errorf("found %d packages, want at least 80", len(folders))
	}
	for _, fault := range layoutFaults(folders) {
		t.Error(fault)
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	if files := rootFiles(entries); len(files) > maxRootFiles {
		t.Errorf("the root folder has %d files, want at most %d: tests of scenarios belong in internal/test/api: %s",
			len(files), maxRootFiles, strings.Join(files, " "))
	}
}

// layoutFaults returns what breaks the layout.
func layoutFaults(folders map[string]*folder) (faults []string) {
	users := map[string]map[string]bool{} // the wings that import a package
	for _, high := range reaches(folders, opening) {
		if high == "." || high == "libcuda" || high == purego || within(high, "cmd") {
			faults = append(faults, fmt.Sprintf("%s imports %s, itself or by others: the library that is libcuda must not have it", opening, high))
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		f := folders[dir]
		faults = append(faults, f.importFaults()...)
		if fault := f.commentFault(); fault != "" {
			faults = append(faults, fault)
		}
		for _, imported := range slices.Sorted(maps.Keys(f.imports)) {
			if to, ok := folderOf(imported); ok {
				if users[to] == nil {
					users[to] = map[string]bool{}
				}
				users[to][wing(dir)] = true
			}
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		of := slices.Sorted(maps.Keys(users[dir]))
		if shared(dir) && len(of) == 1 && of[0] != "." {
			faults = append(faults, fmt.Sprintf("package %s is used by %s alone: it belongs inside that folder", dir, of[0]))
		}
	}
	return faults
}

// importFaults returns the imports that a package must not have.
//
// Files of tests have looser rules, because a test needs a driver to run on. Those in
// `internal` may also import softgpu. Those of libcuda may import purego. The examples show how
// programs call other libraries, so one package of theirs imports purego as a program would.
func (f *folder) importFaults() (faults []string) {
	for _, kind := range []struct {
		imports map[string]string
		tests   bool
	}{{f.imports, false}, {f.testImports, true}} {
		for _, imported := range slices.Sorted(maps.Keys(kind.imports)) {
			if within(imported, purego) && f.dir != "libcuda" && (f.dir != "internal/dl" && f.dir != "examples/libraries/clib" || kind.tests) {
				faults = append(faults, fmt.Sprintf("%s imports purego: only libcuda, internal/dl and examples/libraries/clib may", kind.imports[imported]))
			}
			if imported == "C" && f.dir != "cmd/libcuda" {
				faults = append(faults, fmt.Sprintf("%s uses cgo: only cmd/libcuda may", kind.imports[imported]))
			}
			to, ok := folderOf(imported)
			if ok && shared(f.dir) && above(to, kind.tests) {
				faults = append(faults, fmt.Sprintf("%s imports %s, which stands above it", kind.imports[imported], to))
			}
		}
	}
	return faults
}

// reaches returns what a package of Ferry imports, itself or by others: packages of Ferry, and purego.
func reaches(folders map[string]*folder, dir string) []string {
	seen := map[string]bool{}
	var visit func(dir string)
	visit = func(dir string) {
		if folders[dir] == nil {
			return
		}
		for imported := range folders[dir].imports {
			to, ok := folderOf(imported)
			if within(imported, purego) {
				to, ok = purego, true
			}
			if ok && !seen[to] {
				seen[to] = true
				visit(to)
			}
		}
	}
	visit(dir)
	return slices.Sorted(maps.Keys(seen))
}

// above reports whether a package stands above those of `internal` that several wings use.
func above(dir string, test bool) bool {
	for _, top := range []string{"trace", "check", "fault", "cmd", opening} {
		if within(dir, top) {
			return true
		}
	}
	return within(dir, "softgpu") && !test
}

// commentFault says where the comment of a package is missing, or stands elsewhere than in
// doc.go or its main file: the one named after the package, main.go, or the only one.
func (f *folder) commentFault() string {
	if len(f.files) == 0 {
		return "" // tests alone
	}
	if len(f.comments) != 1 {
		return fmt.Sprintf("package %s has its comment in %d files %q, want one", f.dir, len(f.comments), f.comments)
	}
	switch c := f.comments[0]; {
	case c == "doc.go", c == f.name+".go", len(f.files) == 1:
		return ""
	default:
		return fmt.Sprintf("package %s has its comment in %s, want it in doc.go or %s.go", f.dir, c, f.name)
	}
}

// shared reports whether a package is one of those in `internal` that several wings use.
func shared(dir string) bool {
	return within(dir, "internal") && !within(dir, "internal/measure") && !within(dir, "internal/test") && !within(dir, opening)
}

// wing returns the folder that may hold what only one package uses: a folder of the root, or
// one of the wings in `internal`. A package that stands in `internal` alone is its own.
func wing(dir string) string {
	parts := strings.Split(dir, "/")
	if n := len(parts); n > 1 && (parts[0] == "internal" || parts[0] == "cmd") {
		return strings.Join(parts[:2], "/")
	}
	return parts[0]
}

// rootFiles returns the files of the root folder that count: not what tests and builds leave.
func rootFiles(entries []fs.DirEntry) (names []string) {
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".test", ".out", ".exe", ".prof":
			continue
		}
		if !e.IsDir() && e.Name() != ".git" {
			names = append(names, e.Name())
		}
	}
	return names
}

// TestLayoutFindsWhatIsWrong plants each fault in a small layout that has none.
func TestLayoutFindsWhatIsWrong(t *testing.T) {
	right := func() map[string]*folder {
		folders := map[string]*folder{}
		for dir, imports := range map[string][]string{
			".":                       {"libcuda", "softgpu", "trace", "internal/dl", "internal/devices"},
			"libcuda":                 {purego, "internal/dl"},
			"softgpu":                 {"internal/room", "softgpu/internal/simt"},
			"softgpu/internal/simt":   {"internal/room"},
			"trace":                   {"internal/room"},
			"cmd/ferry":               {".", "softgpu", "trace", "internal/measure/bench"},
			"internal/dl":             {purego},
			"internal/devices":        {"softgpu", "trace", "internal/room"},
			"internal/room":           nil,
			"examples/libraries/clib": {purego},
			"internal/measure":        {".", "softgpu", "trace", "internal/room"},
			"internal/test/api":       {"check", "fault", "cmd/ferry"},
		} {
			f := &folder{dir: dir, name: "p", files: []string{"doc.go", "p.go"}, comments: []string{"doc.go"},
				imports: map[string]string{}, testImports: map[string]string{}}
			for _, i := range imports {
				if i != purego {
					i = strings.TrimSuffix(module+"/"+i, "/.")
				}
				f.imports[i] = dir + "/p.go"
			}
			folders[dir] = f
		}
		folders["internal/room"].testImports[module+"/softgpu"] = "internal/room/p_test.go"
		folders["libcuda"].testImports[purego] = "libcuda/p_test.go"
		return folders
	}
	if got := layoutFaults(right()); len(got) != 0 {
		t.Errorf("the right layout has the faults %q", got)
	}
	for want, plant := range map[string]func(map[string]*folder){
		"cmd/ferry/q.go imports purego: only libcuda, internal/dl and examples/libraries/clib may": func(l map[string]*folder) {
			l["cmd/ferry"].imports[purego+"/sub"] = "cmd/ferry/q.go"
		},
		"internal/dl/q_test.go imports purego: only libcuda, internal/dl and examples/libraries/clib may": func(l map[string]*folder) {
			l["internal/dl"].testImports[purego] = "internal/dl/q_test.go"
		},
		"examples/libraries/x/q.go imports purego: only libcuda, internal/dl and examples/libraries/clib may": func(l map[string]*folder) {
			l["examples/libraries/x"] = &folder{dir: "examples/libraries/x", imports: map[string]string{purego: "examples/libraries/x/q.go"}}
		},
		"softgpu/q.go uses cgo: only cmd/libcuda may": func(l map[string]*folder) {
			l["softgpu"].imports["C"] = "softgpu/q.go"
		},
		"internal/room/q.go imports softgpu, which stands above it": func(l map[string]*folder) {
			l["internal/room"].imports[module+"/softgpu"] = "internal/room/q.go"
		},
		"internal/room/q.go imports check, which stands above it": func(l map[string]*folder) {
			l["internal/room"].imports[module+"/check"] = "internal/room/q.go"
		},
		"internal/room/q.go imports internal/devices, which stands above it": func(l map[string]*folder) {
			l["internal/room"].imports[module+"/internal/devices"] = "internal/room/q.go"
		},
		"internal/devices imports libcuda, itself or by others: the library that is libcuda must not have it": func(l map[string]*folder) {
			l["softgpu"].imports[module+"/libcuda"] = "softgpu/q.go"
			delete(l["libcuda"].imports, purego)
			delete(l["libcuda"].imports, module+"/internal/dl")
		},
		"internal/devices imports github.com/ebitengine/purego, itself or by others: the library that is libcuda must not have it": func(l map[string]*folder) {
			l["trace"].imports[module+"/internal/dl"] = "trace/q.go"
		},
		"internal/dl/q.go imports cmd/ferry/internal/fit, which stands above it": func(l map[string]*folder) {
			l["internal/dl"].imports[module+"/cmd/ferry/internal/fit"] = "internal/dl/q.go"
		},
		"internal/dl/q_test.go imports fault, which stands above it": func(l map[string]*folder) {
			l["internal/dl"].testImports[module+"/fault"] = "internal/dl/q_test.go"
		},
		"package internal/room is used by softgpu alone: it belongs inside that folder": func(l map[string]*folder) {
			delete(l["trace"].imports, module+"/internal/room")
			delete(l["internal/devices"].imports, module+"/internal/room")
			delete(l["internal/measure"].imports, module+"/internal/room")
		},
		`package trace has its comment in 0 files [], want one`: func(l map[string]*folder) {
			l["trace"].comments = nil
		},
		`package trace has its comment in 2 files ["doc.go" "p.go"], want one`: func(l map[string]*folder) {
			l["trace"].comments = []string{"doc.go", "p.go"}
		},
		"package trace has its comment in q.go, want it in doc.go or p.go": func(l map[string]*folder) {
			l["trace"].comments = []string{"q.go"}
		},
	} {
		l := right()
		plant(l)
		if got := layoutFaults(l); !slices.Equal(got, []string{want}) {
			t.Errorf("got the faults %q, want %q", got, want)
		}
	}
}
