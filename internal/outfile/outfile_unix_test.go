//go:build unix

package outfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// childVariable makes this program one that writes a file, with little room.
const childVariable = "FERRY_TEST_OUTFILE"

// room is the size of the largest file in the child.
const room = 4096

// TestFullDisk: a disk that is full leaves the old files, and nothing else. A limit on the size
// of files stands for the disk: a write past it returns an error as well.
func TestFullDisk(t *testing.T) {
	if dir := os.Getenv(childVariable); dir != "" {
		signal.Ignore(syscall.SIGXFSZ)
		fmt.Println(writeTooMuch(dir))
		os.Exit(0)
	}
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c", "d"} {
		put(t, filepath.Join(dir, name), "old "+name)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestFullDisk$")
	cmd.Env = append(os.Environ(), childVariable+"="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), "file too large") != 4 {
		t.Errorf("%v, want four errors\n%s", err, out)
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		has(t, filepath.Join(dir, name), "old "+name)
		if !strings.Contains(string(out), "write "+filepath.Join(dir, name)+": file too large") && name != "b" {
			t.Errorf("no error of %s:\n%s", name, out)
		}
	}
	only(t, dir, "a", "b", "c", "d")
}

// writeTooMuch writes more than there is room for, in each way.
func writeTooMuch(dir string) error {
	limit := unix.Rlimit{Cur: room, Max: room}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	path := func(name string) string { return filepath.Join(dir, name) }
	much := bytes.Repeat([]byte("x"), room+1)
	f, err := Create(path("d"))
	for range 3 {
		_, wrong := f.Write(much[:room/2])
		err = errors.Join(err, wrong)
	}
	f.Discard()
	g, wrong := Begin(path("c"))
	_, wrote := g.Write(much)
	g.Drop()
	return errors.Join(err, wrong, wrote, Write(path("a"), much), WriteAll(Contents{path("b"), []byte("new")}, Contents{path("a"), much}))
}

// TestNoRegularFile: a named pipe and a socket are refused, and stay. Nothing waits for them.
func TestNoRegularFile(t *testing.T) {
	dir := t.TempDir()
	pipe, socket := filepath.Join(dir, "pipe"), filepath.Join(dir, "socket")
	if err := errors.Join(unix.Mkfifo(pipe, 0o600), listen(socket)); err != nil {
		t.Skip(err)
	}
	for path, want := range map[string]string{pipe: "is a named pipe", socket: "is a socket", "/dev/zero": "is a device", "/dev/tty": "is a device"} {
		for name, err := range map[string]error{"Check": Check(path), "Write": Write(path, []byte("x")), "Append": Append(path, []byte("x"))} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s(%s) returns %v, want %q", name, path, err, want)
			}
		}
	}
	only(t, dir, "pipe", "socket")
}

// listen makes a socket with a name.
func listen(path string) error {
	s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	return unix.Bind(s, &unix.SockaddrUnix{Name: path})
}

// TestDescriptors: a name of an open descriptor is written as it is: a pipe, and a file at its
// place. It stays open.
func TestDescriptors(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	_, _ = file.WriteString("before, ")
	for _, f := range []*os.File{w, file} {
		for _, dir := range []string{"/dev/fd", "/proc/self/fd"} {
			if _, err := os.Stat(dir); err != nil {
				continue
			}
			path := fmt.Sprintf("%s/%d", dir, f.Fd())
			if err := Write(path, []byte("x")); err != nil {
				t.Errorf("write %s: %v", path, err)
			}
			if !Same(path, path) {
				t.Errorf("%s is not the same as itself", path)
			}
		}
		_, err := f.WriteString(", after")
		if err != nil {
			t.Errorf("the descriptor is closed: %v", err)
		}
	}
	w.Close()
	if text, err := io.ReadAll(r); err != nil || strings.Trim(string(text), "x") != ", after" || len(text) < 8 {
		t.Errorf("the pipe has %q, %v", text, err)
	}
	if text, err := os.ReadFile(file.Name()); err != nil || !strings.HasPrefix(string(text), "before, x") || !strings.HasSuffix(string(text), "x, after") {
		t.Errorf("the file has %q, %v", text, err)
	}
	for path, want := range map[string]string{fmt.Sprintf("/dev/fd/%d", r.Fd()): "open for reading alone", "/dev/fd/987": "not open"} {
		if err := Check(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Check(%s) returns %v, want %q", path, err, want)
		}
	}
}

// TestGrowingDescriptor: of a descriptor that grows, what others have written stays.
func TestGrowingDescriptor(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	_, _ = file.WriteString("before, ")
	g, err := Begin(fmt.Sprintf("/dev/fd/%d", file.Fd()))
	if err != nil {
		t.Skip(err)
	}
	defer g.Drop()
	if _, err := g.Write([]byte("new")); err != nil {
		t.Error(err)
	}
	if _, err := g.WriteAt([]byte("other"), 0); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("WriteAt returns %v", err)
	}
	if err := g.Truncate(3); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Truncate returns %v", err)
	}
	has(t, file.Name(), "before, new")
}

// TestNewMode: a new file has the permissions that the user's mask leaves.
func TestNewMode(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	path := filepath.Join(t.TempDir(), "file")
	if err := Write(path, nil); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// TestOwner: the owner of a file stays.
func TestOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can change an owner")
	}
	path := put(t, filepath.Join(t.TempDir(), "file"), "old")
	if err := os.Chown(path, 12345, 23456); err != nil {
		t.Skip(err)
	}
	if err := Write(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if s := info.Sys().(*syscall.Stat_t); err != nil || s.Uid != 12345 || s.Gid != 23456 {
		t.Errorf("the owner is %d:%d, %v", s.Uid, s.Gid, err)
	}
}
