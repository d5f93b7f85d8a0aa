package calibrate

import (
	"fmt"
	"math"
	"strings"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
	"github.com/ferrygpu/ferry/profile"
)

// Base is the profile from which a calibration begins, with the facts of a device.
type Base struct {
	Name string // of the profile
	doc  *doc
}

// BaseOf returns the base for a device: the profile of its product or of the software GPU if
// Ferry ships it, else that of the nearest compute capability. It reads the attributes, the
// memory and the driver's version of the device.
func BaseOf(g *ferry.GPU) (*Base, error) {
	name, err := baseName(g)
	if err != nil {
		return nil, err
	}
	text, err := profile.Text(name)
	if err != nil {
		return nil, err
	}
	d, err := parseDoc(text)
	if err != nil {
		return nil, err
	}
	if g.Emulated() && name == g.Profile() {
		return &Base{name, d}, nil
	}
	return &Base{name, d}, d.setDevice(g)
}

// baseName returns the name of the nearest profile.
func baseName(g *ferry.GPU) (string, error) {
	if p := profile.ForDevice(g.Name()); p != nil {
		return p.Name, nil
	}
	capability := func(at func(cu.DeviceAttribute) int) float64 {
		return float64(at(cu.DeviceAttributeComputeCapabilityMajor)) + float64(at(cu.DeviceAttributeComputeCapabilityMinor))/10
	}
	own := capability(func(a cu.DeviceAttribute) int { v, _ := g.Attribute(a); return v })
	best, least := "", math.Inf(1)
	for _, name := range profile.Names() {
		p, err := profile.Named(name)
		if err != nil {
			return "", err
		}
		if g.Emulated() && name == g.Profile() && p.Title == g.Name() {
			return name, nil
		}
		far := math.Abs(own - capability(func(a cu.DeviceAttribute) int { v, _ := p.Attribute(a); return int(v) }))
		if far < least {
			best, least = name, far
		}
	}
	return best, nil
}

// setDevice sets the facts of a device.
func (d *doc) setDevice(g *ferry.GPU) error {
	all := d.object("attributes")
	for _, a := range cu.DeviceAttributes() {
		if v, err := g.Attribute(a); err == nil {
			all[strings.TrimPrefix(a.String(), "CU_DEVICE_ATTRIBUTE_")] = number(float64(v), deviceSource)
		}
	}
	_, total, err := g.MemInfo()
	if err != nil {
		return fmt.Errorf("read the memory of %s: %w", g, err)
	}
	version, err := g.Driver().DriverGetVersion()
	if err != nil {
		return fmt.Errorf("read the driver's version of %s: %w", g, err)
	}
	d.root["memory_bytes"] = number(float64(total), deviceSource)
	d.root["driver_version"] = number(float64(version), deviceSource)
	return nil
}

// describe sets the names and the sources of a profile, and the link.
func (d *doc) describe(name string, base *Base, r *grid.Result) {
	d.root["name"], d.root["title"] = name, r.Device.Name
	d.root["about"] = fmt.Sprintf("%s, calibrated by ferry bench --save-profile. It began from the profile %s.", r.Device.Name, base.Name)
	sources := d.object("sources")
	sources[source] = map[string]any{"confidence": profile.Derived,
		"text": fmt.Sprintf("moved by ferry bench --save-profile to half of its cases on %s (%s)", r.Device.Opened, r.Device.Name)}
	sources[deviceSource] = map[string]any{"confidence": profile.Measured, "text": "read from the device by ferry bench --save-profile"}
	if m := r.Machine; m != nil && m.Generation > 0 {
		link := d.object("link")
		link["pcie_generation"], link["pcie_lanes"] = number(float64(m.Generation), deviceSource), number(float64(m.Lanes), deviceSource)
	}
}
