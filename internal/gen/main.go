package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	check := flag.Bool("check", false, "write nothing; fail when a part is stale")
	flag.Parse()
	root, err := moduleRoot()
	if err == nil {
		err = generate(root, parts(), *check)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// parts lists every generated part. libcuda comes first because the tests that
// write the other parts need it to compile.
func parts() []part {
	return []part{
		{files: []string{procsPath, callsPath}, from: "the lines `//cu:` in `cu/driver.go`", make: libcudaFiles},
		{files: []string{tracePath}, from: "the methods in `cu/driver.go` and the hooks in `trace/hooks*.go`", make: traceWrapper.file},
		{files: []string{checkPath}, from: "the methods in `cu/driver.go` and the hooks in `check/hooks*.go`", make: checkWrapper.file},
		{files: []string{faultPath}, from: "the methods in `cu/driver.go` and the hooks in `fault/hooks.go`", make: faultWrapper.file},
		{files: []string{stubsPath, numbersPath, entryPath, exportsPath}, from: "the lines `//cu:` in `cu/driver.go`, the lines `//c:` in `cmd/libcuda/internal/entry`, `cmd/libcuda/names.txt` and `cmd/libcuda/results.txt`", make: libraryFiles},
		{files: []string{refusedPath, threadsPath, errorNamesPath, driverPath, runtimeDocPath}, from: "the headers in `kernels/compat`, `cmd/libcuda/names.txt`, and the sources of the runtime in `cmd/ferry/internal/cc/runtime`", make: runtimeFiles},
		{files: []string{packagesPath}, from: "the comments and imports of all packages", make: packagesFile},
		{files: []string{modulesPath, billPath}, from: "`go list`, `go.sum` and the licences of the modules", make: modulesFiles},
		{files: []string{contributingPath}, from: "the list of parts in `internal/gen`", make: partsInContributing},
		{files: []string{"docs/generated/coverage.md"}, from: "the cases of `cutest` and `docs/results/cutest-*.json`", pkg: "./cutest", test: "TestCoverage"},
		{files: []string{"docs/generated/profile.md"}, from: "the comments of package `profile`", pkg: "./profile", test: "TestSchemaDocumented"},
		{files: []string{"docs/generated/races.md"}, from: "the programs of `softgpu/racetest`", pkg: "./softgpu/racetest", test: "TestDocumentation"},
		{files: []string{"docs/generated/cusan.md"}, from: "the programs of `softgpu/racetest` and the test cases of CuSan", pkg: "./softgpu/racetest", test: "TestCuSan"},
		{files: []string{"docs/generated/check.md"}, from: "the programs of `check`", pkg: "./check", test: "TestDocumentation"},
		{files: []string{"docs/generated/differential.md"}, from: "the cases of `internal/test/differ` and their record", pkg: "./internal/test/differ", test: "TestDocs"},
		{files: []string{"docs/generated/instructions.md"}, from: "the forms that `softgpu/internal/simt` decodes, and the records of `softgpu/internal/simt/oracle`", pkg: "./softgpu/internal/simt/oracle", test: "TestDocs"},
		{files: []string{"cmd/ferry/internal/bind/bindtest/kernels_cu.go", "cmd/ferry/internal/bind/bindtest/kernels.ptx"}, from: "`kernels.cu` beside them, by `ferry bind`", pkg: "./cmd/ferry/internal/bind", test: "TestCommitted"},
		{files: []string{"examples/kernels/filter/filter_cu.go", "examples/kernels/filter/filter.ptx",
			"examples/kernels/matmul/matmul_cu.go", "examples/kernels/matmul/matmul.ptx",
			"examples/kernels/saxpy/saxpy_cu.go", "examples/kernels/saxpy/saxpy.ptx"}, from: "the `.cu` file beside them, by `ferry bind`", pkg: "./cmd/ferry/internal/bind", test: "TestCommitted"},
		{files: []string{"checkpoint/internal/convert/convert.ptx"}, from: "`convert.cu` beside it, by `ferry compile`", pkg: "./checkpoint/internal/convert", test: "TestPTX"},
		{files: []string{"docs/generated/math.md"}, from: "the functions of `internal/test/mathtest` and `docs/results/math-ulp.json`", pkg: "./internal/test/mathtest", test: "TestDocs"},
		{files: []string{"docs/results/patterns-held-out.txt"}, from: "a hash of the names of the patterns in `internal/measure/bench/grid`", pkg: "./internal/measure/bench/grid", test: "TestHeldOut"},
		{files: []string{"cmd/ferry/internal/normal/h200.json"}, from: "`docs/results/grid-h200-*.json`", pkg: "./cmd/ferry/internal/normal", test: "TestGenerated"},
		{files: []string{"docs/generated/accuracy.md"}, from: "`docs/results/patterns-*.json`", pkg: "./internal/measure/bench/grid", test: "TestAccuracyPage"},
		{files: []string{"contrib/README.md"}, from: "the metrics of package `metrics`", pkg: "./metrics", test: "TestDocument"},
		{files: cookbook(), from: "the Examples beside them", pkg: "./docs/cookbook", test: "TestPages"},
	}
}

// cookbook returns the pages of the cookbook.
func cookbook() (files []string) {
	for _, name := range []string{
		"README", "allocation", "asynchronous", "callbacks", "driver-api", "error-macro", "errors", "events", "implicit-synchronization",
		"increment", "managed", "mapped", "overlap", "portable", "priorities", "registered", "unified-addresses", "vector-addition",
	} {
		files = append(files, "docs/cookbook/"+name+".md")
	}
	return files
}

func partsInContributing(root string) ([]output, error) { return contributingFile(root, parts()) }

// moduleRoot returns the nearest folder upwards that has a go.mod.
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
