package differ

import (
	"fmt"
	"runtime"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/origin"
)

// Machine is the origin of a record.
type Machine struct {
	Device  string `json:"device"`
	Driver  string `json:"driver"` // the release of its kernel module, such as 580.159.04
	CUDA    string `json:"cuda"`
	Go      string `json:"go"`
	Commit  string `json:"commit"`
	Date    string `json:"date"`
	Command string `json:"command"` // the command that writes the record
}

// MachineOf returns the machine with a driver's first device.
func MachineOf(d cu.Driver, command string) (Machine, error) {
	m := Machine{
		Go: runtime.Version(), Commit: origin.Commit(), Date: time.Now().UTC().Format(time.DateOnly),
		Command: command, Driver: origin.Release(),
	}
	v, err := d.DriverGetVersion()
	if err != nil {
		return m, err
	}
	m.CUDA = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
	dev, err := d.DeviceGet(0)
	if err != nil {
		return m, err
	}
	m.Device, err = d.DeviceGetName(dev)
	return m, err
}
