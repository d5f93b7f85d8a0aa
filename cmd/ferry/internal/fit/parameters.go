package fit

import (
	"maps"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry/internal/measure/bench/grid"
	"github.com/ferrygpu/ferry/profile"
)

// fitSource is the source of fitted values.
const fitSource = "fit"

// number is a number to fit.
type number struct {
	path  string // in the document
	in    func(*profile.Profile) *profile.Number
	start float64 // its value when every fit begins
	rate  bool    // times are linear in its inverse
}

// group is numbers that are fitted together, to cases of some kinds and sizes.
type group struct {
	kinds    []string
	min, max int // sizes of the cases
	numbers  []number
}

// maxStep is the size of the largest step to which a group is fitted. Steps of all kinds
// are predicted at once, which takes long.
const maxStep = 1 << 17

func (g *group) wants(c grid.Case) bool {
	if strings.HasPrefix(c.Kind, step) && c.Size > maxStep {
		return false
	}
	return g.min <= c.Size && c.Size <= g.max && slices.Contains(g.kinds, c.Kind)
}

// curve is a curve to fit.
type curve struct {
	path  string // in the document
	in    func(*profile.Profile) *profile.Curve
	zero  bool // it is 0 ns for 0 bytes
	kinds []part
	max   int // the largest size of the cases; 0 is any
}

// part is a kind whose times contain a curve.
type part struct {
	name  string
	bytes int // bytes for each unit of the kind's size; 0 is 1
	times int // how often the kind's time contains the curve's; 0 is 1
}

// wants reports whether a curve is moved by a case.
func (c *curve) wants(x grid.Case) bool {
	return slices.ContainsFunc(c.kinds, func(k part) bool { return k.wants(c, x) })
}

func (k part) wants(c *curve, x grid.Case) bool {
	return x.Kind == k.name && (c.max == 0 || x.Size <= c.max)
}

// Sizes.
const (
	kib = 1 << 10
	mib = 1 << 20
)

