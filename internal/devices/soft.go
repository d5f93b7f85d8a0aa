package devices

import (
	"fmt"
	"strings"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// Soft is the name of a software GPU with the default profile.
var Soft = Name{Soft: true, Count: 1}

// Machine makes the software machine that a name stands for. Each call makes a new one. It reads
// the file of a profile, if the name has one. Its driver is neither initialized nor wrapped. The
// error for a name of another device wraps cu.ErrorInvalidValue.
func (n Name) Machine() (*softgpu.Driver, error) { return n.machine(nil) }

// machine is Machine for a part of the devices, which have these places in the machine; nil for all.
func (n Name) machine(places []int) (*softgpu.Driver, error) {
	if !n.Soft {
		return nil, refusal.Invalid("not a name of the software GPU")
	}
	o := softgpu.Options{Devices: n.Count}
	if places != nil {
		o.Devices, o.Places = len(places), places
	}
	var err error
	switch {
	case strings.HasSuffix(n.Profile, ".json"):
		o.Profile, err = profile.Load(n.Profile)
	case n.Profile != "":
		o.Profile, err = profile.Named(n.Profile)
	}
	if err != nil {
		return nil, err
	}
	return softgpu.Open(o)
}

// Label returns the short name of a device of a driver: "cuda:1", "soft:h200", or "soft:h200*2
// device 1". count is the number of devices of the driver.
func Label(d cu.Driver, count, ordinal int) string {
	e := cu.AsEmulated(d)
	switch {
	case e == nil:
		return fmt.Sprintf("cuda:%d", ordinal)
	case count == 1:
		return "soft:" + e.Profile()
	}
	return fmt.Sprintf("soft:%s*%d device %d", e.Profile(), count, ordinal)
}
