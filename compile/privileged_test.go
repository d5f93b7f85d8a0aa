package compile

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/internal/secureenv"
	"github.com/ferrygpu/ferry/internal/toolkit"
)

// TestPrivileged: a privileged program takes no compiler and no library from a place that the
// environment names, and gives a compiler none of its variables.
func TestPrivileged(t *testing.T) {
	home := t.TempDir()
	planted := []string{filepath.Join(home, "bin"), filepath.Join(home, "cuda"), filepath.Join(home, "venv")}
	for _, dir := range []string{planted[0], filepath.Join(planted[1], "lib64"),
		filepath.Join(planted[2], "lib", "python3.12", "site-packages", "nvidia", "cuda_nvrtc", "lib"),
		filepath.Join(home, ".local", "lib", "python3.12", "site-packages", "nvidia", "cuda_nvrtc", "lib")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]string{"PATH": planted[0], "CUDA_HOME": planted[1], "CUDA_PATH": planted[1],
		"VIRTUAL_ENV": planted[2], "CONDA_PREFIX": planted[2], "HOME": home, ClangVariable: filepath.Join(planted[0], "clang"),
		NVRTCVariable: filepath.Join(home, "libnvrtc.so"), JitLinkVariable: filepath.Join(home, "libnvJitLink.so")} {
		t.Setenv(name, value)
	}
	places := func() string {
		all := slices.Concat(searchDirs(), toolkit.Dirs("cuda_nvrtc"), environment(os.Environ()))
		for _, variable := range []string{ClangVariable, NVRTCVariable, JitLinkVariable} {
			all = append(all, secureenv.Get(variable))
		}
		_, err := findNVRTC()
		_, linker := findJitLink()
		for _, err := range []error{err, linker} {
			if err != nil {
				all = append(all, err.Error())
			}
		}
		return strings.Join(all, "\n")
	}
	if got := places(); strings.Count(got, home) < 10 && runtime.GOOS != "windows" {
		t.Errorf("an ordinary program: %s", got)
	}
	t.Cleanup(secureenv.Assume(true))
	if got := places(); strings.Contains(got, home) {
		t.Errorf("a privileged program: %s", got)
	}
}
