package secureenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestVector: the kernel's word decides. Without it the numbers of the user do.
func TestVector(t *testing.T) {
	for _, c := range []struct {
		vector [][2]uintptr
		want   bool
	}{
		{[][2]uintptr{{6, 4096}, {atSecureKey, 1}, {31, 7}}, true},
		{[][2]uintptr{{6, 1}, {atSecureKey, 0}, {31, 1}}, false},
		{[][2]uintptr{{6, 4096}}, withoutVector()},
		{nil, withoutVector()},
	} {
		if got := secureIn(c.vector); got != c.want {
			t.Errorf("%v: %t", c.vector, got)
		}
	}
	vector, err := unix.Auxv()
	if err != nil {
		t.Fatal(err)
	}
	has := false
	for _, entry := range vector {
		has = has || entry[0] == atSecureKey
	}
	if !has {
		t.Error("the vector of this process has no AT_SECURE")
	}
}

// childVariable makes a process print what it knows of itself.
const childVariable = "FERRY_SECURE_CHILD"

// nobody is a user without rights.
const nobody = 65534

// TestPrograms runs this program with more rights than its user: by set-user-ID, by set-group-ID
// and by file capabilities. Each knows that it is privileged, and so it does without the vector.
// A program without them is not privileged, for root and for others.
func TestPrograms(t *testing.T) {
	if os.Getenv(childVariable) != "" {
		_, err := unix.Auxv()
		fmt.Printf("privileged %t, without vector %t, vector %t\n", Privileged(), withoutVector(), err == nil)
		os.Exit(0)
	}
	if os.Getuid() != 0 {
		t.Skip("only root can give rights to a file")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what   string
		rights func(path string) error
		user   uint32 // who starts it
		want   bool
	}{
		{"nothing, root", func(string) error { return nil }, 0, false},
		{"nothing, a user", func(string) error { return nil }, nobody, false},
		{"set-user-ID, root", func(path string) error {
			return errors.Join(os.Chown(path, nobody, -1), os.Chmod(path, 0o755|os.ModeSetuid))
		}, 0, true},
		{"set-user-ID, a user", func(path string) error { return os.Chmod(path, 0o755|os.ModeSetuid) }, nobody, true},
		{"set-group-ID, a user", func(path string) error { return os.Chmod(path, 0o755|os.ModeSetgid) }, nobody, true},
		{"capabilities, a user", func(path string) error {
			// vfs_cap_data of version 2: effective, and CAP_NET_BIND_SERVICE permitted.
			data := []byte{1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
			return unix.Setxattr(path, "security.capability", data, 0)
		}, nobody, true},
	} {
		t.Run(c.what, func(t *testing.T) {
			program := filepath.Join(dir, strings.ReplaceAll(c.what, " ", "-"))
			if err := copyProgram(program); err != nil {
				t.Fatal(err)
			}
			if err := c.rights(program); err != nil {
				t.Skip(err)
			}
			cmd := exec.Command(program, "-test.run=^TestPrograms$")
			cmd.Env, cmd.Dir = []string{childVariable + "=1", "LD_LIBRARY_PATH=/nowhere"}, "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.user, Gid: c.user}}
			out, err := cmd.CombinedOutput()
			if want := fmt.Sprintf("privileged %t, without vector %t,", c.want, c.want); err != nil || !strings.HasPrefix(string(out), want) {
				t.Errorf("%v, %swant %s", err, out, want)
			}
		})
	}
}

// copyProgram copies this program.
func copyProgram(to string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o755)
}
