package outfile

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// nobody is a user without rights.
const nobody = 65534

// TestNotWritable: a file that the user may not write is refused, although its folder would let
// the user replace it. So is a folder that lets no file be written beside.
func TestNotWritable(t *testing.T) {
	dir := t.TempDir()
	file, open, closed := filepath.Join(dir, "file"), filepath.Join(dir, "open"), filepath.Join(dir, "closed")
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o777), os.Mkdir(closed, 0o755)); err != nil {
		t.Fatal(err)
	}
	put(t, file, "old")
	if err := errors.Join(os.Chmod(file, 0o444), os.Chmod(put(t, open, "old"), 0o666), os.Chmod(put(t, filepath.Join(closed, "x"), "old"), 0o666), os.Chmod(closed, 0o555)); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		runtime.LockOSThread() // the rights are those of this thread
		defer runtime.UnlockOSThread()
		defer unix.Setfsuid(0)
		if err := unix.Setfsuid(nobody); err != nil {
			t.Skip(err)
		}
	}
	for path, want := range map[string]string{
		file: "write " + file + ": permission denied", open: "",
		filepath.Join(closed, "x"):   "its folder refuses a new file: permission denied",
		filepath.Join(closed, "new"): "its folder refuses a new file: permission denied",
	} {
		if err := Check(path); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if err := Write(open, []byte("new")); err != nil {
		t.Error(err)
	}
	has(t, open, "new")
	has(t, file, "old")
}
