package outfile

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// mountVariable makes TestMountedFile run in a namespace of its own, where it mounts a file at the
// path in the variable.
const mountVariable = "FERRY_TEST_MOUNT"

// TestMountedFile: a file that is mounted alone, as containers do it, is refused before anything is
// written, and keeps its contents. Its folder can be mounted.
func TestMountedFile(t *testing.T) {
	if path := os.Getenv(mountVariable); path != "" {
		underMount(t, path)
		return
	}
	path := filepath.Join(t.TempDir(), "out")
	for _, name := range []string{path, path + ".other"} {
		if err := os.WriteFile(name, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	own := func(id int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
	}
	child := exec.Command(os.Args[0], "-test.run=^TestMountedFile$", "-test.v")
	child.Env = append(os.Environ(), mountVariable+"="+path)
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: own(os.Getuid()), GidMappings: own(os.Getgid())}
	out, err := child.CombinedOutput()
	switch {
	case err != nil && len(out) == 0:
		t.Skipf("this system makes no namespace of mounts: %v", err)
	case err != nil || strings.Contains(string(out), "--- SKIP"):
		t.Errorf("%v\n%s", err, out)
	}
}

func underMount(t *testing.T, path string) {
	if err := unix.Mount(path+".other", path, "", unix.MS_BIND, ""); err != nil {
		t.Fatalf("mount: %v", err)
	}
	_, err := Create(path)
	if err == nil || !strings.Contains(err.Error(), "mounted here") {
		t.Errorf("Create: got %v", err)
	}
	if err := Check(path); err == nil || !strings.Contains(err.Error(), "mounted here") {
		t.Errorf("Check: got %v", err)
	}
	if left, _ := filepath.Glob(path + "*"); len(left) != 2 {
		t.Errorf("files are %q", left)
	}
	f, err := Create(path + ".next")
	if err == nil {
		err = f.Commit()
	}
	if err != nil {
		t.Error(err)
	}
	if err := Append(path, []byte(" and new")); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); string(text) != "old and new" {
		t.Errorf("got %q, %v", text, err)
	}
}
