package pipeline_test

import (
	"os"
	"testing"
	"time"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/test/gputest"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// timeout is longer than anything that a test waits for takes.
const timeout = 30 * time.Second

// openTest opens the device to test: FERRY_DEVICE, else the software GPU. With
// FERRY_REQUIRE_GPU=1 it is a real GPU or a failure.
func openTest(t testing.TB) *ferry.GPU {
	t.Helper()
	name := os.Getenv(ferry.SpecVariable)
	switch {
	case os.Getenv("FERRY_REQUIRE_GPU") == "1":
		name = "cuda"
	case name == "":
		return openSoft(t, "h200", softgpu.Eager)
	}
	g, err := ferry.Open(name)
	return closeLater(t, must(g, err)(t))
}

// openSoft opens a software GPU of a profile and a schedule.
func openSoft(t testing.TB, name string, schedule softgpu.Schedule) *ferry.GPU {
	t.Helper()
	return openDriver(t, softDriver(t, name, schedule))
}

// openDriver opens the first device of a driver.
func openDriver(t testing.TB, d cu.Driver) *ferry.GPU {
	t.Helper()
	return closeLater(t, must(ferry.OpenDriver(d, 0))(t))
}

func closeLater(t testing.TB, g *ferry.GPU) *ferry.GPU {
	t.Cleanup(func() { closeAll(t, g) })
	return g
}

// openTimed opens a software GPU for tests that compare times. It has the eager schedule,
// whatever the environment says.
func openTimed(t testing.TB, name string) *ferry.GPU {
	t.Helper()
	t.Setenv(softgpu.ScheduleVariable, softgpu.Eager.String())
	return openSoft(t, name, softgpu.Eager)
}

func softDriver(t testing.TB, name string, schedule softgpu.Schedule) cu.Driver {
	t.Helper()
	p := must(profile.Named(name))(t)
	if name == "h200" {
		p = gputest.H200(t)
	}
	return must(softgpu.Open(softgpu.Options{Profile: p, Devices: 1, Schedule: schedule}))(t)
}

// closeAll and wantError are what tests of several packages need.
var (
	closeAll  = gputest.CloseAll
	wantError = gputest.WantError
)

// must returns v, or ends the test for an error.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		check(t, err)
		return v
	}
}

// check ends the test for an error. It skips the test if the chosen machine lacks what
// the call needs.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		gputest.SkipIfLacking(t, err)
		t.Fatal(err)
	}
}

// last returns the error of two results.
func last[T any](_ T, err error) error { return err }
