package profile

import (
	"reflect"

	"github.com/ferrygpu/ferry/cu"
)

// Schema is the version of the document.
const Schema = "ferry.profile/2"

// Profile is one machine. It is read-only once loaded and safe for concurrent use.
type Profile struct {
	Schema  string            `json:"schema"`
	Name    string            `json:"name"`    // "h200"
	Title   string            `json:"title"`   // the device's product name, "NVIDIA H200"
	About   string            `json:"about"`   // a sentence or two on the machine
	Sources map[string]Source `json:"sources"` // what the source words below stand for

	Driver     Number            `json:"driver_version"` // as cuDriverGetVersion, 13000 for 13.0
	Memory     Number            `json:"memory_bytes"`
	Reserved   Number            `json:"reserved_bytes"` // of Memory, never free
	Attributes map[string]Number `json:"attributes"`     // CU_DEVICE_ATTRIBUTE_* without the prefix
	Priority   Priority          `json:"stream_priority"`

	Link    Link    `json:"link"`
	Calls   Calls   `json:"calls"`
	Queue   Queue   `json:"queue"`
	Copy    Copy    `json:"copy"`
	Kernel  Kernel  `json:"kernel"`
	Managed Managed `json:"managed"`
	Own     Own     `json:"own"`
	Staging Staging `json:"staging"`
	Tuning  Tuning  `json:"tuning,omitempty"`

	Host        Host        `json:"host"`
	Translation Translation `json:"translation"`
}

// Source is where numbers come from and how sure they are.
type Source struct {
	Confidence Confidence `json:"confidence"`
	Text       string     `json:"text"` // who measured or published them, and where
}

// Confidence is how sure a number is.
type Confidence string

// Confidences, surest first.
const (
	Measured  Confidence = "measured"  // on this machine, or on one of its kind by somebody who published it
	Datasheet Confidence = "datasheet" // the maker says so
	Derived   Confidence = "derived"   // calculated from or fitted to such numbers
	Guess     Confidence = "guess"     // plausible, no more
)

var confidences = []Confidence{Measured, Datasheet, Derived, Guess}

// Number is a value and where it comes from.
type Number struct {
	Value  float64 `json:"value"`
	Source string  `json:"source"` // a key of Profile.Sources
}

// Int is the value as an integer.
func (n Number) Int() int { return int(n.Value) }

// Priority is the range of stream priorities.
type Priority struct {
	Least    Number `json:"least"`
	Greatest Number `json:"greatest"`
}

// Link is the bus between host and device, as a kernel's own reads and writes
// of host memory use it. Copies have curves of their own.
type Link struct {
	Generation Number `json:"pcie_generation"`
	Lanes      Number `json:"pcie_lanes"`
	// Payload is what the link moves one way, bytes a second, were there no
	// headers: a request of S bytes moves at Payload*S/(S+Header).
	Payload Number `json:"payload_bytes_per_s"`
	Header  Number `json:"header_bytes"`
	// Tags reads can be under way at once, each for RoundTrip: small requests
	// move at most Tags*S/RoundTrip.
	Tags      Number `json:"tags"`
	RoundTrip Number `json:"round_trip_ns"`
	// Duplex is the part of the shorter direction's time that traffic both ways
	// costs the longer: 0 is full duplex, 1 is none.
	Duplex Number `json:"duplex_cost"`
	// PeerAccess is 1 where a device reaches the memory of another directly.
	PeerAccess Number `json:"peer_access"`
	// Fresh is what a copy or a kernel's reads take longer by, for the bytes of an
	// allocation that the CPU has just written: they lie modified in its caches.
	// They lie there until it writes something else: what was written n bytes ago
	// costs what the curve rises by from n on. A copy to them costs the same.
	Fresh Curve `json:"fresh"`
}

// Calls is the host's time in driver calls that queue work, in nanoseconds.
type Calls struct {
	MemcpyAsync Number `json:"memcpy_async_ns"`
	Launch      Number `json:"launch_ns"`
	GraphLaunch Number `json:"graph_launch_ns,omitempty"` // missing, it is Launch
	Record      Number `json:"event_record_ns"`
	Query       Number `json:"query_ns"`
	Other       Number `json:"other_ns"` // any other call
}

