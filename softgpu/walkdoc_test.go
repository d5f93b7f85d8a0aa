package softgpu

import (
	"os"
	"strings"
	"testing"
)

// TestTranslationDocumented looks whether the walks printed in the documentation
// are those that the examples check.
func TestTranslationDocumented(t *testing.T) {
	doc, err := os.ReadFile("../docs/softgpu/translation.md")
	if err != nil {
		t.Fatal(err)
	}
	walks := 0
	for _, name := range []string{"example_walk_test.go", "example_walk_unsafe_linux_test.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, output, _ := strings.Cut(string(text), "\t// Output:\n")
		output, _, _ = strings.Cut(output, "}\n")
		output = strings.ReplaceAll("\n"+output, "\n\t// ", "\n")
		for _, walk := range strings.Split(output, "\n") {
			if strings.Contains(walk, "device 0") || strings.HasPrefix(walk, "  ") {
				walks++
				if !strings.Contains(string(doc), "\n"+walk+"\n") {
					t.Errorf("%s prints a line that the documentation lacks: %s", name, walk)
				}
			}
		}
	}
	if walks < 40 {
		t.Errorf("%d lines compared, want those of four walks", walks)
	}
}
