package inputfile

import (
	"errors"
	"fmt"
	"io/fs"
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

// TestReadNames: an error has the whole path in its text, quoted, and the path as it is for programs.
func TestReadNames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 200))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Skip(err)
	}
	path := filepath.Join(dir, "x\u202e")
	_, err := Read(path, 5)
	e, ok := errors.AsType[*fs.PathError](err)
	if !ok || e.Path != path || !strings.Contains(err.Error(), filepath.Join(dir, `x\u202e`)+": ") {
		t.Errorf("no file: %q has the path %q", fmt.Sprint(err), e.Path)
	}
	if err := os.WriteFile(path, []byte("123456"), 0o600); err != nil {
		t.Skip(err)
	}
	if _, err := Read(path, 5); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, `x\u202e`)+": ") {
		t.Errorf("too long: %q", err)
	}
}
