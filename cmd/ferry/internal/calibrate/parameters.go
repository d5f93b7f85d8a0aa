package calibrate

// How a number follows from an error.
type how int

const (
	asTime  how = iota // it grows as the time does
	asRate             // it falls as the time grows
	perUnit            // the error of one unit of the size is added
)

// numbers are the numbers that move, by the largest case of a kind.
var numbers = []struct {
	paths []string
	kind  string
	how   how
}{
	{[]string{"calls.event_record_ns"}, "event records", perUnit},
	{[]string{"calls.launch_ns"}, "launches, then a wait", perUnit},
	{[]string{"queue.graph_node_ns"}, "graph of launches", perUnit},
	{[]string{"kernel.warp_instructions_per_s"}, "kernel computes", asRate},
	{[]string{"kernel.instruction_latency_ns"}, "kernel computes in one block", asTime},
	{[]string{"kernel.block_ns"}, "kernel of many blocks", asTime},
	{[]string{"kernel.atomic_ns"}, "kernel adds atomically to one word", asTime},
	{[]string{"kernel.memory_bytes_per_s"}, "kernel copies on device", asRate},
	{[]string{"link.payload_bytes_per_s"}, "kernel writes pinned", asRate},
	{[]string{"link.round_trip_ns"}, "kernel reads pinned", asTime},
	{service("device"), "managed: kernel touches what the CPU wrote", asTime},
	{service("host"), "managed: CPU touches what a kernel wrote", asTime},
}

// service returns the numbers of the managed memory driver's work for faults.
func service(of string) (paths []string) {
	for _, n := range []string{"wake_ns", "batch_ns", "block_ns", "fault_ns", "begin_ns", "run_ns", "mib_ns", "zero_mib_ns"} {
		paths = append(paths, "managed."+of+"_service."+n)
	}
	return paths
}

// of is a kind whose times contain a curve.
type of struct {
	kind  string
	times int // bytes for each byte of the size
}

// curves are the curves that move. Each belongs to some kinds alone.
var curves = []struct {
	path  string
	kinds []of
}{
	{"copy.pinned_htod", []of{{"copy pinned in", 1}, {"copy registered in", 1}}},
	{"copy.pinned_dtoh", []of{{"copy pinned out", 1}, {"copy registered out", 1}}},
	{"copy.write_combined_htod", []of{{"copy write-combined in", 1}}},
	{"copy.pageable_htod", []of{{"copy pageable in, cuMemcpy", 1}}},
	{"copy.pageable_dtoh", []of{{"copy pageable out, cuMemcpy", 1}}},
	{"copy.dtod", []of{{"copy on device", 1}}},
	{"copy.htoh", []of{{"copy host to host", 1}}},
	{"copy.memset", []of{{"fill", 1}}},
	{"kernel.device_memory", []of{{"kernel copies on device", 2}, {"kernel fills", 1}, {"kernel adds vectors", 3}, {"kernel reads words", 1}}},
	{"managed.prefetch_htod", []of{{"managed: prefetch to the device", 1}}},
	{"managed.prefetch_dtoh", []of{{"managed: prefetch to the host", 1}}},
	{"own.host_alloc", []of{{"host memory: allocate", 1}}},
	{"own.host_free", []of{{"host memory: free", 1}}},
	{"own.register", []of{{"host memory: register", 1}}},
	{"own.unregister", []of{{"host memory: unregister", 1}}},
	{"own.device_grow", []of{{"device memory: allocate", 1}}},
	{"own.device_shrink", []of{{"device memory: free", 1}}},
	{"own.pool_grow", []of{{"pool memory: allocate and free", 1}}},
}
