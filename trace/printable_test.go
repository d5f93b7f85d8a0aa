package trace

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/printable"
)

// obeyed has an escape sequence and a mark that turns letters.
const obeyed = "\x1b[2J\u202e"

// broken is a file that cannot be written, with a name that a terminal obeys.
type broken struct{}

func (broken) Write([]byte) (int, error)          { return 0, errors.New("write " + obeyed + ": full") }
func (broken) WriteAt([]byte, int64) (int, error) { return 0, nil }
func (broken) Truncate(int64) error               { return nil }
func (broken) Close() error                       { return nil }

// TestPathsArePrintable: what a recorder says about its path, and errors about one, have nothing
// that a terminal obeys.
func TestPathsArePrintable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), obeyed)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Skipf("no such names here: %v", err)
	}
	path := filepath.Join(dir, "t.json")
	said := stderrOf(t, func() {
		first, err := Start(&Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		second, err := Start(&Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(first.Close(), second.Close()); err != nil {
			t.Error(err)
		}
		r := newRecorder(&Options{Path: path})
		r.file = broken{}
		_, err = r.file.Write(nil)
		r.fail(err)
	})
	if !printable.Is(said) || strings.Count(said, printable.Line(obeyed)) != 3 {
		t.Errorf("a recorder says %q", said)
	}
	ResetEnvironment()
	_, none := startEnvironment(filepath.Join(dir, "no", "t.json"))
	_, absent := ReadFile(filepath.Join(dir, "absent.json"))
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, bad := ReadFile(path)
	for _, err := range []error{none, absent, bad} {
		if err == nil || !printable.Is(err.Error()) || !strings.Contains(err.Error(), printable.Line(obeyed)) {
			t.Errorf("got %q", err)
		}
	}
	if !errors.Is(absent, os.ErrNotExist) {
		t.Errorf("got %v", absent)
	}
}

// stderrOf returns what a function writes to standard error.
func stderrOf(t *testing.T, do func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	was := os.Stderr
	os.Stderr = w
	defer func() { os.Stderr = was }()
	do()
	w.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