// groups are the numbers to fit, in the order of the fit. The starts are round figures
// near those of such machines: the gap is a microsecond, the link's rate is that of PCIe.
var groups = []group{
	{[]string{"event records"}, 1, 256, []number{
		{"calls.event_record_ns", func(p *profile.Profile) *profile.Number { return &p.Calls.Record }, 1000, false},
	}},
	{[]string{"event record and wait", "launches, then a wait", "graph of launches", "kernel fills", "kernel copies on device", "kernel of many blocks"}, 1, 64 * kib, []number{
		{"calls.launch_ns", func(p *profile.Profile) *profile.Number { return &p.Calls.Launch }, 4000, false},
		{"calls.graph_launch_ns", func(p *profile.Profile) *profile.Number { return &p.Calls.GraphLaunch }, 2000, false},
		{"queue.start_ns", func(p *profile.Profile) *profile.Number { return &p.Queue.Start }, 3000, false},
		{"queue.sync_ns", func(p *profile.Profile) *profile.Number { return &p.Queue.Sync }, 2000, false},
		{"queue.graph_node_ns", func(p *profile.Profile) *profile.Number { return &p.Queue.Node }, 100, false},
		{"kernel.floor_ns", func(p *profile.Profile) *profile.Number { return &p.Kernel.Floor }, 1000, false},
		{"kernel.block_ns", func(p *profile.Profile) *profile.Number { return &p.Kernel.Block }, 0.5, false},
	}},
	{[]string{"copy in, 32 in a row", "copy both ways"}, 4 * kib, mib, []number{
		{"queue.gap_ns", func(p *profile.Profile) *profile.Number { return &p.Queue.Gap }, 1000, false},
		{"queue.copy_ns", func(p *profile.Profile) *profile.Number { return &p.Queue.Copy }, 2500, false},
	}},
	{[]string{step + "pinned", step + "write_combined", step + "zero_copy_in"}, 1 << 10, 1 << 14, []number{
		{"queue.switch_ns", func(p *profile.Profile) *profile.Number { return &p.Queue.Switch }, 3000, false},
	}},
	{[]string{"kernel computes"}, 16, 256, []number{
		{"kernel.warp_instructions_per_s", func(p *profile.Profile) *profile.Number { return &p.Kernel.Instructions }, 1e12, true},
	}},
	{[]string{"kernel computes in one block"}, 16, 16384, []number{
		{"kernel.instruction_latency_ns", func(p *profile.Profile) *profile.Number { return &p.Kernel.Latency }, 2, false},
	}},
	{[]string{"kernel adds atomically to one word", "kernel adds atomically to many"}, 1024, 1 << 19, []number{
		{"kernel.atomic_ns", func(p *profile.Profile) *profile.Number { return &p.Kernel.Atomic }, 0.75, false},
	}},
	{[]string{"copy both ways"}, mib, 64 * mib, []number{
		{"link.duplex_cost", func(p *profile.Profile) *profile.Number { return &p.Link.Duplex }, 0.2, false},
	}},
	{[]string{"kernel reads pinned", "kernel reads pinned words", "kernel writes pinned", "kernel reads and writes pinned",
		"kernel reads pinned words, stride 2", "kernel reads pinned words, stride 8", "kernel reads pinned words, stride 32"}, 4 * kib, 4 * mib, []number{
		{"link.payload_bytes_per_s", func(p *profile.Profile) *profile.Number { return &p.Link.Payload }, 6e10, true},
		{"link.tags", func(p *profile.Profile) *profile.Number { return &p.Link.Tags }, 1000, true},
		{"link.round_trip_ns", func(p *profile.Profile) *profile.Number { return &p.Link.RoundTrip }, 1500, false},
	}},
	{[]string{"managed: kernel first touches", "managed: kernel touches what the CPU wrote"}, 4 * kib, 64 * mib, []number{
		{"managed.device_service.wake_ns", func(p *profile.Profile) *profile.Number { return &p.Managed.DeviceService.Wake }, 30e3, false},
		{"managed.device_service.batch_ns", func(p *profile.Profile) *profile.Number { return &p.Managed.DeviceService.Batch }, 20e3, false},
		{"managed.device_service.block_ns", func(p *profile.Profile) *profile.Number { return &p.Managed.DeviceService.Block }, 5e3, false},
		{"managed.device_service.fault_ns", func(p *profile.Profile) *profile.Number { return &p.Managed.DeviceService.Fault }, 100, false},
		{"managed.device_service.begin_ns", func(p *profile.Profile) *profile.Number { return &p.Managed.DeviceService.Begin }, 2e3, false},
		{"managed.device_service.run_ns", func(p *profile.Profile) *profile.Number { return &p.Managed.DeviceService.Run }, 1e3, false},
		{"managed.device_service.mib_ns", func(p *profile.Profile) *profile.Number { return &p.Managed.DeviceService.MiB }, 100e3, false},
		{"managed.device_service.zero_mib_ns", func(p *profile.Profile) *profile.Number { return &p.Managed.DeviceService.ZeroMiB }, 80e3, false},
	}},
	{[]string{"managed: CPU first touches", "managed: CPU touches what a kernel wrote"}, 4 * kib, 32 * mib, []number{
		{"managed.host_service.block_ns", func(p *profile.Profile) *profile.Number { return &p.Managed.HostService.Block }, 10e3, false},
		{"managed.host_service.begin_ns", func(p *profile.Profile) *profile.Number { return &p.Managed.HostService.Begin }, 80e3, false},
		{"managed.host_service.run_ns", func(p *profile.Profile) *profile.Number { return &p.Managed.HostService.Run }, 5e3, false},
		{"managed.host_service.mib_ns", func(p *profile.Profile) *profile.Number { return &p.Managed.HostService.MiB }, 150e3, false},
		{"managed.host_service.zero_mib_ns", func(p *profile.Profile) *profile.Number { return &p.Managed.HostService.ZeroMiB }, 200e3, false},
	}},
}

