package ferry_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestDependencies: only libcuda needs purego, and only where that can load a
// library.
func TestDependencies(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command here")
	}
	pure := []string{"./cu", "./ptx", "./profile", "./kernels", "./softgpu"}
	for _, c := range []struct {
		goos, goarch string
		packages     []string
	}{
		{"js", "wasm", append([]string{"."}, pure...)},
		{"darwin", "arm64", append([]string{"."}, pure...)},
		{"windows", "amd64", append([]string{"."}, pure...)},
		{"linux", "amd64", pure},
		{"linux", "arm64", pure},
	} {
		cmd := exec.Command("go", append([]string{"list", "-deps"}, c.packages...)...)
		cmd.Env = append(os.Environ(), "GOOS="+c.goos, "GOARCH="+c.goarch, "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s/%s: %v: %s", c.goos, c.goarch, err, out)
			continue
		}
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "purego") {
				t.Errorf("%s/%s: %v depend on %s", c.goos, c.goarch, c.packages, line)
			}
		}
	}
}
