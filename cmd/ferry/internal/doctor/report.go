package doctor

import (
	"bytes"
	"encoding/json"
	"slices"
)

// Schema is the version of the document that [Report.JSON] returns.
const Schema = "ferry.doctor/1"

// State is the result of a check.
type State string

// The states of a check.
const (
	OK      State = "ok"
	Warning State = "warning"
	Failure State = "failure"
	Skipped State = "skipped" // there was nothing to check, or it could not be read
)

// Source is where the figures of a cost come from.
type Source string

// The sources of costs.
const (
	Measured  Source = "measured"  // by Ferry on an H200
	Predicted Source = "predicted" // computed from what was measured
	Manual    Source = "manual"    // a manual or the source of a driver
	Reported  Source = "reported"  // by others, in a public report
)

// Check is one thing that was examined.
type Check struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	Found string `json:"found"`
	Cost  string `json:"cost"` // "" if there is none
	Mend  string `json:"mend"` // "" if nothing is to be mended

	Source   Source `json:"source"`   // of Cost; "" without a cost
	Degrades bool   `json:"degrades"` // whether the machine is slower, or something fails
}

// Host describes the machine and its operating system. Fields of unknown values are zero.
type Host struct {
	System     string `json:"system"` // as Go names it: "linux"
	Kernel     string `json:"kernel"`
	Processors int    `json:"processors"` // that this process may use
	Memory     uint64 `json:"memory_bytes"`
	Virtual    bool   `json:"virtual_machine"`
	Container  string `json:"container"` // "docker", or "" outside containers
	WSL        bool   `json:"wsl"`
}

// Device describes the GPU that was examined. Fields of unknown values are "".
type Device struct {
	Name       string `json:"name"`
	Opened     string `json:"opened"` // name for ferry.Open, such as cuda:0
	PCIAddress string `json:"pci_address"`
	Driver     string `json:"driver"`  // its version
	Library    string `json:"library"` // the file of libcuda that was loaded, or would be
}

// Report is the result of an examination. Its fields are those of the JSON document.
type Report struct {
	Schema   string  `json:"schema"`
	Version  string  `json:"version"` // of the program that made the report
	Host     Host    `json:"host"`
	Device   *Device `json:"device"` // null if no GPU was examined
	Degraded bool    `json:"degraded"`
	Summary  string  `json:"summary"`
	Checks   []Check `json:"checks"`
}

// JSON returns the report as one indented document.
func (r *Report) JSON() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // commands have > and &
	e.SetIndent("", "  ")
	err := e.Encode(r)
	return b.Bytes(), err
}

// count returns how many checks have a state.
func (r *Report) count(s State) (n int) {
	for _, c := range r.Checks {
		if c.State == s {
			n++
		}
	}
	return n
}

// degraded reports whether a check failed, or warns of something that costs bandwidth.
func (r *Report) degraded() bool {
	return slices.ContainsFunc(r.Checks, func(c Check) bool { return c.State == Failure || c.Degrades })
}

// around are the checks that say in what a program runs, and what that keeps from it.
var around = []string{"mig", "confidential", "iommu", "locked-memory", "cgroup", "container", "wsl"}

// Around returns the checks that say in what a program runs: MIG, confidential computing, IOMMU,
// limits of memory, container, WSL. Skipped checks are left out.
func (r *Report) Around() (all []Check) {
	for _, c := range r.Checks {
		if slices.Contains(around, c.Name) && c.State != Skipped {
			all = append(all, c)
		}
	}
	return all
}

// ok returns a check that found nothing wrong.
func ok(found string) Check { return Check{State: OK, Found: found} }

// skipped returns a check that could not be made.
func skipped(why string) Check { return Check{State: Skipped, Found: why} }

// problem is what a warning or a failure says.
type problem struct {
	found, cost string
	source      Source
	mend        string
}

// warning returns a check that warns. degrades says whether the problem costs bandwidth.
func (p problem) warning(degrades bool) Check {
	return Check{State: Warning, Found: p.found, Cost: p.cost, Source: p.source, Mend: p.mend, Degrades: degrades}
}

// failure returns a check that failed.
func (p problem) failure() Check {
	return Check{State: Failure, Found: p.found, Cost: p.cost, Source: p.source, Mend: p.mend, Degrades: true}
}
