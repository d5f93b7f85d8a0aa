package checkpoint

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestPage: docs/checkpoints.md has the code of the example, all options, and all types with their
// blocks.
func TestPage(t *testing.T) {
	data, err := os.ReadFile("../docs/checkpoints.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(page, "```go\n")
	code, _, _ = strings.Cut(code, "```")
	for _, line := range strings.Split(strings.TrimSpace(code), "\n") {
		if !strings.Contains(string(example), strings.TrimSpace(line)) {
			t.Errorf("the example lacks the line %s", line)
		}
	}
	for f := range reflect.TypeFor[Options]().Fields() {
		if !strings.Contains(page, "`"+f.Name+"`") {
			t.Errorf("the page lacks the option %s", f.Name)
		}
	}
	rows := 0
	for d := NoDType + 1; d < dtypes; d++ {
		a := aboutTypes[d]
		in := a.kind.String()
		if a.kind == 0 {
			in = fmt.Sprintf("[%d]uint8", a.bytes)
		}
		if row := fmt.Sprintf("| %v | %d | %d | %s |\n", d, a.elements, a.bytes, in); !strings.Contains(page, row) {
			t.Errorf("the page lacks the row %s", row)
		}
		rows++
	}
	if rows != 49 {
		t.Errorf("%d types, want 49", rows)
	}
}
