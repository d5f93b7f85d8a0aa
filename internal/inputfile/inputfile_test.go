package inputfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(file, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	for most, ok := range map[int64]bool{4: false, 5: true, 6: true} {
		text, err := Read(file, most)
		if ok != (err == nil) || ok && string(text) != "12345" {
			t.Errorf("at most %d bytes: %q, %v", most, text, err)
		}
		if !ok && !strings.Contains(err.Error(), file) {
			t.Errorf("at most %d bytes: %v does not name the file", most, err)
		}
	}
	if _, err := Read(file+"y", 5); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
}

// TestReadEndless reads a device that never ends.
func TestReadEndless(t *testing.T) {
	if _, err := os.Stat("/dev/zero"); err != nil {
		t.Skip(err)
	}
	if text, err := Read("/dev/zero", 1<<20); err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes") {
		t.Errorf("read %d bytes, %v", len(text), err)
	}
}
