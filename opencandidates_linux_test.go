//go:build (amd64 || arm64) && !android && !faketime

package ferry_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/dl/dltest"
	"github.com/ferrygpu/ferry/profile"
)

// TestBrokenDriver: a driver that is there and does not work is an error of Devices and a reason
// in the line of the fallback. A machine without one, or without a device, has neither.
func TestBrokenDriver(t *testing.T) {
	if os.Getenv("FERRY_BROKEN_CHILD") != "" {
		g := must(ferry.Open(""))(t)
		all, err := ferry.Devices()
		fmt.Printf("%s, %d listed, %v\n", g, len(all), err)
		closeAll(t, g)
		os.Exit(0)
	}
	for _, c := range []struct {
		what        string
		plant       func(dir string)
		err, reason string // parts, or "" for none
	}{
		{"nothing", func(string) {}, "", ""},
		{"stub", func(dir string) { dltest.Failing(34).Write(t, dir, "libcuda.so.1") }, "", "CUDA_ERROR_STUB_LIBRARY"}, // it is no driver
		{"broken file", func(dir string) {
			check(t, os.WriteFile(filepath.Join(dir, "libcuda.so.1"), []byte(strings.Repeat("text", 100)), 0o755))
		}, "invalid ELF header", "invalid ELF header"},
		{"no device", func(dir string) { dltest.Failing(100).Write(t, dir, "libcuda.so.1") }, "", "CUDA_ERROR_NO_DEVICE"},
		{"starts, and has no device", func(dir string) { dltest.Driver(13000).Write(t, dir, "libcuda.so.1") }, "", "CUDA_ERROR_NO_DEVICE"},
		{"device cannot be described", func(dir string) {
			(&dltest.Library{Functions: []dltest.Function{{Name: "cuInit"}, {Name: "cuDriverGetVersion", Stores: []int32{13000}},
				{Name: "cuDeviceGetCount", Stores: []int32{1}}, {Name: "cuDeviceGet", Result: 999}}}).Write(t, dir, "libcuda.so.1")
		}, "describe cuda:0: CUDA_ERROR_UNKNOWN", "CUDA_ERROR_UNKNOWN"},
	} {
		t.Run(c.what, func(t *testing.T) {
			dir := t.TempDir()
			c.plant(dir)
			cmd := exec.Command(os.Args[0], "-test.run=^TestBrokenDriver$")
			cmd.Env = append(os.Environ(), "FERRY_BROKEN_CHILD=1", "FERRY_LIBCUDA=", "FERRY_DEVICE=", "FERRY_QUIET=", "LD_LIBRARY_PATH="+dir)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			text := string(must(cmd.Output())(t))
			if strings.HasPrefix(text, "cuda:") {
				t.Skip("the machine's own driver works")
			}
			if none := strings.HasSuffix(text, "<nil>\n"); none != (c.err == "") || !strings.Contains(text, c.err) ||
				!strings.Contains(text, fmt.Sprintf("%d listed", len(profile.Names()))) {
				t.Errorf("Devices: %swant %q", text, c.err)
			}
			if got := stderr.String(); !strings.Contains(got, c.reason) || c.reason == "" && got != fallbackHint("") || strings.Count(got, "\n") != 1 {
				t.Errorf("standard error is %q, want %q", got, c.reason)
			}
		})
	}
}
