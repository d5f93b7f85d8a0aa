package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestColumnsOfCheck: the report of a program with a finding.
func TestColumnsOfCheck(t *testing.T) {
	t.Setenv(checkedVariable, "wrong")
	goldenColumns(t, "check", func(columns int) (int, string, string) {
		status, out, errs := ferryIn(t, columns, "check", "--", os.Args[0], "-test.run=^TestCheckedProgram$")
		_, report, found := strings.Cut(out, "PASS\n")
		if !found {
			t.Fatalf("status %d, output %q, errors %q", status, out, errs)
		}
		return status, report, errs
	})
}

// TestColumnsOfCompile: the kernels of a source, and the errors of another one, whose lines are
// those of the source in any terminal.
func TestColumnsOfCompile(t *testing.T) {
	dir := fakeCompiler(t, `echo "clang: warning: loop not unrolled: the optimizer was unable to perform the requested transformation" >&2; `+ptxAction(t))
	compile := func(columns int) (int, string, string) {
		return ferryIn(t, columns, "compile", "--compiler", "clang", "saxpy.cu")
	}
	golden := filepath.Join(working(t), "testdata")
	t.Chdir(dir)
	link(t, golden)
	goldenColumns(t, "compile", compile)
	dir = fakeCompiler(t, `/bin/cat >&2 <<END
saxpy.cu:3:13: error: use of undeclared identifier 'here'; did you mean another one of the many identifiers of this file?
saxpy.cu:1:17: note: in this kernel
END
exit 1`)
	t.Chdir(dir)
	link(t, golden)
	goldenColumns(t, "compile-errors", compile)
}

// TestColumnsOfBind: what is not known of kernels.
func TestColumnsOfBind(t *testing.T) {
	kernels, err := os.ReadFile("../../kernels/kernels.ptx")
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join(working(t), "testdata")
	t.Chdir(t.TempDir())
	link(t, golden)
	write(t, "my_kernels.ptx", string(kernels))
	goldenColumns(t, "bind", func(columns int) (int, string, string) {
		return ferryIn(t, columns, "bind", "my_kernels.ptx", "--package", "p")
	})
}

// working returns the folder of the test.
func working(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// link lets the golden files be found in another folder.
func link(t *testing.T, testdata string) {
	t.Helper()
	if err := os.Symlink(testdata, "testdata"); err != nil {
		t.Skip(err)
	}
}
