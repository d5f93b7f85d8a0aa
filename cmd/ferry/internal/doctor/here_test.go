package doctor_test

import (
	"context"
	"errors"
	"testing"

	"github.com/ferrygpu/ferry/cmd/ferry/internal/doctor"
	"github.com/ferrygpu/ferry/internal/test/gputest"
)

// TestHere demands on a machine with a GPU that NVML opens, that what it says agrees with
// the CUDA driver, and that the checks of the GPU were made.
func TestHere(t *testing.T) {
	d := gputest.Driver(t)
	r, err := doctor.Here(t.Context(), "cuda:0", "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + r.Page().Text(120))
	gpu := gputest.Devices(t, d, 1)[0]
	name, err := d.DeviceGetName(gpu)
	if err != nil {
		t.Fatal(err)
	}
	if r.Device == nil || r.Device.Name != name || r.Device.Driver == "" {
		t.Errorf("device %+v, want %s and a driver", r.Device, name)
	}
	for _, c := range r.Checks {
		switch c.Name {
		case "gpu", "driver", "device-files":
			if c.State != doctor.OK {
				t.Errorf("%s is %s: %s", c.Name, c.State, c.Found)
			}
		case "link-generation", "link-width", "bar", "persistence", "ecc", "processes":
			if c.State == doctor.Skipped {
				t.Errorf("%s is skipped: %s", c.Name, c.Found)
			}
		}
	}
}

// TestHereEnds demands that a context that has ended ends the examination.
func TestHereEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := doctor.Here(ctx, "soft", "test"); r != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("report %v, error %v", r, err)
	}
}
