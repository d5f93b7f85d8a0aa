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
	Generation *int   `json:"pcie_generation"` // null if unknown
	Lanes      *int   `json:"pcie_lanes"`      // null if unknown
	Source     string `json:"source"`          // "system", "profile NAME" or "unknown"
}

// linkOf returns the link of g: from its profile if it is emulated, else from the
// operating system.
func linkOf(g *ferry.GPU, busID string) Link {
	if g.Emulated() {
		return emulatedLink(g)
	}
	return systemLink(os.DirFS("/sys/bus/pci/devices"), busID)
}

// machine is implemented by the driver of a software GPU.
type machine interface{ Machine() *profile.Profile }

func emulatedLink(g *ferry.GPU) Link {
	p := profileOf(g)
	if p == nil {
		return Link{Source: "unknown"}
	}
	return Link{known(p.Link.Generation.Int()), known(p.Link.Lanes.Int()), "profile " + p.Name}
}

// profileOf returns the profile of the emulated device g: the driver's own, or else the
// shipped profile with that name if its product is the same. It returns nil if there is
// neither.
func profileOf(g *ferry.GPU) *profile.Profile {
	if m, ok := cu.As[machine](g.Driver()); ok {
		return m.Machine()
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

// transferRates maps gigatransfers per second to the generation of PCI Express.
var transferRates = map[string]int{"2.5": 1, "5.0": 2, "5": 2, "8.0": 3, "8": 3, "16.0": 4, "16": 4, "32.0": 5, "32": 5, "64.0": 6, "64": 6}

// systemLink reads the link of the device at busID from the sysfs of Linux.
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
