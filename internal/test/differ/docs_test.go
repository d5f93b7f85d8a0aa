package differ

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const docsFile = "../../../docs/softgpu/differential.md"

// TestDocs compares the tables in the documentation with the cases and the record. With
// -update it rewrites them.
func TestDocs(t *testing.T) {
	if testing.Short() {
		t.Skip("the table has all targets")
	}
	b, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	var record Record
	if err := ReadJSON(recordFile, &record); err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for name, table := range map[string]string{"kernels": kernelTable(t), "bounds": boundTable(&record)} {
		begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n"
		before, rest, ok := strings.Cut(text, begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("%s lacks the comments that mark the table of %s", docsFile, name)
		}
		text = before + begin + table + end + after
	}
	if text == string(b) {
		return
	}
	if !*update {
		t.Fatalf("the tables of %s are out of date: go test -run TestDocs ./internal/test/differ -update", docsFile)
	}
	if err := os.WriteFile(docsFile, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// kernelTable returns a table with a row for each family.
func kernelTable(t *testing.T) string {
	var s strings.Builder
	kernels := 0
	s.WriteString("| family | kernels | targets |\n|---|---|---|\n")
	for _, family := range Families() {
		var names []string
		for _, c := range CasesOf(family) {
			name := c.Kernel
			if _, ok := references[name]; ok {
				name += "*"
			}
			names = append(names, name)
		}
		kernels += len(names)
		fmt.Fprintf(&s, "| %s | %s | %s |\n", family, strings.Join(names, ", "), strings.Join(targets(t, family), ", "))
	}
	fmt.Fprintf(&s, "\n%d kernels in %d families.\n", kernels, len(Families()))
	return s.String()
}

// boundTable returns a table with a row for each kernel with a bound.
func boundTable(record *Record) string {
	var s strings.Builder
	s.WriteString("| kernel | targets | allowed difference | why |\n|---|---|---|---|\n")
	for i := range Cases {
		c := &Cases[i]
		if c.Bound.Exact() {
			continue
		}
		var targets []string
		for _, r := range record.Results {
			if r.Kernel == c.Kernel {
				targets = append(targets, r.Target)
			}
		}
		fmt.Fprintf(&s, "| %s | %s | %v | %s |\n", c.Kernel, strings.Join(targets, ", "), c.Bound.Abs, c.Bound.Why)
	}
	return s.String()
}
