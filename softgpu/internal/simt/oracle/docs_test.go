package oracle

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/softgpu/internal/ptxforms"
)

const page = "../../../../docs/softgpu/instructions.md"

// TestDocs compares the tables of the page on instructions with the code. With
// -update it writes the tables.
func TestDocs(t *testing.T) {
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	tables := map[string]string{"families": familyTable(t), "compared": comparedTable(t), "refused": refusalTable()}
	for name, want := range tables {
		start, end := "<!-- "+name+" -->\n", "<!-- end -->"
		before, rest, ok := strings.Cut(text, start)
		got, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("%s: no table %s", page, name)
		}
		if got != want && !*update {
			t.Errorf("%s: table %s differs from the code; go test ./softgpu/internal/simt/oracle -run TestDocs -update writes it", page, name)
		}
		text = before + start + want + end + after
	}
	if *update {
		if err := os.WriteFile(page, []byte(text), 0o666); err != nil {
			t.Error(err)
		}
	}
}

// familyTable counts the forms of each family, and what they are compared with.
func familyTable(t *testing.T) string {
	hashes := readGoldens(t, "hashes.txt")
	var s strings.Builder
	s.WriteString("| family | operations | forms | as an H200 | exact arithmetic | approximate |\n|---|---|---|---|---|---|\n")
	for _, family := range ptxforms.Families() {
		var ops []string
		recorded, exactly, approximately := 0, 0, 0
		for _, text := range family.Forms {
			f := parseForm(text)
			if !slices.Contains(ops, f.op) {
				ops = append(ops, f.op)
			}
			h := hashes[text]
			recorded += bit(h != "" && h != refusedByCompiler && !isApproximate(f))
			exactly += bit(exactFor(f) != nil)
			approximately += bit(isApproximate(f))
		}
		fmt.Fprintf(&s, "| %s | %s | %d | %d | %d | %d |\n", family.Name, strings.Join(ops, " "), len(family.Forms), recorded, exactly, approximately)
	}
	return s.String()
}

// compared is the record that TestHardware of softgpu/internal/sfu writes.
const compared = "../../../../docs/results/sfu-h200.json"

// comparedTable returns how many results of the approximate forms differ from the GPU.
func comparedTable(t *testing.T) string {
	text, err := os.ReadFile(compared)
	var record struct {
		Forms []struct {
			Form              string
			Inputs, Different uint64
			ULP               uint32
		}
	}
	if err == nil {
		err = json.Unmarshal(text, &record)
	}
	if err != nil {
		t.Fatal(err)
	}
	forms := map[string][]string{} // by the other columns
	var order []string
	for _, f := range record.Forms {
		row := fmt.Sprintf("%d | %d | %d", f.Inputs, f.Different, f.ULP)
		if forms[row] == nil {
			order = append(order, row)
		}
		forms[row] = append(forms[row], f.Form)
	}
	var s strings.Builder
	s.WriteString("| forms | operands of each | results that differ | largest difference, ulp |\n|---|---|---|---|\n")
	for _, row := range order {
		fmt.Fprintf(&s, "| `%s` | %s |\n", strings.Join(forms[row], " "), row)
	}
	return s.String()
}

func refusalTable() string {
	var s strings.Builder
	s.WriteString("| operations | reason |\n|---|---|\n")
	for _, r := range ptxforms.Refused {
		fmt.Fprintf(&s, "| %s | %s |\n", strings.Join(r.Ops, " "), r.Reason)
	}
	return s.String()
}