// Queue is what it takes work to move along, in nanoseconds.
type Queue struct {
	Start  Number `json:"start_ns"`  // from the end of the call to the start of the work, on an idle stream
	Gap    Number `json:"gap_ns"`    // from the end of one operation to the start of the next in its stream
	Switch Number `json:"switch_ns"` // the same, when another engine takes over: a kernel after a copy, a copy after a kernel
	Sync   Number `json:"sync_ns"`   // from the end of the last operation until the waiting host goes on
	// Copy is from the start of one copy over the link to that of the next, at
	// least, in any stream.
	Copy Number `json:"copy_ns,omitempty"`
	// Node is Gap between the nodes of a graph. Missing, it is Gap.
	Node Number `json:"graph_node_ns,omitempty"`
}

// Copy is the time an engine is busy with a copy, by bytes.
type Copy struct {
	PinnedHtoD        Curve `json:"pinned_htod"`
	PinnedDtoH        Curve `json:"pinned_dtoh"`
	WriteCombinedHtoD Curve `json:"write_combined_htod"`
	PageableHtoD      Curve `json:"pageable_htod"` // until the call returns
	PageableDtoH      Curve `json:"pageable_dtoh"`
	// PageableBusy is what a pageable copy to the host takes longer in a stream that
	// has work before it, once that is done.
	PageableBusy Curve `json:"pageable_dtoh_busy,omitempty"`
	DtoD         Curve `json:"dtod"`
	Peer         Curve `json:"peer"`
	HtoH         Curve `json:"htoh"`
	Memset       Curve `json:"memset"`
	// StagedBytes is the largest pageable copy to the device that returns before
	// the data has arrived.
	StagedBytes Number `json:"staged_bytes"`
}

// Kernel is the time of a kernel.
type Kernel struct {
	Floor        Number `json:"floor_ns"`                    // of an empty one, on the device
	Bandwidth    Number `json:"memory_bytes_per_s"`          // of device memory, reads and writes together
	Cached       Number `json:"cache_bytes_per_s,omitempty"` // of what fits the last-level cache
	Instructions Number `json:"warp_instructions_per_s"`     // of the whole device

	// Latency is what an instruction takes a warp that has the multiprocessor to
	// itself, on average. Missing, a warp is never what a kernel waits for.
	Latency Number `json:"instruction_latency_ns,omitempty"`
	// Block is what each block of a grid takes to be started.
	Block Number `json:"block_ns,omitempty"`
	// Atomic is what each thread's atomic operation on one word takes its unit.
	Atomic Number `json:"atomic_ns,omitempty"`
	// Copied is what reads take longer by, for the bytes of device memory that a
	// copy from the host has just written.
	Copied Curve `json:"after_copy,omitempty"`
	// Memory is what bytes of device memory take, cached or not. Missing, they move
	// at Bandwidth, and at Cached where half of the last-level cache holds them.
	Memory Curve `json:"device_memory,omitempty"`
}

// Managed is what moving managed pages costs.
type Managed struct {
	// Where the services below are known these two curves are not needed.
	DeviceFault  Curve  `json:"device_fault,omitempty"` // a kernel touches bytes that are on the host
	HostFault    Curve  `json:"host_fault,omitempty"`   // the CPU touches bytes that are on the device
	PrefetchHtoD Curve  `json:"prefetch_htod"`          // cuMemPrefetchAsync to the device
	PrefetchDtoH Curve  `json:"prefetch_dtoh"`          // to the host
	PrefetchCall Number `json:"prefetch_call_ns"`       // the host's time in the call

	// PrefetchBusy is what a prefetch takes longer in a stream that has work before it.
	PrefetchBusy Curve `json:"prefetch_busy,omitempty"`

	// What serving faults costs by piece. Where these are missing the first two
	// curves stand for all of it.
	DeviceService Service `json:"device_service,omitempty"`
	HostService   Service `json:"host_service,omitempty"`
}

// Service is what pieces of the managed memory driver's work cost when it serves
// faults, in nanoseconds.
type Service struct {
	Wake    Number `json:"wake_ns,omitempty"` // of the first batch of a kernel's, before it
	Batch   Number `json:"batch_ns"`          // of each batch of a device's faults
	Block   Number `json:"block_ns"`          // of each service of a block of 2 MiB
	Fault   Number `json:"fault_ns"`          // of each page that faulted
	Begin   Number `json:"begin_ns"`          // of each block that nobody had touched
	Run     Number `json:"run_ns"`            // of each copy of neighbouring pages
	MiB     Number `json:"mib_ns"`            // of each MiB copied
	ZeroMiB Number `json:"zero_mib_ns"`       // of each MiB that nobody had touched
}

// Known says whether the profile has the pieces.
func (s *Service) Known() bool { return s.Batch.Source != "" }

