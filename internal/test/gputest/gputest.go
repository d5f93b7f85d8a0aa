// Package gputest opens the GPU of the machine for tests, or skips them where there
// is none. With FERRY_REQUIRE_GPU=1 in the environment such a skip is a failure. So a
// machine with a GPU proves that its tests ran.
package gputest

import (
	"os"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/libcuda"
)

// RequireVariable is the environment variable that turns skips into failures.
const RequireVariable = "FERRY_REQUIRE_GPU"

// Driver opens and starts the machine's driver, which has at least one device.
func Driver(t testing.TB) *libcuda.Driver {
	t.Helper()
	d, err := libcuda.Open()
	if err != nil {
		Skip(t, err)
	}
	if err := d.Init(0); err != nil {
		Skip(t, err)
	}
	if count, err := d.DeviceGetCount(); err != nil || count == 0 {
		Skip(t, "the driver has no device:", err)
	}
	return d
}

// Devices returns the first n devices, or skips the test.
func Devices(t testing.TB, d cu.Driver, n int32) []cu.Device {
	t.Helper()
	count, err := d.DeviceGetCount()
	if err != nil {
		t.Fatal(err)
	}
	if count < n {
		t.Skipf("needs %d devices, found %d", n, count)
	}
	devices := make([]cu.Device, n)
	for i := range devices {
		if devices[i], err = d.DeviceGet(int32(i)); err != nil {
			t.Fatal(err)
		}
	}
	return devices
}

// Skip ends a test that needs a GPU. It fails the test if RequireVariable is 1.
func Skip(t testing.TB, reason ...any) {
	t.Helper()
	if os.Getenv(RequireVariable) == "1" {
		t.Fatal(append([]any{"no GPU, and " + RequireVariable + "=1:"}, reason...)...)
	}
	t.Skip(append([]any{"no GPU:"}, reason...)...)
}
