package softgpu

import (
	"fmt"

	"github.com/ferrygpu/ferry/cu"
)

// since fails if the profile's driver is older than the CUDA version that introduced a
// call. Hardware's driver library does not export the call then, and libcuda returns the
// same error. Such a call takes no virtual time and examines no argument.
func (d *Driver) since(call string, version int) error {
	have := int(d.prof.Driver.Value)
	if have >= version {
		return nil
	}
	return &cu.NotSupportedError{
		Call:  call,
		Needs: "a driver for CUDA " + versionText(version) + " or newer",
		Found: "the software GPU " + d.prof.Name + " (CUDA " + versionText(have) + ")",
	}
}

// versionText formats 12040 as "12.4".
func versionText(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }
