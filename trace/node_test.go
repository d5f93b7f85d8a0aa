package trace

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPCINode: the node of a device is a file below its PCI address in lower case. -1
// there means that the firmware does not say.
func TestPCINode(t *testing.T) {
	dir := t.TempDir() + "/"
	for name, text := range map[string]string{"0000:3b:00.0": "1\n", "0000:5e:00.0": "-1\n", "0000:86:00.0": "?\n"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "numa_node"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for address, want := range map[string]int{"0000:3B:00.0": 1, "0000:5e:00.0": NoNode, "0000:86:00.0": NoNode, "0000:01:00.0": NoNode} {
		if got := pciNode(dir, address); got != want {
			t.Errorf("%s: node %d, want %d", address, got, want)
		}
	}
}