// curves are the curves to fit. Each belongs to some kinds alone.
var curves = []curve{
	{"copy.pinned_htod", func(p *profile.Profile) *profile.Curve { return &p.Copy.PinnedHtoD }, false, []part{{"copy pinned in", 1, 1}, {"copy registered in", 1, 1}}, 0},
	{"copy.pinned_dtoh", func(p *profile.Profile) *profile.Curve { return &p.Copy.PinnedDtoH }, false, []part{{"copy pinned out", 1, 1}, {"copy registered out", 1, 1}}, 0},
	{"copy.write_combined_htod", func(p *profile.Profile) *profile.Curve { return &p.Copy.WriteCombinedHtoD }, false, []part{{"copy write-combined in", 1, 1}}, 0},
	{"copy.pageable_htod", func(p *profile.Profile) *profile.Curve { return &p.Copy.PageableHtoD }, false, []part{{"copy pageable in, cuMemcpy", 1, 1}}, 0},
	{"copy.pageable_dtoh", func(p *profile.Profile) *profile.Curve { return &p.Copy.PageableDtoH }, false, []part{{"copy pageable out, cuMemcpy", 1, 1}}, 0},
	{"copy.pageable_dtoh_busy", func(p *profile.Profile) *profile.Curve { return &p.Copy.PageableBusy }, false, []part{{step + "pageable", 4, 1}}, 0},
	{"copy.dtod", func(p *profile.Profile) *profile.Curve { return &p.Copy.DtoD }, false, []part{{"copy on device", 1, 1}}, 0},
	{"copy.htoh", func(p *profile.Profile) *profile.Curve { return &p.Copy.HtoH }, false, []part{{"copy host to host", 1, 1}}, 0},
	{"copy.memset", func(p *profile.Profile) *profile.Curve { return &p.Copy.Memset }, false, []part{{"fill", 1, 1}}, 0},
	{"link.fresh", func(p *profile.Profile) *profile.Curve { return &p.Link.Fresh }, true, []part{{"copy pinned in, just written", 1, 1}, {"copy pinned out to what was just written", 1, 1}}, 16 * mib}, // larger memory is written by all cores
	{"kernel.device_memory", func(p *profile.Profile) *profile.Curve { return &p.Kernel.Memory }, true, []part{
		{"kernel copies on device", 2, 1}, {"kernel fills", 1, 1}, {"kernel adds vectors", 3, 1}, {"kernel reads words", 1, 1}}, 0},
	{"kernel.after_copy", func(p *profile.Profile) *profile.Curve { return &p.Kernel.Copied }, false, []part{{"kernel copies what was just copied in", 1, 1}}, 0},
	{"managed.prefetch_htod", func(p *profile.Profile) *profile.Curve { return &p.Managed.PrefetchHtoD }, false, []part{{"managed: prefetch to the device", 1, 1}}, 0},
	{"managed.prefetch_dtoh", func(p *profile.Profile) *profile.Curve { return &p.Managed.PrefetchDtoH }, false, []part{{"managed: prefetch to the host", 1, 1}}, 0},
	{"managed.prefetch_busy", func(p *profile.Profile) *profile.Curve { return &p.Managed.PrefetchBusy }, false, []part{{step + "managed_prefetched", 4, 3}}, 0},
	{"own.host_alloc", func(p *profile.Profile) *profile.Curve { return &p.Own.HostAlloc }, false, []part{{"host memory: allocate", 1, 1}}, 0},
	{"own.host_free", func(p *profile.Profile) *profile.Curve { return &p.Own.HostFree }, false, []part{{"host memory: free", 1, 1}}, 0},
	{"own.register", func(p *profile.Profile) *profile.Curve { return &p.Own.Register }, false, []part{{"host memory: register", 1, 1}}, 0},
	{"own.unregister", func(p *profile.Profile) *profile.Curve { return &p.Own.Unregister }, false, []part{{"host memory: unregister", 1, 1}}, 0},
	{"own.device_grow", func(p *profile.Profile) *profile.Curve { return &p.Own.DeviceGrow }, false, []part{{"device memory: allocate", 1, 1}}, 0},
	{"own.device_shrink", func(p *profile.Profile) *profile.Curve { return &p.Own.DeviceShrink }, false, []part{{"device memory: free", 1, 1}}, 0},
	{"own.pool_grow", func(p *profile.Profile) *profile.Curve { return &p.Own.PoolGrow }, false, []part{{"pool memory: allocate and free", 1, 1}}, 0},
}

// bandwidthPath is the path of the bandwidth that follows from the curve of device memory.
const bandwidthPath = "kernel.memory_bytes_per_s"

// results returns the fitted values by path.
func (f *fitter) results() map[string]any {
	out := f.all()
	if f.near {
		maps.DeleteFunc(out, func(path string, _ any) bool { return !f.moved[path] })
	}
	return out
}

// all returns all values that can be fitted, by path.
func (f *fitter) all() map[string]any {
	out := map[string]any{}
	for i := range groups {
		for _, n := range groups[i].numbers {
			out[n.path] = *n.in(f.p)
		}
	}
	for _, c := range curves {
		if x := c.in(f.p); len(x.Points) > 0 {
			out[c.path] = *x
		}
	}
	if f.wants("kernel.device_memory") {
		out[bandwidthPath] = f.p.Kernel.Bandwidth
	}
	for _, part := range []string{"batch_ns", "fault_ns"} { // 0: the CPU's faults come one at a time, so block_ns contains both
		out["managed.host_service."+part] = profile.Number{Source: f.source}
	}
	return out
}
