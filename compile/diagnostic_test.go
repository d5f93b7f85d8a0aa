package compile

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestReadText: a diagnostic may name any file, by #line. Files that are too long are not
// read, also if the system says that they have size 0.
func TestReadText(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(file, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	for most, want := range map[int64]string{4: "", 5: "12345"} {
		if got := readText(file, most); got != want {
			t.Errorf("at most %d bytes: got %q, want %q", most, got, want)
		}
	}
	if got := readText(os.DevNull, 5) + readText(filepath.Dir(file), 5) + readText(file+"y", 5); got != "" {
		t.Errorf("a device, a directory and no file: got %q", got)
	}
	if runtime.GOOS != "linux" {
		return
	}
	const endless = "/proc/self/status" // as /proc/self/pagemap, which is too long to read when this test fails
	if info, err := os.Stat(endless); err != nil || info.Size() != 0 {
		t.Skipf("%v, %v: want a file of size 0", info, err)
	}
	if got := readText(endless, 100); got != "" {
		t.Errorf("%s: read %d bytes, more than 100", endless, len(got))
	}
	if got := readText(endless, 1<<20); len(got) < 100 {
		t.Errorf("%s: read %d bytes", endless, len(got))
	}
}

// TestDiagnosticNamesFile: a message names a file with its whole path, as editors read it.
func TestDiagnosticNamesFile(t *testing.T) {
	path := strings.Repeat("/dir", 100) + "/x.cu"
	d := Diagnostic{File: path, Line: 2, Column: 6, Severity: severityError, Message: "wrong"}
	if got := d.String(); got != path+":2:6: error: wrong" {
		t.Errorf("got %s", got)
	}
	if err := (&Error{File: path, Compiler: "clang", Diagnostics: []Diagnostic{d}}).Error(); !strings.HasPrefix(err, "compile "+path+": 1 error") {
		t.Errorf("got %s", err)
	}
}