// Own is what owning memory costs, the host's time by bytes.
type Own struct {
	HostAlloc      Curve  `json:"host_alloc"`
	HostFree       Curve  `json:"host_free"`
	Register       Curve  `json:"register"`
	Unregister     Curve  `json:"unregister"`
	DeviceAllocate Number `json:"device_alloc_ns"`
	DeviceFree     Number `json:"device_free_ns"`
	PoolAllocate   Number `json:"pool_alloc_ns"`

	// What it takes longer when memory must come from the system, or goes back to
	// it: device memory comes 2 MiB at a time, a pool's as its threshold says.
	DeviceGrow   Curve `json:"device_grow,omitempty"`
	DeviceShrink Curve `json:"device_shrink,omitempty"`
	PoolGrow     Curve `json:"pool_grow,omitempty"`
}

// Staging is how ordinary memory goes through page-locked memory best, and what
// copying between the two costs the host. Sizes are in bytes.
type Staging struct {
	Chunk   Number `json:"chunk_bytes"` // of one copy of the device
	Slots   Number `json:"slots"`       // chunks under way
	Block   Number `json:"block_bytes"` // of one copy of a thread
	Threads Number `json:"threads"`
	// Up to these sizes the driver's own copies of ordinary memory are as fast.
	DirectHtoD Number `json:"direct_htod_bytes"`
	DirectDtoH Number `json:"direct_dtoh_bytes"`
	// One thread copies ordinary to page-locked memory at Fill bytes a second, all
	// together at FillMost; Drain is the way back.
	Fill      Number `json:"fill_bytes_per_s"`
	FillMost  Number `json:"fill_most_bytes_per_s"`
	Drain     Number `json:"drain_bytes_per_s"`
	DrainMost Number `json:"drain_most_bytes_per_s"`
}

// Host is the machine around the device, as far as the device's memory shows it.
type Host struct {
	Page  Number `json:"page_bytes"`      // of the CPU's ordinary pages
	Huge  Number `json:"huge_page_bytes"` // of its huge ones
	IOMMU Number `json:"iommu"`           // 1: what the device asks of host memory is translated once more
	// UncachedRead is what the CPU's reads of page-locked memory take longer by than
	// those of ordinary memory; without points where it is cached alike.
	UncachedRead Curve `json:"uncached_read"`
	// WriteCombinedRead is the same for write-combined memory.
	WriteCombinedRead Curve `json:"write_combined_read"`
}

// Translation is what it takes to translate one address and to reach one place in
// memory when nothing is cached.
type Translation struct {
	CPULevel     Number `json:"cpu_level_ns"`   // the CPU's walk, a level
	GPULevel     Number `json:"gpu_level_ns"`   // the device's walk, a level
	IOMMULevel   Number `json:"iommu_level_ns"` // the IOMMU's walk, a level
	ATS          Number `json:"ats_ns"`         // the device asks the host to translate
	DeviceMemory Number `json:"device_memory_ns"`
	HostMemory   Number `json:"host_memory_ns"` // by the CPU
	Peer         Number `json:"peer_ns"`        // another device's memory, over the link between
}

// Confidence is how sure what has this source is, such as Number.Source.
func (p *Profile) Confidence(source string) Confidence { return p.Sources[source].Confidence }

// Count is how many numbers and curves that predictions come from have each
// confidence.
func (p *Profile) Count() map[Confidence]int {
	count := map[Confidence]int{}
	p.tally(reflect.ValueOf(*p), count)
	return count
}

func (p *Profile) tally(v reflect.Value, count map[Confidence]int) {
	switch x := v.Interface().(type) {
	case Number:
		p.tallyOne(x.Source, count)
	case Curve:
		p.tallyOne(x.Source, count)
	case Tuning: // Ferry decides by it; nothing is predicted from it
	case map[string]Number:
		for _, n := range x {
			count[p.Confidence(n.Source)]++
		}
	default:
		for i := 0; v.Kind() == reflect.Struct && i < v.NumField(); i++ {
			p.tally(v.Field(i), count)
		}
	}
}

// tallyOne counts what has a source; what is missing has none.
func (p *Profile) tallyOne(source string, count map[Confidence]int) {
	if source != "" {
		count[p.Confidence(source)]++
	}
}

// Attribute is the device's answer to a; false if the profile has none.
func (p *Profile) Attribute(a cu.DeviceAttribute) (int32, bool) {
	n, ok := p.Attributes[attributeName(a)]
	return int32(n.Value), ok
}

// Has says whether attribute a is there and not zero.
func (p *Profile) Has(a cu.DeviceAttribute) bool {
	v, ok := p.Attribute(a)
	return ok && v != 0
}
