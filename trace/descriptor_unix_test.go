//go:build unix

package trace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// startOn starts a recording that is written to the descriptor of a file.
func startOn(t *testing.T, f *os.File) *Recorder {
	t.Helper()
	r, err := Start(&Options{Path: fmt.Sprintf("/dev/fd/%d", f.Fd()), Limit: 3 * headerBytes})
	if err != nil {
		t.Skip(err)
	}
	return r
}

// TestDescriptorIsAppended: a recording on a descriptor that has reached its limit leaves what
// others have written before it.
func TestDescriptorIsAppended(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	before := strings.Repeat("before\n", 500)
	_, _ = f.WriteString(before)
	r := startOn(t, f)
	fill(r, 1000)
	if err := r.Close(); err == nil || !strings.Contains(err.Error(), "the limit of 3072 bytes") {
		t.Errorf("Close returns %v", err)
	}
	if text, err := os.ReadFile(f.Name()); err != nil || !strings.HasPrefix(string(text), before+`{"schema"`) {
		t.Errorf("the file begins with %.40q, %v", text, err)
	}
}

// TestNotBegun: a recording whose first line cannot be written has no path, and Close and Flush
// say why.
func TestNotBegun(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	in.Close()
	r := startOn(t, out)
	fill(r, 3)
	if path := r.Path(); path != "" {
		t.Errorf("the path is %s", path)
	}
	for name, err := range map[string]error{"Flush": r.Flush(), "Close": r.Close()} {
		if err == nil || !strings.Contains(err.Error(), "nothing was recorded") || !strings.Contains(err.Error(), "broken pipe") {
			t.Errorf("%s returns %v", name, err)
		}
	}
}
