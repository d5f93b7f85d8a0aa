package cu_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/ferrygpu/ferry/cu"
)

// resultCodes has the values of CUresult in the header of CUDA 13.0, as the first and
// last of each run.
var resultCodes = [][2]int{
	{0, 8}, {34, 34}, {36, 36}, {46, 46},
	{100, 102}, {200, 202}, {205, 226}, {300, 304},
	{400, 402}, {500, 500}, {600, 600}, {700, 705}, {708, 721},
	{800, 812}, {900, 916}, {999, 999},
}

// stickyCodes has the codes after which, by the header, the context or the process
// cannot be used, and the two hardware errors that lose data.
var stickyCodes = [][2]int{
	{214, 214}, {220, 220}, {226, 226}, {700, 700}, {702, 702}, {710, 710},
	{714, 719}, {721, 721}, {810, 810}, {911, 911},
}

func TestResultCodes(t *testing.T) {
	want := expand(resultCodes)
	constants := constantsOf(t, "result.go", "Result")
	if got := slices.Sorted(maps.Values(constants)); !slices.Equal(got, want) {
		t.Errorf("the constants have the codes %d, want %d", got, want)
	}
	var got []int
	for code := range 100_000 {
		if cu.Result(code).Name() != fmt.Sprintf("CUDA_ERROR_%d", code) {
			got = append(got, code)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the table has the codes %d, want %d", got, want)
	}
}

func TestResultName(t *testing.T) {
	for goName, code := range constantsOf(t, "result.go", "Result") {
		checkName(t, goName, "", cu.Result(code).Name(), "CUDA_")
	}
}

func TestResultDescription(t *testing.T) {
	seen := make(map[string]cu.Result)
	for _, code := range expand(resultCodes) {
		r := cu.Result(code)
		text := r.Description()
		switch {
		case text == "":
			t.Errorf("%s has no description", r.Name())
			continue
		case !unicode.IsLower(rune(text[0])):
			t.Errorf("%s: %q starts with something other than a lower-case letter", r.Name(), text)
		case strings.HasSuffix(text, "."), strings.TrimSpace(text) != text, strings.Contains(text, "\n"):
			t.Errorf("%s: %q cannot be part of an error text", r.Name(), text)
		}
		if other, ok := seen[text]; ok {
			t.Errorf("%s and %s are both described as %q", r.Name(), other.Name(), text)
		}
		seen[text] = r
		if got, want := r.Error(), r.Name()+": "+text; got != want {
			t.Errorf("Result(%d).Error() = %q, want %q", code, got, want)
		}
	}
}

func TestResultUnknown(t *testing.T) {
	known := expand(resultCodes)
	for _, code := range []uint32{9, 35, 203, 706, 998, 1000, 12345, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
		if slices.Contains(known, int(code)) {
			t.Fatalf("the test is wrong: %d is a code", code)
		}
		r, number := cu.Result(code), strconv.FormatUint(uint64(code), 10)
		if got, want := r.Name(), "CUDA_ERROR_"+number; got != want {
			t.Errorf("Result(%d).Name() = %q, want %q", code, got, want)
		}
		if r.Description() == "" || !strings.Contains(r.Error(), number) {
			t.Errorf("Result(%d).Error() = %q, want the number and a description", code, r.Error())
		}
		if r.Sticky() {
			t.Errorf("Result(%d).Sticky() = true, want false for an unknown code", code)
		}
	}
}

func TestResultSticky(t *testing.T) {
	want := expand(stickyCodes)
	var got []int
	for _, code := range expand(resultCodes) {
		if cu.Result(code).Sticky() {
			got = append(got, code)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("sticky are %d, want %d", got, want)
	}
}

func TestResultIs(t *testing.T) {
	unknown := cu.Result(54321)
	for _, r := range []cu.Result{cu.ErrorOutOfMemory, cu.ErrorIllegalAddress, unknown} {
		err := fmt.Errorf("copy: %w", errors.Join(errors.New("noise"), fmt.Errorf("pin 4096 bytes: %w", r)))
		if !errors.Is(err, r) {
			t.Errorf("errors.Is(%q, %s) = false, want true", err, r.Name())
		}
		if errors.Is(err, cu.ErrorUnknown) || errors.Is(err, cu.Success) {
			t.Errorf("%q matches another code", err)
		}
		if got, ok := errors.AsType[cu.Result](err); !ok || got != r {
			t.Errorf("errors.AsType of %q = %d, %t, want %d, true", err, uint32(got), ok, uint32(r))
		}
	}
}

// expand lists the numbers of runs.
func expand(runs [][2]int) []int {
	var all []int
	for _, run := range runs {
		for n := run[0]; n <= run[1]; n++ {
			all = append(all, n)
		}
	}
	return all
}

// checkName reports a constant with the wrong name: apart from case and underscores,
// both names must be the same after their prefixes.
func checkName(t *testing.T, goName, goPrefix, cudaName, cudaPrefix string) {
	t.Helper()
	stem, ok := strings.CutPrefix(cudaName, cudaPrefix)
	if !ok || strings.ToUpper(cudaName) != cudaName {
		t.Errorf("%s is named %q, want upper case after %q", goName, cudaName, cudaPrefix)
	}
	if got := goPrefix + strings.ReplaceAll(stem, "_", ""); !strings.EqualFold(got, goName) {
		t.Errorf("%s is named %q", goName, cudaName)
	}
}

// constantsOf reads the constants of a type from a source file of this package. The
// map has their values by name.
func constantsOf(t *testing.T, file, typeName string) map[string]int {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	constants := make(map[string]int)
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); !ok || id.Name != typeName {
			return true
		}
		lit, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			t.Fatalf("%s is not a plain number", spec.Names[0].Name)
		}
		value, err := strconv.Atoi(lit.Value)
		if err != nil {
			t.Fatalf("%s: %v", spec.Names[0].Name, err)
		}
		constants[spec.Names[0].Name] = value
		return true
	})
	return constants
}
