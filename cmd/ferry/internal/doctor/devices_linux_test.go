package doctor

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"
)

// TestOpenDeviceWithoutDriver opens the file of a device that no driver serves.
func TestOpenDeviceWithoutDriver(t *testing.T) {
	name := filepath.Join(t.TempDir(), "nvidia-uvm")
	const major = 400 // of the range that Linux gives on demand, from its end
	if err := syscall.Mknod(name, syscall.S_IFCHR|0o666, major<<8); err != nil {
		t.Skipf("this process may not make device files: %v", err)
	}
	err := openDevice(name)
	if err == nil {
		t.Skip("a driver serves the number")
	}
	if !errors.Is(err, syscall.ENXIO) && !errors.Is(err, syscall.EACCES) && !errors.Is(err, syscall.EPERM) {
		t.Errorf("error %v, want ENXIO, or EACCES or EPERM where devices are refused", err)
	}
	t.Log(err)
}
