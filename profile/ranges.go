package profile

import (
	"fmt"
	"math"
	"strings"
)

// limits are the values that a number may have: low to high, and also 0 if zero is set.
type limits struct {
	low, high float64
	whole     bool // only integers
	zero      bool
}

func (l limits) allow(v float64) bool {
	if l.whole && v != math.Trunc(v) {
		return false
	}
	return v >= l.low && v <= l.high || l.zero && v == 0
}

// text says what the limits allow, with the unit of the field.
func (l limits) text(path string) string {
	kind := "a number"
	if l.whole {
		kind = "an integer"
	}
	zero := ""
	if l.zero {
		zero = ", or 0"
	}
	if l.whole {
		return fmt.Sprintf("%s%s from %.0f to %.0f%s", kind, inUnit(path), l.low, l.high, zero)
	}
	return fmt.Sprintf("%s%s from %v to %v%s", kind, inUnit(path), l.low, l.high, zero)
}

// The limits by unit. A rate below a million would make times overflow.
var (
	rates  = limits{low: 1e6, high: 1e18}
	times  = limits{high: 1e12} // a quarter of an hour
	sizes  = limits{high: largest, whole: true}
	flags  = limits{high: 1, whole: true}
	shares = limits{high: 1}
	counts = limits{low: 1, high: 1e6, whole: true}
	pieces = limits{low: 512, high: 1 << 30, whole: true} // of one copy
)

// fieldLimits are the limits of fields to which those of their unit do not apply.
var fieldLimits = map[string]limits{
	"driver_version":            {low: 1000, high: 1e6, whole: true},
	"memory_bytes":              {low: 1 << 20, high: 1 << 46, whole: true},
	"host.memory_bytes":         {low: 1 << 28, high: 1 << 50, whole: true},
	"reserved_bytes":            {high: 1 << 46, whole: true},
	"stream_priority.least":     {low: -100, high: 100, whole: true},
	"stream_priority.greatest":  {low: -100, high: 100, whole: true},
	"link.pcie_generation":      {high: 10, whole: true},
	"link.pcie_lanes":           {high: 64, whole: true},
	"link.header_bytes":         {high: 4096},
	"link.tags":                 {high: 1e6},
	"link.peer_access":          flags,
	"host.iommu":                flags,
	"host.huge_page_bytes":      {low: 4096, high: 1 << 34, whole: true},
	"kernel.cache_bytes_per_s":  {low: rates.low, high: rates.high, zero: true},
	"staging.chunk_bytes":       pieces,
	"staging.block_bytes":       pieces,
	"staging.slots":             {low: 1, high: 1024, whole: true},
	"staging.threads":           {low: 1, high: 1024, whole: true},
	"tuning.copy.kernel_blocks": counts, "tuning.copy.kernel_threads": {low: 1, high: 1024, whole: true},
	"tuning.copy.kernel_block_bytes":  pieces,
	"tuning.launch.blocks":            counts,
	"tuning.launch.threads":           {low: 1, high: 1024, whole: true},
	"tuning.pin.segment_bytes":        pieces,
	"tuning.pipeline.min_chunk_bytes": pieces,
	"tuning.pipeline.max_chunk_bytes": pieces,
	"tuning.workers.block_bytes":      pieces,
}

// positiveAttributes are device attributes that cannot be 0: the model of the device divides
// by them, or a launch would be impossible.
var positiveAttributes = map[string]bool{
	"MULTIPROCESSOR_COUNT": true, "CLOCK_RATE": true, "MEMORY_CLOCK_RATE": true, "GLOBAL_MEMORY_BUS_WIDTH": true,
	"MAX_THREADS_PER_BLOCK": true, "MAX_THREADS_PER_MULTIPROCESSOR": true, "MAX_BLOCKS_PER_MULTIPROCESSOR": true,
	"MAX_BLOCK_DIM_X": true, "MAX_BLOCK_DIM_Y": true, "MAX_BLOCK_DIM_Z": true,
	"MAX_GRID_DIM_X": true, "MAX_GRID_DIM_Y": true, "MAX_GRID_DIM_Z": true,
	"MAX_REGISTERS_PER_BLOCK": true, "MAX_REGISTERS_PER_MULTIPROCESSOR": true,
	"MAX_SHARED_MEMORY_PER_BLOCK": true, "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": true,
	"ASYNC_ENGINE_COUNT": true, "COMPUTE_CAPABILITY_MAJOR": true, "SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO": true,
}

// limitsOf returns what a number may be.
func limitsOf(path string) limits {
	if l, ok := fieldLimits[path]; ok {
		return l
	}
	if name, ok := strings.CutPrefix(path, "attributes."); ok {
		return attributeLimits(name)
	}
	switch unit := unitOf(path); {
	case unit == "bytes/s" || unit == "1/s":
		return rates
	case unit == "ns":
		return times
	case unit == "bytes":
		return sizes
	case strings.HasSuffix(path, "_cost") || strings.HasSuffix(path, "_share"):
		return shares
	}
	return limits{high: 1e6, whole: true}
}

func attributeLimits(name string) limits {
	l := limits{high: math.MaxInt32, whole: true}
	switch {
	case name == "MULTIPROCESSOR_COUNT":
		l = limits{low: 1, high: 4096, whole: true}
	case name == "NUMA_ID" || name == "HOST_NUMA_ID":
		l.low = -1
	case positiveAttributes[name]:
		l.low = 1
	}
	return l
}

// checkPairs checks numbers that must fit each other, if both were found.
func (d *decoder) checkPairs(p *Profile, n *node) {
	if at := n.members["reserved_bytes"]; at != nil && p.Memory.Value > 0 && p.Reserved.Value >= p.Memory.Value {
		d.fail(valueOf(at), "reserved_bytes.value", "found %.0f, want less than memory_bytes, %.0f", p.Reserved.Value, p.Memory.Value)
	}
	if at := n.members["stream_priority"]; at != nil && p.Priority.Least.Value < p.Priority.Greatest.Value {
		d.fail(valueOf(at), "stream_priority.least.value", "found %v, want at least the greatest priority, %v: a lower number runs first",
			p.Priority.Least.Value, p.Priority.Greatest.Value)
	}
}

// valueOf returns the value of a number, or the number itself if it has none.
func valueOf(n *node) *node {
	if n != nil && n.members["value"] != nil {
		return n.members["value"]
	}
	return n
}

// The limits of curves: the time of a point, and of each further byte after the last one.
const (
	longestPoint = 1e15
	steepest     = 1e3
)

// tooSteep reports whether the last two points rise by more than steepest.
func (c *Curve) tooSteep() bool {
	n := len(c.Points)
	if n < 2 {
		return false
	}
	a, b := c.Points[n-2], c.Points[n-1]
	return b.Ns-a.Ns > steepest*(b.Bytes-a.Bytes)
}
