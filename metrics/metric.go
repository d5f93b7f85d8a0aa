package metrics

import "strings"

// Unit is the unit of a metric. All are base units, without a prefix.
type Unit string

// The units.
const (
	Bytes   Unit = "bytes"
	Seconds Unit = "seconds"
	None    Unit = "" // a count
)

// Metric describes one figure, which has a value for each GPU, kind or pool.
type Metric struct {
	Path    string   // the name without unit and prefix, such as "device_memory.free"
	Unit    Unit     // of its values
	Counter bool     // it never falls while its GPU or pool lives; otherwise it is a gauge
	Labels  []string // names of what tells its values apart, such as "gpu" and "kind"
	Help    string   // one sentence, without a period
}

// String returns the name as Prometheus has it: "ferry_device_memory_free_bytes". A counter ends in
// "_total".
func (m *Metric) String() string {
	name := "ferry_" + strings.ReplaceAll(m.Path, ".", "_")
	if m.Unit != None {
		name += "_" + string(m.Unit)
	}
	if m.Counter {
		name += "_total"
	}
	return name
}

// The metrics. What begins with pool is of page-locked memory, with device_pool of device memory.
var (
	gpuInfo = &Metric{Path: "gpu.info", Labels: []string{"gpu", "name"},
		Help: "1 for each open GPU, with its product name"}
	pageLocked = &Metric{Path: "page_locked", Unit: Bytes, Labels: []string{"gpu", "kind"},
		Help: "Page-locked host memory now, by what asked for it: allocated, pooled, registered, staging or pipeline"}
	pageLockedPeak = &Metric{Path: "page_locked.peak", Unit: Bytes, Labels: []string{"gpu"},
		Help: "The most page-locked host memory at once, of all kinds together"}
	pageLockedLimit = &Metric{Path: "page_locked.limit", Unit: Bytes, Labels: []string{"gpu"},
		Help: "The limit for page-locked host memory of all kinds, missing if there is none"}
	stagingInUse = &Metric{Path: "staging.in_use", Unit: Bytes, Labels: []string{"gpu"},
		Help: "The part of the staging ring that transfers use, or that the device may still use"}
	stagingLimit = &Metric{Path: "staging.limit", Unit: Bytes, Labels: []string{"gpu"},
		Help: "The most that the staging ring may page-lock"}
	deviceSize = &Metric{Path: "device_memory.size", Unit: Bytes, Labels: []string{"gpu"},
		Help: "Memory of the device"}
	deviceFree = &Metric{Path: "device_memory.free", Unit: Bytes, Labels: []string{"gpu"},
		Help: "Memory of the device that no process has"}
	poolUsed = &Metric{Path: "pool.used", Unit: Bytes, Labels: []string{"gpu", "pool"},
		Help: "Memory of open buffers of a pool of page-locked memory"}
	poolInFlight = &Metric{Path: "pool.in_flight", Unit: Bytes, Labels: []string{"gpu", "pool"},
		Help: "Memory of closed buffers of a pool of page-locked memory that are not known to be done"}
	poolPageLocked = &Metric{Path: "pool.page_locked", Unit: Bytes, Labels: []string{"gpu", "pool"},
		Help: "Memory that a pool has page-locked"}
	poolPageLockedPeak = &Metric{Path: "pool.page_locked.peak", Unit: Bytes, Labels: []string{"gpu", "pool"},
		Help: "The most memory that a pool had page-locked at once"}
	poolHits = &Metric{Path: "pool.hits", Counter: true, Labels: []string{"gpu", "pool"},
		Help: "Allocations of a pool of page-locked memory that got the memory of a closed buffer of their size"}
	poolCalls = &Metric{Path: "pool.driver_calls", Counter: true, Labels: []string{"gpu", "pool"},
		Help: "Driver calls by which a pool page-locked or freed memory"}
	poolTime = &Metric{Path: "pool.driver", Unit: Seconds, Counter: true, Labels: []string{"gpu", "pool"},
		Help: "Time in the driver calls by which a pool page-locked or freed memory"}
	devicePoolUsed = &Metric{Path: "device_pool.used", Unit: Bytes, Labels: []string{"gpu", "pool"},
		Help: "Device memory that buffers of a memory pool use"}
	devicePoolUsedPeak = &Metric{Path: "device_pool.used.peak", Unit: Bytes, Labels: []string{"gpu", "pool"},
		Help: "The most device memory that buffers of a memory pool used at once"}
	devicePoolReserved = &Metric{Path: "device_pool.reserved", Unit: Bytes, Labels: []string{"gpu", "pool"},
		Help: "Device memory that a memory pool has taken from the GPU"}
	devicePoolReservedPeak = &Metric{Path: "device_pool.reserved.peak", Unit: Bytes, Labels: []string{"gpu", "pool"},
		Help: "The most device memory that a memory pool had taken from the GPU at once"}
)

// All returns all metrics in the order of [Set.Read]. The caller must not change them.
func All() []*Metric {
	return []*Metric{
		gpuInfo, pageLocked, pageLockedPeak, pageLockedLimit, stagingInUse, stagingLimit, deviceSize, deviceFree,
		poolUsed, poolInFlight, poolPageLocked, poolPageLockedPeak, poolHits, poolCalls, poolTime,
		devicePoolUsed, devicePoolUsedPeak, devicePoolReserved, devicePoolReservedPeak,
	}
}
