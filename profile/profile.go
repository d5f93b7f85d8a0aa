package profile

import (
	"reflect"

	"github.com/ferrygpu/ferry/cu"
)

// Schema is the version of the document.
const Schema = "ferry.profile/2"

// Profile is one machine. It is read-only once loaded and safe for concurrent use.
type Profile struct {
	Schema  string            `json:"schema"`  // "ferry.profile/2"
	Name    string            `json:"name"`    // such as "h200"
	Title   string            `json:"title"`   // the device's product name, such as "NVIDIA H200"
	About   string            `json:"about"`   // one or two sentences about the machine
	Sources map[string]Source `json:"sources"` // the sources of the numbers, by the names that the fields below use

	Driver     Number            `json:"driver_version"`  // the result of cuDriverGetVersion: 13000 for 13.0
	Memory     Number            `json:"memory_bytes"`    // device memory
	Reserved   Number            `json:"reserved_bytes"`  // the part of the device memory that is never free
	Attributes map[string]Number `json:"attributes"`      // by name: CU_DEVICE_ATTRIBUTE_* without the prefix
	Priority   Priority          `json:"stream_priority"` // the range of stream priorities

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

// Source describes where numbers come from and how certain they are.
type Source struct {
	Confidence Confidence `json:"confidence"`
	Text       string     `json:"text"` // by whom and where they were measured or published
}

// Confidence is how certain a number is.
type Confidence string

// Confidences, the most certain first.
const (
	Measured  Confidence = "measured"  // on this machine, by Ferry
	Datasheet Confidence = "datasheet" // published by the maker
	Reported  Confidence = "reported"  // by others, of a machine of its kind, in a public place that the text names
	Derived   Confidence = "derived"   // calculated from or fitted to such numbers
	Guess     Confidence = "guess"     // only plausible
)

// Confidences returns all confidences, the most certain first.
func Confidences() []Confidence { return []Confidence{Measured, Datasheet, Reported, Derived, Guess} }

// Priority is the range of stream priorities.
type Priority struct {
	Least    Number `json:"least"`    // the priority that runs last
	Greatest Number `json:"greatest"` // the priority that runs first, the lower number
}

// Link is the bus between host and device. Its figures are for a kernel's own reads and
// writes of host memory. Copies have curves of their own.
type Link struct {
	Generation Number `json:"pcie_generation"` // 0 if the link is not PCI Express
	Lanes      Number `json:"pcie_lanes"`      // 0 if the link is not PCI Express
	// The bytes that the link moves one way in a second, if there were no headers. A
	// request of S bytes moves at payload * S/(S+header).
	Payload Number `json:"payload_bytes_per_s"`
	Header  Number `json:"header_bytes"` // of one request
	// How many reads can be in flight at once, each for the round trip. Requests of S
	// bytes move at most at tags * S/(round trip).
	Tags      Number `json:"tags"`
	RoundTrip Number `json:"round_trip_ns"` // of one read
	// The time of one read that is alone on the link; round_trip_ns if left out.
	Latency Number `json:"latency_ns,omitempty"`
	// The least time from one read of a kernel to the next, whatever its size, while all
	// are within reach_bytes, of which the device keeps the addresses. If left out, reads
	// are bounded by tags and round_trip_ns only.
	Request Number `json:"request_ns,omitempty"`
	Reach   Number `json:"reach_bytes,omitempty"`
	// The least time from one write of a kernel to the next, whatever its size. If left
	// out, only their bytes count.
	Write Number `json:"write_ns,omitempty"`
	// The time for which an atomic operation on host memory keeps others from its line of
	// 64 bytes; latency_ns if left out.
	Lock Number `json:"lock_ns,omitempty"`
	// The cost of traffic in both directions: the longer direction takes this part of
	// the shorter direction's time in addition. 0 is full duplex, 1 is half duplex.
	Duplex Number `json:"duplex_cost"`
	// The same for a kernel that writes host memory beside a copy to the device, and for a
	// kernel that reads host memory beside a copy to the host: requests for reads have to
	// pass the writes. duplex_cost if left out.
	KernelWrites Number `json:"kernel_writes_cost,omitempty"`
	KernelReads  Number `json:"kernel_reads_cost,omitempty"`
	// 1 if a device reaches the memory of another one directly, else 0.
	PeerAccess Number `json:"peer_access"`
	// The additional time of a device's access to page-locked memory that the CPU has
	// just written. The cause is that the bytes are still modified in the CPU's caches.
	// The access is a copy in either direction or a kernel's read. If the CPU has
	// written n more bytes since, k bytes cost the increase of the curve from n to n+k.
	Fresh Curve `json:"fresh"`
}

// Calls is the host's time in driver calls that submit work, in nanoseconds.
type Calls struct {
	MemcpyAsync Number `json:"memcpy_async_ns"`           // an asynchronous copy
	Launch      Number `json:"launch_ns"`                 // a kernel launch
	GraphLaunch Number `json:"graph_launch_ns,omitempty"` // a graph launch; launch_ns if left out
	Record      Number `json:"event_record_ns"`           // recording an event
	Write       Number `json:"write_value_ns,omitempty"`  // writing a value at a point of a stream; event_record_ns if left out
	Query       Number `json:"query_ns"`                  // querying an event or a stream
	Other       Number `json:"other_ns"`                  // any other call
}

// Queue is the time from one operation of a stream to the next, in nanoseconds.
type Queue struct {
	Start  Number `json:"start_ns"`  // from the end of the call to the start of the work, on an idle stream
	Gap    Number `json:"gap_ns"`    // from the end of one operation to the start of the next in its stream
	Switch Number `json:"switch_ns"` // like gap_ns, if the next operation uses another engine: a kernel after a copy, or a copy after a kernel
	Sync   Number `json:"sync_ns"`   // from the end of the last operation until the waiting host continues
	// The least time from the start of one copy over the link to the start of the next,
	// in any stream.
	Copy Number `json:"copy_ns,omitempty"`
	// From the end of one node of a graph to the start of the next; gap_ns if left out.
	Node Number `json:"graph_node_ns,omitempty"`
	// The write of a value at a point of a stream, from the end of the work before it;
	// gap_ns if left out.
	Write Number `json:"write_value_ns,omitempty"`
	// From the end of work whose event another stream waits for to the start of the next
	// work there; 0 if left out.
	Event Number `json:"event_ns,omitempty"`
	// The time of a host function that does nothing and follows another one: the driver's
	// thread calls it and lets the stream go on. sync_ns if left out.
	HostFunction Number `json:"host_function_ns,omitempty"`
	// The additional time of a host function that does not follow another one: the
	// driver's thread has to wake.
	HostWake Number `json:"host_wake_ns,omitempty"`
	// From the end of a kernel to the time that an event after it records: the device has
	// to notice the end and write back what the kernel wrote.
	Record Number `json:"kernel_record_ns,omitempty"`
}

// Copy is the time that a copy occupies an engine, by bytes.
type Copy struct {
	PinnedHtoD        Curve `json:"pinned_htod"`         // page-locked memory to the device
	PinnedDtoH        Curve `json:"pinned_dtoh"`         // device to page-locked memory
	WriteCombinedHtoD Curve `json:"write_combined_htod"` // write-combined memory to the device
	PageableHtoD      Curve `json:"pageable_htod"`       // pageable memory to the device, until the call returns
	PageableDtoH      Curve `json:"pageable_dtoh"`       // device to pageable memory
	// The additional time of a pageable copy to the host after other work in its stream,
	// from the end of that work.
	PageableBusy Curve `json:"pageable_dtoh_busy,omitempty"`
	// Copies of rows over the link, with gaps between the rows on one side: the least
	// bytes that a row counts as, and the additional time of the whole copy.
	Row     Number `json:"row_bytes,omitempty"`
	Pitched Number `json:"pitched_ns,omitempty"`

	DtoD   Curve `json:"dtod"`   // within the device
	Peer   Curve `json:"peer"`   // from one device to another
	HtoH   Curve `json:"htoh"`   // within the host
	Memset Curve `json:"memset"` // a fill of device memory
	// The largest pageable copy to the device that returns before the data has arrived.
	StagedBytes Number `json:"staged_bytes"`
}

// Kernel is what the time of a kernel consists of.
type Kernel struct {
	Floor        Number `json:"floor_ns"`                    // the device's time for an empty kernel
	Bandwidth    Number `json:"memory_bytes_per_s"`          // device memory, reads and writes together
	Cached       Number `json:"cache_bytes_per_s,omitempty"` // data that fits into the last-level cache
	Instructions Number `json:"warp_instructions_per_s"`     // the whole device

	// The average time of an instruction of a warp that is alone on its multiprocessor.
	// If left out, the longest warp of a kernel does not limit its time.
	Latency Number `json:"instruction_latency_ns,omitempty"`
	// The latencies of loads that the second-level cache serves, and of loads from device
	// memory. If left out, figures of the architecture are used.
	CacheLatency  Number `json:"cache_latency_ns,omitempty"`
	MemoryLatency Number `json:"memory_latency_ns,omitempty"`
	// The first-level cache of one multiprocessor with its shared memory. If left out, a
	// figure of the architecture is used.
	L1 Number `json:"l1_bytes,omitempty"`
	// The time to start one block of a grid.
	Block Number `json:"block_ns,omitempty"`
	// The time that an atomic operation of one thread on a word occupies the slice of the
	// second-level cache. Lanes of a warp on different words of 32 bytes share it.
	Atomic Number `json:"atomic_ns,omitempty"`
	// The time from one store to a part of a line of device memory to the next, if a warp
	// stores to several lines. If left out, such stores do not wait for each other.
	Scattered Number `json:"scattered_store_ns,omitempty"`
	// The additional time of a kernel's reads of device memory that a copy from the host
	// has just written, by bytes.
	Copied Curve `json:"after_copy,omitempty"`
	// The time of traffic with device memory, cached or not. If left out, it is
	// calculated from cache_bytes_per_s where the bytes fit half of the last-level cache,
	// else from memory_bytes_per_s.
	Memory Curve `json:"device_memory,omitempty"`
}

// Managed is the cost of moving managed pages.
type Managed struct {
	DeviceFault  Curve  `json:"device_fault,omitempty"` // a kernel touches bytes that are on the host; not used if device_service is present
	HostFault    Curve  `json:"host_fault,omitempty"`   // the CPU touches bytes that are on the device; not used if host_service is present
	PrefetchHtoD Curve  `json:"prefetch_htod"`          // cuMemPrefetchAsync to the device
	PrefetchDtoH Curve  `json:"prefetch_dtoh"`          // cuMemPrefetchAsync to the host
	PrefetchCall Number `json:"prefetch_call_ns"`       // the host's time in the call

	// The additional time of a prefetch in a stream that has work before it.
	PrefetchBusy Curve `json:"prefetch_busy,omitempty"`

	// The costs of serving faults, by part of the work.
	DeviceService Service `json:"device_service,omitempty"`
	HostService   Service `json:"host_service,omitempty"`
}

// Service is the costs of the managed memory driver's work when it serves faults, in
// nanoseconds.
type Service struct {
	Wake    Number `json:"wake_ns,omitempty"` // before the first batch of faults of a kernel
	Batch   Number `json:"batch_ns"`          // each batch of a device's faults
	Block   Number `json:"block_ns"`          // each time that a block of 2 MiB is served
	Fault   Number `json:"fault_ns"`          // each page that faulted
	Begin   Number `json:"begin_ns"`          // each block that was never touched before
	Run     Number `json:"run_ns"`            // each copy of adjacent pages
	MiB     Number `json:"mib_ns"`            // each MiB that is copied
	ZeroMiB Number `json:"zero_mib_ns"`       // each MiB of pages that are touched for the first time
	// Each block of which a kernel has moved only a part to the device, and each MiB of
	// that part in addition.
	Part    Number `json:"part_ns,omitempty"`
	PartMiB Number `json:"part_mib_ns,omitempty"`
	// Each page advised as read-mostly that a kernel writes while another processor holds
	// a copy: the driver removes the copies page by page.
	Collapse Number `json:"collapse_ns,omitempty"`
}

// Known reports whether the profile has these costs.
func (s *Service) Known() bool { return s != nil && s.Batch.Source != "" }

// Own is the cost of owning memory: the host's time in calls, by bytes.
type Own struct {
	HostAlloc      Curve  `json:"host_alloc"`      // allocating page-locked memory
	HostFree       Curve  `json:"host_free"`       // freeing page-locked memory
	Register       Curve  `json:"register"`        // page-locking existing memory
	Unregister     Curve  `json:"unregister"`      // unregistering existing memory
	DeviceAllocate Number `json:"device_alloc_ns"` // allocating device memory
	DeviceFree     Number `json:"device_free_ns"`  // freeing device memory
	PoolAllocate   Number `json:"pool_alloc_ns"`   // allocating from a memory pool

	DeviceGrow   Curve `json:"device_grow,omitempty"`   // additional time of an allocation for which the driver gets memory from the system, 2 MiB at a time
	DeviceShrink Curve `json:"device_shrink,omitempty"` // additional time of a free after which the driver returns memory to the system
	PoolGrow     Curve `json:"pool_grow,omitempty"`     // additional time of an allocation for which a pool grows; the pool's threshold determines when it shrinks
}

// Staging is the best way to move pageable memory through page-locked memory, and the
// host's cost of copying between the two. Sizes are in bytes.
type Staging struct {
	Chunk   Number `json:"chunk_bytes"` // size of one copy by the device
	Slots   Number `json:"slots"`       // the most chunks in flight
	Block   Number `json:"block_bytes"` // size of one copy by a goroutine
	Threads Number `json:"threads"`     // the most goroutines that copy for one transfer

	DirectHtoD Number `json:"direct_htod_bytes"` // up to this size the driver's own pageable copy to the device is as fast
	DirectDtoH Number `json:"direct_dtoh_bytes"` // up to this size the driver's own pageable copy to the host is as fast

	Fill      Number `json:"fill_bytes_per_s"`       // one thread copies from pageable to page-locked memory
	FillMost  Number `json:"fill_most_bytes_per_s"`  // all threads together, from pageable to page-locked memory
	Drain     Number `json:"drain_bytes_per_s"`      // one thread copies from page-locked to pageable memory
	DrainMost Number `json:"drain_most_bytes_per_s"` // all threads together, from page-locked to pageable memory
}

// Host is the part of the machine around the device that matters to memory.
type Host struct {
	Memory Number `json:"memory_bytes,omitempty"` // memory of the host, which bounds page-locked memory; no bound if left out
	// What all page-locked memory together may have; memory_bytes if left out.
	Pinned Number `json:"pinned_bytes,omitempty"`
	// What one allocation of write-combined memory may have. A larger one is
	// CUDA_ERROR_INVALID_VALUE. No bound if left out.
	WriteCombined Number `json:"write_combined_bytes,omitempty"`

	Page  Number `json:"page_bytes"`      // size of the CPU's ordinary pages
	Huge  Number `json:"huge_page_bytes"` // size of its huge pages
	IOMMU Number `json:"iommu"`           // 1 if an IOMMU translates the device's accesses to host memory, else 0
	// The time of one core's reads of cached memory. The software GPU charges it for
	// page-locked memory, where it learns of the read.
	CachedRead Curve `json:"cached_read,omitempty"`
	// The time of one core's writes to page-locked memory, where the software GPU learns of
	// them. They cost nothing if it is left out.
	CachedWrite Curve `json:"cached_write,omitempty"`
	// The additional time of the CPU's reads of page-locked memory, compared with
	// pageable memory. It has no points if both are cached alike.
	UncachedRead Curve `json:"uncached_read"`
	// The additional time of the CPU's reads of write-combined memory.
	WriteCombinedRead Curve `json:"write_combined_read"`
}

// Translation is the time to translate one address and to reach memory when nothing is
// cached.
type Translation struct {
	CPULevel     Number `json:"cpu_level_ns"`     // one level of the CPU's page walk
	GPULevel     Number `json:"gpu_level_ns"`     // one level of the device's page walk
	IOMMULevel   Number `json:"iommu_level_ns"`   // one level of the IOMMU's page walk
	ATS          Number `json:"ats_ns"`           // a translation by the host on the device's request
	DeviceMemory Number `json:"device_memory_ns"` // an access of the device to its own memory
	HostMemory   Number `json:"host_memory_ns"`   // an access of the CPU to host memory
	Peer         Number `json:"peer_ns"`          // an access to another device's memory, over the link between them
}

// Confidence returns the confidence of a source, such as Number.Source.
func (p *Profile) Confidence(source string) Confidence {
	if p == nil {
		return ""
	}
	return p.Sources[source].Confidence
}

// Count returns how many numbers and curves have each confidence. It counts those that
// predictions use, so not those of Tuning.
func (p *Profile) Count() map[Confidence]int {
	count := map[Confidence]int{}
	if p != nil {
		p.tally(reflect.ValueOf(*p), count)
	}
	return count
}

func (p *Profile) tally(v reflect.Value, count map[Confidence]int) {
	switch x := v.Interface().(type) {
	case Number:
		p.tallyOne(x.Source, count)
	case Curve:
		p.tallyOne(x.Source, count)
	case Tuning: // no prediction uses it
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

// tallyOne counts one source. A field that was left out has none.
func (p *Profile) tallyOne(source string, count map[Confidence]int) {
	if source != "" {
		count[p.Confidence(source)]++
	}
}

// Attribute returns the value of a device attribute, or false if the profile has none.
func (p *Profile) Attribute(a cu.DeviceAttribute) (int32, bool) {
	if p == nil {
		return 0, false
	}
	n, ok := p.Attributes[attributeName(a)]
	return int32(n.Value), ok
}

// Has reports whether attribute a is present and not zero.
func (p *Profile) Has(a cu.DeviceAttribute) bool {
	v, ok := p.Attribute(a)
	return ok && v != 0
}
