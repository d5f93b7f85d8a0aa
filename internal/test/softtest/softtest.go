// Package softtest opens software GPUs for tests of programs.
package softtest

import (
	"testing"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/check"
	"github.com/ferrygpu/ferry/softgpu"
)

// Open opens a software GPU with a schedule. At the end of the test it closes the GPU, and fails the
// test for each finding of package check.
func Open(t testing.TB, schedule softgpu.Schedule) *ferry.GPU {
	t.Helper()
	d, err := softgpu.Open(softgpu.Options{Schedule: schedule})
	if err != nil {
		t.Fatal(err)
	}
	checked := check.Wrap(d, check.Options{})
	gpu, err := ferry.OpenDriver(checked, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := gpu.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		for _, f := range checked.Findings() {
			if !f.Note {
				t.Errorf("%v", f)
			}
		}
	})
	return gpu
}
