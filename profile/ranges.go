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

// Nearest returns the value nearest to v that [Parse] accepts for the number at a path of a profile,
// such as "calls.launch_ns", in the unit of that number. Where Parse accepts 0, 0 stays 0, which
// often has a meaning of its own. Other values become at least the least positive one.
func Nearest(path string, v float64) float64 {
	l := limitsOf(path)
	if l.zero && v == 0 {
		return 0
	}
	if l.whole {
		v = math.Round(v)
	}
	return min(max(v, l.low), l.high)
}

// text says what the limits allow, with the unit of the field.
func (l limits) text(path string) string {
	kind := "a number"
	if l.whole {
		kind = "an integer"
	}
	return fmt.Sprintf("%s%s from %s", kind, inUnit(path), l.span())
}

// span says what the limits allow: "1 to 1e+06, or 0".
func (l limits) span() string {
	text := fmt.Sprintf("%v to %v", l.low, l.high)
	if l.whole {
		text = fmt.Sprintf("%.0f to %.0f", l.low, l.high)
	}
	if l.zero {
		text += ", or 0"
	}
	return text
}

// least is the smallest number that is not whole, besides 0. Quotients by smaller ones overflow.
const least = 1e-6

// The limits by unit. A rate below a million would make times overflow.
var (
	rates  = limits{low: 1e6, high: 1e18}
	times  = limits{low: least, high: 1e12, zero: true} // a quarter of an hour
	pauses = limits{low: least, high: 1e10, zero: true} // of Ferry itself, in real time
	sizes  = limits{high: largest, whole: true}
	flags  = limits{high: 1, whole: true}
	shares = limits{low: least, high: 1, zero: true}
	counts = limits{low: 1, high: 1e6, whole: true}
	few    = limits{low: 1, high: 1024, whole: true}      // of what takes memory, or a goroutine
	pieces = limits{low: 512, high: 1 << 30, whole: true} // of one copy
)

// fieldLimits are the limits of fields to which those of their unit do not apply.
var fieldLimits = map[string]limits{
	"driver_version":                     {low: 1000, high: 1e6, whole: true},
	"memory_bytes":                       {low: 1 << 20, high: 1 << 46, whole: true},
	"host.memory_bytes":                  {low: 1 << 28, high: 1 << 50, whole: true},
	"reserved_bytes":                     {high: 1 << 46, whole: true},
	"stream_priority.least":              {low: -100, high: 100, whole: true},
	"stream_priority.greatest":           {low: -100, high: 100, whole: true},
	"link.pcie_generation":               {high: 10, whole: true},
	"link.pcie_lanes":                    {high: 64, whole: true},
	"link.header_bytes":                  {low: least, high: 4096, zero: true},
	"link.tags":                          {low: 1, high: 1e6, zero: true},
	"calls.query_ns":                     {low: 1, high: times.high}, // a program that asks again and again must see an end
	"link.peer_access":                   flags,
	"host.iommu":                         flags,
	"host.huge_page_bytes":               {low: 4096, high: 1 << 34, whole: true},
	"kernel.cache_bytes_per_s":           {low: rates.low, high: rates.high, zero: true},
	"staging.chunk_bytes":                pieces,
	"staging.block_bytes":                pieces,
	"staging.slots":                      few,
	"staging.threads":                    few,
	"tuning.copy.kernel_blocks":          counts,
	"tuning.copy.kernel_threads":         few,
	"tuning.copy.kernel_block_bytes":     pieces,
	"tuning.launch.blocks":               counts,
	"tuning.launch.threads":              few,
	"tuning.pin.max_registration_bytes":  {low: 2 << 20, high: largest, whole: true},
	"tuning.pin.segment_bytes":           pieces,
	"tuning.pin.max_touchers":            few,
	"tuning.pin.shards_per_processor":    few,
	"tuning.staging.min_blocks":          counts,
	"tuning.staging.slots_to_device":     few,
	"tuning.staging.spins_per_yield":     counts,
	"tuning.workers.min_workers":         few,
	"tuning.workers.spin_checks":         counts,
	"tuning.pipeline.first_part":         counts,
	"tuning.pipeline.min_depth":          few,
	"tuning.pipeline.depth_by_processor": few,
	"tuning.pipeline.max_file_depth":     few,
	"tuning.pipeline.max_pageable_depth": few,
	"tuning.pipeline.compute_streams":    few,
	"tuning.pipeline.polls_per_yield":    counts,
	"tuning.pipeline.min_chunk_bytes":    pieces,
	"tuning.pipeline.max_chunk_bytes":    pieces,
	"tuning.pipeline.max_staged_bytes":   pieces,
	"tuning.pipeline.max_direct_bytes":   pieces,
	"tuning.workers.block_bytes":         pieces,
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
	"COMPUTE_CAPABILITY_MAJOR": true, "SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO": true,
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
	case unit == "ns" && strings.HasPrefix(path, "tuning."):
		return pauses
	case unit == "ns":
		return times
	case unit == "bytes":
		return sizes
	case strings.HasSuffix(path, "_cost") || strings.HasSuffix(path, "_share"):
		return shares
	}
	return limits{high: 1e6, whole: true}
}

// problem says what is wrong with the value of a number, or nothing.
func problem(path string, v float64) string {
	l := limitsOf(path)
	switch {
	case path == "attributes.WARP_SIZE" && v != 32:
		return fmt.Sprintf("found %v, want 32: all machines have 32, and the software GPU relies on it", v)
	case path == "host.page_bytes" && v != 4<<10 && v != 64<<10:
		return fmt.Sprintf("found %v, want 4096 or 65536 bytes", v)
	case !l.allow(v):
		return fmt.Sprintf("found %v, want %s", v, l.text(path))
	}
	return ""
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

// allow reports whether the numbers of a point are possible.
func (p Point) allow() bool {
	bytes, ns := limits{low: least, high: largest, zero: true}, limits{low: least, high: longestPoint, zero: true}
	return bytes.allow(p.Bytes) && ns.allow(p.Ns)
}

// problem returns the first wrong point of c and what is wrong with it, or nothing.
func (c *Curve) problem() (at int, text string) {
	for i, p := range c.Points {
		switch {
		case !p.allow():
			return i, fmt.Sprintf("found %v bytes and %v ns, want no negative numbers, none between 0 and %v, and at most %v ns", p.Bytes, p.Ns, least, float64(longestPoint))
		case i > 0 && (p.Bytes <= c.Points[i-1].Bytes || p.Ns < c.Points[i-1].Ns):
			return i, fmt.Sprintf("%.0f bytes in %.0f ns do not rise from the point before, %.0f bytes in %.0f ns", p.Bytes, p.Ns, c.Points[i-1].Bytes, c.Points[i-1].Ns)
		}
	}
	if c.tooSteep() {
		return len(c.Points) - 1, fmt.Sprintf("the curve rises by more than %v ns for each byte from the point before", steepest)
	}
	return 0, ""
}

// tooSteep reports whether the last two points rise by more than steepest.
func (c *Curve) tooSteep() bool {
	n := len(c.Points)
	if n < 2 {
		return false
	}
	a, b := c.Points[n-2], c.Points[n-1]
	return b.Ns-a.Ns > steepest*(b.Bytes-a.Bytes)
}
