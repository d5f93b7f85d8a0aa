package cutest

import (
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// TestSoftgpu runs the suite on the software GPU: under each schedule, as an
// older machine, and as two.
func TestSoftgpu(t *testing.T) {
	for _, v := range []struct {
		name, profile string
		devices       int
		schedule      softgpu.Schedule
	}{
		{"eager", "h200", 1, softgpu.Eager},
		{"lazy", "h200", 1, softgpu.Lazy},
		{"random", "h200", 1, softgpu.Random},
		{"fermi", "fermi-c2050", 1, softgpu.Eager},
		{"two", "h200", 2, softgpu.Eager},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			p, err := profile.Named(v.profile)
			if err != nil {
				t.Fatal(err)
			}
			Run(t, func(t testing.TB) cu.Driver {
				d, err := softgpu.Open(softgpu.Options{Profile: p, Devices: v.devices, Schedule: v.schedule, Seed: 1})
				if err != nil {
					t.Fatal(err)
				}
				return d
			})
		})
	}
}
