package ferry_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// environmentReads are the uses of the environment outside of internal/secureenv, each with the
// reason why a privileged program may have it: what the variable can do.
var environmentReads = map[string]string{
	"check/options.go: os.Getenv(\"CUDA_LAUNCH_BLOCKING\")":                                       "a switch",
	"check/options.go: os.Getenv(\"FERRY_LAUNCH_BLOCKING\")":                                      "a switch",
	"cmd/ferry/benchreport.go: os.CreateTemp(filepath.Dir(path), \".ferry-*\")":                   "beside a file that an argument names",
	"cmd/ferry/writefile.go: os.CreateTemp(filepath.Dir(path), \".\"+filepath.Base(path)+\"-*\")": "beside a file that an argument names",
	"cmd/ferry/terminal.go: os.Getenv(\"COLUMNS\")":                                               "a number",
	"cmd/ferry/terminal.go: os.Getenv(\"NO_COLOR\")":                                              "a switch",
	"cmd/ferry/terminal.go: os.Getenv(\"TERM\")":                                                  "a switch",
	"compile/clang.go: os.MkdirTemp(parent, \"ferry-compile-\")":                                  "/tmp in a privileged program",
	"compile/clangfind.go: os.Environ()":                                                          "environment drops it in a privileged program",
	"compile/places.go: os.UserHomeDir()":                                                         "not used in a privileged program",
	"cutest/file_linux.go: os.MkdirTemp(dir, \"cutest\")":                                         "a test",
	"cutest/isolated.go: os.Environ()":                                                            "a test",
	"cutest/isolated.go: os.LookupEnv(caseVariable)":                                              "a test: the name of a case",
	"cutest/isolated.go: os.MkdirTemp(\"\", \"cutest\")":                                          "a test",
	"cutest/resources.go: os.MkdirTemp(\"\", \"cutest\")":                                         "a test",
	"fault/environment.go: os.Getenv(Variable)":                                                   "errors of calls",
	"internal/measure/bench/peer.go: os.MkdirTemp(\"\", \"ferry-peers-\")":                        "a command of this repository",
	"internal/measure/bench/serve/cell/main.go: os.Getenv(\"FERRY_COMMIT\")":                      "a text",
	"cmd/ferry/internal/bind/bind.go: os.Getenv(\"GOPACKAGE\")":                                   "a name in generated code",
	"cmd/ferry/internal/checkrun/run.go: os.Environ()":                                            "runs the program that its user names",
	"cmd/ferry/internal/checkrun/run.go: os.MkdirTemp(\"\", \"ferry-check-\")":                    "runs the program that its user names",
	"internal/checks/checks.go: os.Getenv(Variable)":                                              "a list of checks",
	"internal/test/compiletest/compiletest.go: exec.LookPath(name)":                               "a test",
	"internal/test/compiletest/compiletest.go: os.Getenv(AllVariable)":                            "a test",
	"internal/test/compiletest/compiletest.go: os.Getenv(RequireVariable)":                        "a test",
	"internal/test/compiletest/compiletest.go: os.Getenv(compile.ClangVariable)":                  "a test",
	"internal/test/fuzz/fuzz.go: os.Environ()":                                                    "a command of this repository",
	"internal/test/fuzz/fuzz.go: os.MkdirTemp(\"\", \"fuzz\")":                                    "a command of this repository",
	"internal/test/gputest/gputest.go: os.Getenv(RequireVariable)":                                "a test",
	"internal/test/gputest/machine.go: os.Getenv(MachineVariable)":                                "a test",
	"internal/hint/hint.go: os.Getenv(QuietVariable)":                                             "a switch",
	"internal/test/hostile/check.go: os.Getenv(Strict)":                                           "a test",
	"internal/origin/origin.go: os.Getenv(\"FERRY_COMMIT\")":                                      "a text",
	"cmd/ferry/internal/overlap/overlap.go: os.MkdirTemp(\"\", \"ferry-overlap-\")":               "a command of this repository",
	"internal/test/sweep/modules.go: os.CreateTemp(\"\", \"sweep-*.ptx\")":                        "a command of this repository",
	"cmd/ferry/internal/tracereport/record.go: os.Environ()":                                      "runs the program that its user names",
	"cmd/ferry/internal/tracereport/record.go: os.MkdirTemp(\"\", \"ferry-trace-\")":              "runs the program that its user names",
	"kerneltest/run.go: os.Getenv(gputest.RequireVariable)":                                       "a test",
	"report.go: os.Getenv(LeaksVariable)":                                                         "a switch",
	"softgpu/check.go: os.Getenv(CheckVariable)":                                                  "a list of checks",
	"softgpu/driver.go: os.Getenv(\"CUDA_LAUNCH_BLOCKING\")":                                      "a switch",
	"softgpu/driver.go: os.Getenv(\"FERRY_LAUNCH_BLOCKING\")":                                     "a switch",
	"softgpu/driver.go: os.Getenv(LimitVariable)":                                                 "a number",
	"softgpu/driver.go: os.Getenv(ScheduleVariable)":                                              "the name of a schedule",
	"trace/environment.go: os.Getenv(LimitVariable)":                                              "a number",
}

// environmentCalls are the functions that read the environment, or places that it names.
var environmentCalls = []string{"os.Getenv", "os.LookupEnv", "os.Environ", "os.ExpandEnv", "os.UserHomeDir", "os.UserCacheDir",
	"os.UserConfigDir", "os.TempDir", "os.MkdirTemp", "os.CreateTemp", "exec.LookPath", "syscall.Getenv", "syscall.Environ"}

// TestEnvironmentReads: each use of the environment is in internal/secureenv, where privileged
// programs do not see it, or in the list above with its reason.
func TestEnvironmentReads(t *testing.T) {
	left := map[string]bool{}
	for use := range environmentReads {
		left[use] = true
	}
	check(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		path = filepath.ToSlash(path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path != "." && strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || path == "examples" || path == "docs" || path == "internal/secureenv"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, is := n.(*ast.CallExpr)
			if !is || !slices.Contains(environmentCalls, source(files, call.Fun)) {
				return true
			}
			use := path + ": " + source(files, call)
			if environmentReads[use] == "" {
				t.Errorf("%s: a variable that names code or a file is read by internal/secureenv; another belongs into environmentReads with its reason", use)
			}
			delete(left, use)
			return true
		})
		return nil
	}))
	for use := range left {
		t.Errorf("environmentReads has %s, which is not there", use)
	}
}

// source prints a node as its text.
func source(files *token.FileSet, n ast.Node) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, files, n); err != nil {
		return err.Error()
	}
	return b.String()
}
