package cu_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// attributeNumbers has the values of CUdevice_attribute in the header of CUDA 13.0.
var attributeNumbers = [][2]int{{1, 147}}

func TestDeviceAttributes(t *testing.T) {
	want := expand(attributeNumbers)
	constants := constantsOf(t, "attribute.go", "DeviceAttribute")
	if got := slices.Sorted(maps.Values(constants)); !slices.Equal(got, want) {
		t.Errorf("the constants have the numbers %d, want %d", got, want)
	}
	var got []int
	for _, a := range cu.DeviceAttributes() {
		got = append(got, int(a))
	}
	if !slices.Equal(got, want) {
		t.Errorf("DeviceAttributes() = %d, want %d", got, want)
	}
}

func TestDeviceAttributesAreCopied(t *testing.T) {
	first := cu.DeviceAttributes()
	want := first[0]
	first[0] = -1
	if got := cu.DeviceAttributes()[0]; got != want {
		t.Errorf("after a write to an earlier slice, DeviceAttributes()[0] = %d, want %d", got, want)
	}
}

func TestDeviceAttributeString(t *testing.T) {
	seen := make(map[string]string)
	for goName, number := range constantsOf(t, "attribute.go", "DeviceAttribute") {
		name := cu.DeviceAttribute(number).String()
		checkName(t, goName, "DeviceAttribute", name, "CU_DEVICE_ATTRIBUTE_")
		if other, ok := seen[name]; ok {
			t.Errorf("%s and %s are both named %s", goName, other, name)
		}
		seen[name] = goName
	}
	for _, number := range []int32{-1 << 31, -1, 0, 148, 12345, 1<<31 - 1} {
		got, want := cu.DeviceAttribute(number).String(), fmt.Sprintf("CU_DEVICE_ATTRIBUTE_%d", number)
		if got != want {
			t.Errorf("DeviceAttribute(%d).String() = %q, want %q", number, got, want)
		}
	}
}

// TestDeviceAttributeComments demands CUDA's name in the comment of each constant, so
// that a search for the name finds the constant.
func TestDeviceAttributeComments(t *testing.T) {
	constants := constantsOf(t, "attribute.go", "DeviceAttribute")
	parsed, err := parser.ParseFile(token.NewFileSet(), "attribute.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		number, ok := constants[spec.Names[0].Name]
		if !ok {
			return true
		}
		checked++
		text, ok := strings.CutPrefix(spec.Doc.Text(), cu.DeviceAttribute(number).String()+": ")
		if !ok || strings.TrimSpace(text) == "" {
			t.Errorf("%s has the comment %q, want CUDA's name, a colon and a description", spec.Names[0].Name, spec.Doc.Text())
		}
		return true
	})
	if checked != len(constants) {
		t.Errorf("checked %d comments, want %d", checked, len(constants))
	}
}
