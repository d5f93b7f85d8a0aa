package summary

import (
	"strings"

	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
	"github.com/ferrygpu/ferry/profile"
)

// Bound says what limits a kind.
type Bound string

// The bounds.
const (
	Link      Bound = "link"      // the link's rate in one direction, without the headers of packets
	Memory    Bound = "memory"    // the rate of device memory
	Reference Bound = "reference" // the time of the reference, because nothing else is known
)

// traffic is what moves for each byte of a kind's size.
type traffic struct {
	bound Bound
	bytes float64 // over the link one way, or from and to device memory
	cause string  // why the ceiling is not reached, after all other causes
}

// inARow is how many copies of the size an operation of a kind has, if not one.
var inARow = map[string]int{"copy in, 32 in a row": 32}

// traffics are the kinds with a ceiling by the link or by device memory. The causes are keys
// of causes.
var traffics = map[string]traffic{
	"copy pinned in":                             {Link, 1, "headers"},
	"copy pinned in, just written":               {Link, 1, "CPU caches"},
	"copy pinned out":                            {Link, 1, "headers"},
	"copy pinned out to what was just written":   {Link, 1, "CPU caches"},
	"copy write-combined in":                     {Link, 1, "headers"},
	"copy registered in":                         {Link, 1, "headers"},
	"copy registered out":                        {Link, 1, "headers"},
	"copy pageable in, cuMemcpy":                 {Link, 1, "staging"},
	"copy pageable in, ferry.Copy":               {Link, 1, "staging"},
	"copy pageable out, cuMemcpy":                {Link, 1, "staging"},
	"copy pageable out, ferry.Copy":              {Link, 1, "staging"},
	"copy both ways":                             {Link, 1, "two ways"},
	"copy in, 32 in a row":                       {Link, 1, "headers"},
	"copy on device":                             {Memory, 2, "DRAM"},
	"fill":                                       {Memory, 1, "DRAM"},
	"kernel copies on device":                    {Memory, 2, "DRAM"},
	"kernel copies what was just copied in":      {Memory, 2, "cold"},
	"kernel fills":                               {Memory, 1, "DRAM"},
	"kernel adds vectors":                        {Memory, 3, "DRAM"},
	"kernel reads words":                         {Memory, 1, "DRAM"},
	"kernel reads words, stride 32":              {Memory, 1, "sectors"},
	"kernel reads pinned":                        {Link, 1, "requests"},
	"kernel writes pinned":                       {Link, 1, "requests"},
	"kernel reads and writes pinned":             {Link, 1, "two ways"},
	"kernel reads pinned words":                  {Link, 1, "requests"},
	"kernel reads pinned words, stride 2":        {Link, 1, "sectors"},
	"kernel reads pinned words, stride 8":        {Link, 1, "sectors"},
	"kernel reads pinned words, stride 32":       {Link, 1, "sectors"},
	"managed: kernel touches what the CPU wrote": {Link, 1, "faults"},
	"managed: kernel touches what is there":      {Memory, 2, "DRAM"},
	"managed: CPU touches what a kernel wrote":   {Link, 1, "faults"},
	"managed: prefetch to the device":            {Link, 1, "page maps"},
	"managed: prefetch to the host":              {Link, 1, "page maps"},
}

// causes are the causes of shortfalls.
var causes = map[string]string{
	"not normal": "slower than on all machines of this type that were measured: ferry doctor may know why",
	"fixed cost": "the time before the first byte, a, takes more than all else at this size",
	"caches":     "above the ceiling: a part of the data stays in the device's L2 cache",
	"headers":    "each packet on the link has a header, and requests share the link with data",
	"CPU caches": "the device asks for lines that the CPU's caches still have",
	"staging":    "the CPU copies the data through page-locked memory, a part at a time",
	"two ways":   "the requests and headers of one direction share the link with the data of the other",
	"DRAM":       "device memory also needs time to refresh, and to turn from reads to writes",
	"cold":       "what the link has just written is not in the device's caches",
	"requests":   "a kernel's requests have at most 128 bytes, so headers take more of the link",
	"sectors":    "for each word of 4 bytes a sector of 32 bytes moves",
	"faults":     "pages move on demand, and each group of faults is served by the CPU",
	"page maps":  "the driver unmaps and maps the pages that it moves",
	"machine":    "the reference is another type of machine",
	"spread":     "within the range of the machines of this type that were measured",
	"unknown":    "slower than the nearest machine, for no known cause",
}

// machineOf returns the figures for the ceilings: those in the result, or else those of the
// profile for its device. It returns zeros if neither is known.
func machineOf(r *grid.Result) grid.Machine {
	if r.Machine != nil {
		return *r.Machine
	}
	p := profile.ForDevice(r.Device.Name)
	if name := r.Device.Profile; p == nil && name != nil {
		p, _ = profile.Named(*name)
	}
	if p == nil {
		return grid.Machine{}
	}
	return *grid.MachineOf(p)
}

// rateOf returns the ceiling of a kind in bytes of its size in a second, or 0.
func rateOf(kind string, m grid.Machine) (float64, Bound) {
	switch t := traffics[kind]; t.bound {
	case Link:
		return m.Link / t.bytes, Link
	case Memory:
		return m.Memory / t.bytes, Memory
	}
	return 0, ""
}

// inBytes reports whether a unit counts bytes: "bytes", "bytes each", "bytes read".
func inBytes(unit string) bool { return strings.HasPrefix(unit, "bytes") }
