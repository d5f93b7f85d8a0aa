package doctor

import (
	"testing"

	"github.com/ferrygpu/ferry/internal/dl"
	"github.com/ferrygpu/ferry/internal/dl/dltest"
)

// TestNextNVML: an NVML that does not start hides none that does.
func TestNextNVML(t *testing.T) {
	if !dl.Supported {
		t.Skip(dl.ErrPlatform)
	}
	bad, good := t.TempDir(), t.TempDir()
	(&dltest.Library{Functions: []dltest.Function{{Name: "nvmlInit_v2", Result: nvmlVersionMismatch}}}).Write(t, bad, "libnvidia-ml.so.1")
	(&dltest.Library{Functions: []dltest.Function{{Name: "nvmlInit_v2"}, {Name: "nvmlSystemGetDriverVersion", Result: 42}}}).Write(t, good, "libnvidia-ml.so.1")
	t.Setenv("LD_LIBRARY_PATH", bad+":"+good)
	m, err := OpenNVML()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Driver(); err == nil || err.Error() != "nvmlSystemGetDriverVersion: NVML error 42" {
		t.Errorf("got %v, want that of the second library", err)
	}
}
