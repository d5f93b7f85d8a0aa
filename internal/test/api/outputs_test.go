package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// changing are the functions that create, change, rename or remove files, by package.
var changing = map[string][]string{
	"os": {"Create", "WriteFile", "OpenFile", "OpenRoot", "Rename", "Remove", "RemoveAll", "Truncate", "Symlink", "Link", "Mkdir", "MkdirAll",
		"CreateTemp", "MkdirTemp", "CopyFS", "Chmod", "Chown", "Lchown", "Chtimes"},
	"ioutil":  {"WriteFile", "TempFile", "TempDir"},
	"syscall": {"Open", "Openat", "Creat", "Rename", "Unlink", "Truncate"},
	"unix":    {"Open", "Openat", "Openat2", "Creat", "Rename", "Renameat", "Unlink", "Unlinkat", "Truncate"},
}

// outputExceptions are the uses of such functions outside of internal/outfile, and why none of
// them can lose a file of a user.
var outputExceptions = map[string]string{
	"cmd/ferry/man.go MkdirAll":                           "makes a folder, if there is none",
	"checkpoint/openfile_unix.go OpenFile":                "opens a file to read it",
	"checkpoint/source_linux.go OpenFile":                 "opens a file to read it",
	"cmd/ferry/internal/doctor/here.go OpenFile":          "opens a file of a device, creates none and writes nothing",
	"cmd/ferry/internal/load/meter.go MkdirTemp":          "a temporary folder with a new name",
	"cmd/ferry/internal/load/meter.go RemoveAll":          "that folder",
	"cmd/ferry/internal/checkrun/run.go MkdirTemp":        "a temporary folder with a new name",
	"cmd/ferry/internal/checkrun/run.go RemoveAll":        "that folder",
	"cmd/ferry/internal/tracereport/record.go MkdirTemp":  "a temporary folder with a new name",
	"cmd/ferry/internal/tracereport/record.go Remove":     "an empty folder that the command has made",
	"cmd/ferry/internal/tracereport/record.go RemoveAll":  "a folder that the command has made, after its recordings were moved",
	"cmd/ferry/internal/usercache/usercache.go MkdirAll":  "makes a folder of the cache, if there is none",
	"cmd/ferry/internal/usercache/usercache.go MkdirTemp": "a folder with a new name in the cache",
	"cmd/ferry/internal/usercache/usercache.go RemoveAll": "that folder, or folders of the cache whose names are hashes, or were begun a day ago",
	"cmd/ferry/internal/usercache/usercache.go Rename":    "that folder, within the cache",
	"cmd/ferry/internal/usercache/usercache.go Chtimes":   "a folder of the cache",
	"cmd/ferry/internal/cc/build.go MkdirTemp":            "a temporary folder with a new name",
	"cmd/ferry/internal/cc/build.go RemoveAll":            "that folder",
	"cmd/ferry/internal/cc/build.go OpenFile":             "the PTX in that folder",
	"cmd/ferry/internal/cc/library.go CopyFS":             "into a new folder of the cache",
	"cmd/ferry/internal/cc/library.go RemoveAll":          "in that folder",
	"cmd/ferry/internal/cc/order.go WriteFile":            "the object file that clang has just made",
	"cmd/ferry/internal/cc/run.go RemoveAll":              "a folder of the cache whose name is a hash",
	"cmd/ferry/internal/cc/run.go WriteFile":              "into a new folder of the cache",
	"compile/hostcode.go MkdirAll":                        "in a temporary folder with a new name",
	"compile/hostcode.go WriteFile":                       "in that folder",
	"cmd/ferry/internal/softlib/library.go MkdirAll":      "makes a folder, if there is none",
	"cmd/ferry/internal/softlib/library.go Remove":        "in that folder",
	"cmd/ferry/internal/softlib/library.go Symlink":       "makes a link, if there is none",
	"cmd/ferry/internal/overlap/overlap.go MkdirTemp":     "a temporary folder with a new name",
	"cmd/ferry/internal/overlap/overlap.go RemoveAll":     "that folder",
	"cmd/ferry/internal/child/terminal_linux.go OpenFile": "the terminal",
	"cmd/ferry/internal/softlib/library.go Chmod":         "the folder of the user's cache that it has made",
	"cmd/libcuda/internal/entry/log.go OpenFile":          "CUDA_LOG_FILE, which the driver appends to",
	"compile/clang.go MkdirTemp":                          "a temporary folder with a new name",
	"compile/clang.go RemoveAll":                          "that folder",
	"compile/clang.go CopyFS":                             "into that folder",
	"compile/clang.go Mkdir":                              "in that folder",
	"compile/clang.go WriteFile":                          "in that folder",
	"cutest/cases_ipc.go WriteFile":                       "in a temporary folder of the case",
	"cutest/cases_poolshare.go OpenFile":                  "the null device",
	"softgpu/sharedfile_unsafe_linux.go Open":             "memory of another process, which is no file of a user",
	"cutest/file_linux.go OpenFile":                       "a file that the case has made",
	"cutest/file_linux.go MkdirTemp":                      "a temporary folder with a new name",
	"cutest/file_linux.go RemoveAll":                      "that folder",
	"cutest/file_linux.go WriteFile":                      "in that folder",
	"cutest/resources.go MkdirTemp":                       "a temporary folder with a new name",
	"cutest/resources.go RemoveAll":                       "that folder",
	"cutest/isolated.go MkdirTemp":                        "a temporary folder with a new name",
	"cutest/isolated.go RemoveAll":                        "that folder",
	"internal/checks/checks.go Remove":                    "an empty mark that ferry check has made",
}

// outputTools are folders of programs that only this repository uses, and of tests.
var outputTools = []string{"internal/test/", "internal/gen/", "internal/measure/bench/", "internal/dl/dltest/", "examples/", "docs/", "cmd/ferry/internal/fit/shipped/"}

// TestOutputFiles: only internal/outfile changes files, but for the exceptions, each of which is
// in use. So no file that a user names is written in place, or removed.
func TestOutputFiles(t *testing.T) {
	used := map[string]bool{}
	check(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"), strings.HasPrefix(path, "internal/outfile/"):
			return nil
		case slices.ContainsFunc(outputTools, func(dir string) bool { return strings.HasPrefix(path, dir) }):
			return nil
		}
		for _, name := range changes(t, path) {
			at := path + " " + name
			used[at] = true
			if outputExceptions[at] == "" {
				t.Errorf("%s calls %s: use internal/outfile for a file that a user names, or add %q to outputExceptions with the reason", path, name, at)
			}
		}
		return nil
	}))
	for at := range outputExceptions {
		if !used[at] {
			t.Errorf("the exception %q is not used", at)
		}
	}
}

// changes returns the functions that change files, of those that a source uses.
func changes(t *testing.T, path string) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	check(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if pkg, ok := s.X.(*ast.Ident); ok && slices.Contains(changing[pkg.Name], s.Sel.Name) {
				names = append(names, s.Sel.Name)
			}
		}
		return true
	})
	return names
}
