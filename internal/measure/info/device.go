package info

import (
	"fmt"
	"strings"

	"github.com/ferrygpu/ferry"
)

// Device is the object "device" in every JSON document.
type Device struct {
	Name     string  `json:"name"`     // the product
	Opened   string  `json:"opened"`   // what was opened, "cuda:0"
	Emulated bool    `json:"emulated"` // whether times are predictions
	Profile  *string `json:"profile"`  // the emulated machine; null on hardware
}

// Of returns the description of g.
func Of(g *ferry.GPU) Device {
	opened, _, _ := strings.Cut(g.String(), " (")
	d := Device{Name: g.Name(), Opened: opened, Emulated: g.Emulated()}
	if d.Emulated {
		name := g.Profile()
		d.Profile = &name
	}
	return d
}

// Line returns the first line of every text: the device, whether it is emulated, and
// if it is, the profile that predicts its times.
func (d Device) Line() string {
	if d.Emulated {
		return fmt.Sprintf("device: %s, emulated: times are predicted (profile %s: %s)", d.Opened, *d.Profile, d.Name)
	}
	return fmt.Sprintf("device: %s (%s), hardware: times are measured", d.Opened, d.Name)
}
