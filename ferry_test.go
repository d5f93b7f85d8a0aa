package ferry_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// openTest opens the device to test: FERRY_DEVICE, else the software GPU. With
// FERRY_REQUIRE_GPU=1 it is a real GPU or a failure.
func openTest(t testing.TB) *ferry.GPU {
	t.Helper()
	name := os.Getenv(ferry.DeviceVariable)
	switch {
	case os.Getenv("FERRY_REQUIRE_GPU") == "1":
		name = "cuda"
	case name == "":
		name = "soft"
	}
	g, err := ferry.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(t, g) })
	return g
}

// openSoft opens a software GPU of a profile and a schedule.
func openSoft(t testing.TB, name string, schedule softgpu.Schedule) *ferry.GPU {
	t.Helper()
	g, err := ferry.OpenDriver(softDriver(t, name, 1, schedule), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(t, g) })
	return g
}

// openTimed is a software GPU of which a test asks how long things take, which is told of
// the schedule that does them as soon as they can be.
func openTimed(t testing.TB, name string) *ferry.GPU {
	t.Helper()
	t.Setenv(softgpu.ScheduleVariable, softgpu.Eager.String())
	return openSoft(t, name, softgpu.Eager)
}

func softDriver(t testing.TB, name string, devices int, schedule softgpu.Schedule) cu.Driver {
	t.Helper()
	p, err := profile.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	d, err := softgpu.Open(softgpu.Options{Profile: p, Devices: devices, Schedule: schedule})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// must is v, or the end of the test.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// check ends the test for an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// closeAll closes things, first to last.
func closeAll(t testing.TB, things ...interface{ Close() error }) {
	t.Helper()
	for _, c := range things {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

// wantError checks what an error is and that its text has all parts.
func wantError(t testing.TB, err, is error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %v", is)
		return
	}
	if !errors.Is(err, is) {
		t.Errorf("got %q, which is no %v", err, is)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("got %q, want %q in it", err, p)
		}
	}
}

// sliceError is what Slice or ReadSlice panics with, nil if it returns.
func sliceError[T any](slice func() []T) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = v.(error)
		}
	}()
	slice()
	return nil
}

// random fills a slice with bytes that no other call gives.
func random(b []byte) {
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
}
