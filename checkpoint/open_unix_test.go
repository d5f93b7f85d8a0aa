//go:build unix

package checkpoint_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ferrygpu/ferry/checkpoint"
)

// TestNamedPipe demands that a named pipe is refused, and that nobody waits for its writer.
func TestNamedPipe(t *testing.T) {
	dir := folder(t, map[string][]byte{"m.safetensors.index.json": []byte(`{"weight_map":{"a":"pipe"}}`)})
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	wrong(t, "pipe is no regular file, but a named pipe", pipe)
	wrong(t, "pipe is no regular file, but a named pipe", dir)
	if err := os.Symlink(pipe, filepath.Join(dir, "x.json")); err != nil {
		t.Fatal(err)
	}
	wrong(t, "x.json is no regular file, but a named pipe", filepath.Join(dir, "x.json"))
}

// TestReplaced demands that a checkpoint has the bytes of the file that was opened, whatever takes
// its place.
func TestReplaced(t *testing.T) {
	want := tensor{"a", checkpoint.U8, []int64{3}, []byte{1, 2, 3}}
	path := write(t, "a.safetensors", safetensorsOf(nil, want))
	c := open(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, safetensorsOf(nil, tensor{"a", checkpoint.U8, []int64{3}, []byte{7, 8, 9}}), 0o600); err != nil {
		t.Fatal(err)
	}
	loaded(t, load(t, stream(t, 0), c, nil), []tensor{want})
}
