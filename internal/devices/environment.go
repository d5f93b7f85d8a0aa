package devices

import (
	"fmt"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/internal/secureenv"
	"github.com/ferrygpu/ferry/internal/variables"
	"github.com/ferrygpu/ferry/internal/wrappers"
)

// Environment makes the software machine that FERRY_DEVICE names, "soft" if it is not set, and
// wraps its driver as the environment asks for it. It is for the library that is libcuda.so.1 on
// the software GPU: so the error for a name of an NVIDIA GPU says what to do without the library.
func Environment() (cu.Driver, error) {
	variables.Warn()
	name := secureenv.Device()
	if name == "" {
		name = "soft"
	}
	n, err := Parse(name)
	if err == nil && !n.Soft {
		err = refusal.Invalid("this libcuda.so.1 is the software GPU: use soft, soft:h200, soft:FILE.json or soft:h200*2; for an NVIDIA GPU start the program without it (LD_LIBRARY_PATH)")
	}
	var places []int
	if err == nil {
		places, err = n.visible()
	}
	var d cu.Driver
	if err == nil {
		d, err = n.wrapped(places)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s=%s: %w", secureenv.DeviceVariable, printable.Value(name), err)
	}
	return d, nil
}

// wrapped makes the machine of a name, with these places of devices, and wraps its driver.
func (n Name) wrapped(places []int) (cu.Driver, error) {
	d, err := n.machine(places)
	if err != nil {
		return nil, err
	}
	return Wrap(d)
}

// End ends the recording that FERRY_TRACE asks for, whole and with its last row. It is for a
// program that closes nothing. Calls that come later are not recorded.
func End() { wrappers.End() }
