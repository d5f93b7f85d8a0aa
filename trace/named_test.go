package trace_test

import (
	"testing"

	"github.com/ferrygpu/ferry/cu"
)

// TestNamesOfDevices: a recording has the name of each device with a context once, also if the program
// never asks for it, as programs in C. The question is not among the calls of the program.
func TestNamesOfDevices(t *testing.T) {
	r, path := recorder(t)
	w := r.Wrap(soft(t, "h200", 3))
	check(t, w.Init(0))
	for _, dev := range []cu.Device{1, 1, 0} {
		must(w.CtxCreate(0, dev))(t)
	}
	must(w.DevicePrimaryCtxRetain(1))(t)
	must(w.DeviceGetName(0))(t)
	rec := ended(t, r, path)
	if len(rec.Devices) != 2 || rec.Devices[0].ID != 1 || rec.Devices[1].ID != 0 || rec.Devices[0].Name == "" || rec.Devices[1].Name == "" {
		t.Errorf("got the devices %+v, want 1 and 0", rec.Devices)
	}
	for _, c := range rec.Calls[:len(rec.Calls)-1] {
		if c.Name == "cuDeviceGetName" {
			t.Errorf("the recording has a call that the program has not made: %+v", c)
		}
	}
}
