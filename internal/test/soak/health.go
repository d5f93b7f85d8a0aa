package soak

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry"
)

// Health is what a process holds while no task runs. Figures that a system does not tell
// are 0.
type Health struct {
	Rounds      int    `json:"rounds"` // so far
	Goroutines  int    `json:"goroutines"`
	Threads     int    `json:"threads"`
	Descriptors int    `json:"descriptors"`
	Mappings    int    `json:"mappings"`       // lines of /proc/self/maps
	Resident    uint64 `json:"resident_bytes"` // VmRSS
	Locked      uint64 `json:"locked_bytes"`   // VmLck and VmPin
	Virtual     uint64 `json:"virtual_bytes"`  // VmSize
	Heap        uint64 `json:"heap_bytes"`     // reachable, after a collection
	Device      uint64 `json:"device_bytes"`   // in use on the GPU (cuMemGetInfo)
	Handles     int    `json:"handles"`        // created by driver calls and not freed, but events
	Events      int    `json:"events"`         // not destroyed; Ferry keeps some for later
}

// health collects garbage and takes the figures.
func health(g *ferry.GPU, live []string, rounds int) (h Health, err error) {
	runtime.GC()
	runtime.GC() // finalizers and cleanups of the first have run
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	free, total, err := g.Driver().MemGetInfo(g.CUContext())
	h = Health{Rounds: rounds, Goroutines: runtime.NumGoroutine(), Heap: m.HeapAlloc, Device: uint64(total - free)}
	for _, handle := range live {
		if strings.HasPrefix(handle, "event ") {
			h.Events++
		} else {
			h.Handles++
		}
	}
	h.readProcess()
	return h, err
}

// readProcess reads the files that Linux has of the process.
func (h *Health) readProcess() {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		n, err := strconv.ParseUint(words[1], 10, 64)
		if err != nil {
			continue
		}
		switch words[0] {
		case "VmRSS:":
			h.Resident = n << 10
		case "VmSize:":
			h.Virtual = n << 10
		case "VmLck:", "VmPin:":
			h.Locked += n << 10
		case "Threads:":
			h.Threads = int(n)
		}
	}
	if all, err := os.ReadDir("/proc/self/fd"); err == nil {
		h.Descriptors = len(all) - 1 // that of the folder
	}
	if maps, err := os.ReadFile("/proc/self/maps"); err == nil {
		h.Mappings = strings.Count(string(maps), "\n")
	}
}

// figure is a figure of a Health that must not grow, but for a share and an amount: memory
// comes in large pieces, and threads of the Go runtime stay.
type figure struct {
	what    string
	of      func(Health) uint64
	percent uint64
	more    uint64
}

var figures = []figure{
	{"goroutines", func(h Health) uint64 { return uint64(h.Goroutines) }, 0, 0},
	{"handles", func(h Health) uint64 { return uint64(h.Handles) }, 10, 4}, // pools grow to the most that was in use at once
	{"events", func(h Health) uint64 { return uint64(h.Events) }, 0, 512},  // events are kept for later
	{"descriptors", func(h Health) uint64 { return uint64(h.Descriptors) }, 0, 0},
	{"threads", func(h Health) uint64 { return uint64(h.Threads) }, 10, 4},
	{"mappings", func(h Health) uint64 { return uint64(h.Mappings) }, 5, 16},
	{"bytes of the heap", func(h Health) uint64 { return h.Heap }, 5, 1 << 20},
	{"resident bytes", func(h Health) uint64 { return h.Resident }, 10, 32 << 20},
	{"locked bytes", func(h Health) uint64 { return h.Locked }, 0, 0},
	{"bytes of address space", func(h Health) uint64 { return h.Virtual }, 5, 128 << 20},
	{"bytes of the device", func(h Health) uint64 { return h.Device }, 0, 64 << 20},
}

// grown returns an error for each figure that in all of the later legs is larger than the
// largest of the earlier ones allows.
func grown(earlier, later []Health) (err error) {
	for _, f := range figures {
		before, after := uint64(0), uint64(math.MaxUint64)
		for _, h := range earlier {
			before = max(before, f.of(h))
		}
		for _, h := range later {
			after = min(after, f.of(h))
		}
		if most := before + before*f.percent/100 + f.more; after > most {
			err = errors.Join(err, fmt.Errorf("%s grew from at most %d in the first %d rounds to at least %d in the last %d: at most %d are normal",
				f.what, before, earlier[len(earlier)-1].Rounds, after, later[len(later)-1].Rounds-earlier[len(earlier)-1].Rounds, most))
		}
	}
	return err
}
