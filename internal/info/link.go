package info

import (
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/profile"
)

// Link is the PCI Express link to the host as it runs now.
type Link struct {
	Generation *int   `json:"pcie_generation"` // null where nobody knows
	Lanes      *int   `json:"pcie_lanes"`
	Source     string `json:"source"` // who says so
}

// linkOf asks the profile of an emulated device, and the system for a real one.
func linkOf(g *ferry.GPU, busID string) Link {
	if g.Emulated() {
		return emulatedLink(g)
	}
	return systemLink(os.DirFS("/sys/bus/pci/devices"), busID)
}

// machine is what a driver of software can tell besides its name.
type machine interface{ Machine() *profile.Profile }

func emulatedLink(g *ferry.GPU) Link {
	p := profileOf(g)
	if p == nil {
		return Link{Source: "unknown"}
	}
	return Link{known(p.Link.Generation.Int()), known(p.Link.Lanes.Int()), "profile " + p.Name}
}

// profileOf is the profile that g plays: the driver's own, or the shipped one of
// that name if it is the same machine.
func profileOf(g *ferry.GPU) *profile.Profile {
	for d := g.Driver(); d != nil; {
		if m, ok := d.(machine); ok {
			return m.Machine()
		}
		w, ok := d.(interface{ Unwrap() cu.Driver })
		if !ok {
			break
		}
		d = w.Unwrap()
	}
	p, err := profile.Named(g.Profile())
	if err != nil || p.Title != g.Name() {
		return nil
	}
	return p
}

func known(n int) *int {
	if n <= 0 {
		return nil
	}
	return &n
}

// transferRates are the gigatransfers a second of each generation.
var transferRates = map[string]int{"2.5": 1, "5.0": 2, "5": 2, "8.0": 3, "8": 3, "16.0": 4, "16": 4, "32.0": 5, "32": 5, "64.0": 6, "64": 6}

// systemLink reads what Linux says of the device at busID.
func systemLink(devices fs.FS, busID string) Link {
	dir := strings.ToLower(busID)
	if domain, rest, ok := strings.Cut(dir, ":"); ok && len(domain) > 4 {
		dir = strings.TrimPrefix(domain, strings.Repeat("0", len(domain)-4)) + ":" + rest
	}
	speed, err := readLine(devices, path.Join(dir, "current_link_speed"))
	if err != nil {
		return Link{Source: "unknown"}
	}
	link := Link{Source: "system"}
	rate, _, _ := strings.Cut(speed, " ")
	link.Generation = known(transferRates[rate])
	width, err := readLine(devices, path.Join(dir, "current_link_width"))
	if lanes, bad := strconv.Atoi(width); err == nil && bad == nil {
		link.Lanes = known(lanes)
	}
	return link
}

func readLine(files fs.FS, name string) (string, error) {
	text, err := fs.ReadFile(files, name)
	return strings.TrimSpace(string(text)), err
}
