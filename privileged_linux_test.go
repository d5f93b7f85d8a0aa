package ferry_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/checks"
	"github.com/ferrygpu/ferry/internal/dl/dltest"
	"github.com/ferrygpu/ferry/internal/secureenv"
)

// TestPrivilegedProgram: a set-user-ID program loads no library and reads and writes no file that
// the environment of its user names. The same program without the bit does. LD_LIBRARY_PATH is
// set, because the system's loader then hides from Go that the program is privileged.
func TestPrivilegedProgram(t *testing.T) {
	if os.Getenv("FERRY_PRIVILEGED_CHILD") != "" {
		privilegedChild(t)
	}
	if os.Getuid() != 0 {
		t.Skip("only root can give a file to another user")
	}
	dir := t.TempDir()
	check(t, os.Chmod(dir, 0o777))
	program := filepath.Join(dir, "program")
	check(t, os.WriteFile(program, must(os.ReadFile(must(os.Executable())(t)))(t), 0o755))
	const nobody = 65534
	check(t, os.Chown(program, nobody, -1))
	machine := filepath.Join(dir, "mine.json")
	check(t, os.WriteFile(machine, must(os.ReadFile("profile/fermi-c2050.json"))(t), 0o644))
	library := dltest.Failing(34).Write(t, dir, "libcuda.so.1")
	for _, c := range []struct {
		mode       os.FileMode
		privileged bool
	}{{0o755, false}, {0o755 | os.ModeSetuid, true}} {
		check(t, os.Chmod(program, c.mode))
		for device, want := range map[string]string{"soft:" + machine: "fermi-c2050", "": "h200"} {
			trace, report := filepath.Join(dir, "trace"), filepath.Join(dir, "report")
			cmd := exec.Command(program, "-test.run=^TestPrivilegedProgram$")
			cmd.Env = append(os.Environ(), "FERRY_PRIVILEGED_CHILD=1", "FERRY_LIBCUDA="+library, "FERRY_DEVICE="+device,
				"FERRY_TRACE="+trace, "FERRY_CHECK_REPORT="+report, "FERRY_QUIET=1", "LD_LIBRARY_PATH=/nowhere")
			cmd.Dir = "/"
			out, err := cmd.CombinedOutput()
			text := string(out)
			if err == nil && c.privileged && strings.HasPrefix(text, "false same") {
				t.Skip("set-user-ID has no effect on this file system")
			}
			if c.privileged && strings.Contains(text, " hardware ") {
				continue // the machine's own driver works
			}
			if c.privileged {
				want = "h200"
			}
			if err != nil || !strings.HasPrefix(text, fmt.Sprintf("%t ", c.privileged)) || !strings.Contains(text, " "+want+" ") {
				t.Fatalf("privileged %t, device %q: %v, %swant %s", c.privileged, device, err, text, want)
			}
			if device == "" && strings.Contains(text, "CUDA_ERROR_STUB_LIBRARY") == c.privileged {
				t.Errorf("privileged %t: the library of FERRY_LIBCUDA: %s", c.privileged, text)
			}
			for _, file := range []string{trace, report} {
				if _, err := os.Stat(file); (err == nil) == c.privileged {
					t.Errorf("privileged %t, device %q: %s: %v", c.privileged, device, filepath.Base(file), err)
				}
				_ = os.Remove(file)
			}
		}
	}
}

// privilegedChild opens a device and prints what the environment did.
func privilegedChild(t *testing.T) {
	users := "same"
	if os.Getuid() != os.Geteuid() {
		users = "other"
	}
	g := must(ferry.Open(""))(t)
	checks.Append(checks.Row{})
	profile := g.Profile()
	if !g.Emulated() {
		profile = "hardware"
	}
	fmt.Println(secureenv.Privileged(), users, profile, g.Fallback())
	check(t, g.Close())
	os.Exit(0)
}
