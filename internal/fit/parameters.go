package main

import "github.com/ferrygpu/ferry/profile"

// fitSource is the source of what was fitted.
const fitSource = "fit"

// number is a number to fit, and to what.
type number struct {
	path     string // in the document
	in       func(*profile.Profile) *profile.Number
	start    float64 // where it begins if it is zero
	kinds    []string
	min, max int // sizes that tell of it
}

// curve is a curve that is one kind's.
type curve struct {
	path string
	in   func(*profile.Profile) *profile.Curve
	kind string

	bytes, times int // that each unit of the kind's size is for the curve, and how often the kind takes the curve's time; 0 is 1
}

// Sizes.
const (
	kib = 1 << 10
	mib = 1 << 20
)

var (
	launchKinds   = []string{"launches, then a wait", "kernel fills", "kernel copies on device", "kernel of many blocks"}
	pinnedKernels = []string{"kernel reads pinned", "kernel reads pinned words", "kernel writes pinned", "kernel reads and writes pinned"}
	strided       = []string{"kernel reads pinned words, stride 8", "kernel reads pinned words, stride 32"}
	onDevice      = []string{"kernel copies on device", "kernel fills", "kernel adds vectors", "kernel reads words"}
	faulted       = []string{"managed: kernel first touches", "managed: kernel touches what the CPU wrote"}
	touchedByCPU  = []string{"managed: CPU first touches", "managed: CPU touches what a kernel wrote"}
)

// numbers are those to fit, the first ones first.
var numbers = []number{
	{"calls.event_record_ns", func(p *profile.Profile) *profile.Number { return &p.Calls.Record }, 1500, []string{"event records"}, 1, 256},
	{"calls.launch_ns", func(p *profile.Profile) *profile.Number { return &p.Calls.Launch }, 4000, []string{"launches, then a wait"}, 8, 256},
	{"queue.graph_node_ns", func(p *profile.Profile) *profile.Number { return &p.Queue.Node }, 100, []string{"graph of launches"}, 4, 256},
	{"kernel.floor_ns", func(p *profile.Profile) *profile.Number { return &p.Kernel.Floor }, 1000, []string{"graph of launches", "launches, then a wait", "kernel fills"}, 1, 64 * kib},
	{"queue.start_ns", func(p *profile.Profile) *profile.Number { return &p.Queue.Start }, 2000, append([]string{"event record and wait"}, launchKinds...), 1, 64 * kib},
	{"queue.sync_ns", func(p *profile.Profile) *profile.Number { return &p.Queue.Sync }, 2000, append([]string{"event record and wait"}, launchKinds...), 1, 64 * kib},
	{"calls.graph_launch_ns", func(p *profile.Profile) *profile.Number { return &p.Calls.GraphLaunch }, 3000, []string{"graph of launches"}, 1, 256},
	{"queue.gap_ns", func(p *profile.Profile) *profile.Number { return &p.Queue.Gap }, 1000, []string{"copy in, 32 in a row"}, 4 * kib, 64 * kib},
	{"queue.switch_ns", func(p *profile.Profile) *profile.Number { return &p.Queue.Switch }, 2000, []string{step + "pinned", step + "write_combined", step + "zero_copy_in"}, 1 << 10, 1 << 14},
	{"kernel.block_ns", func(p *profile.Profile) *profile.Number { return &p.Kernel.Block }, 0.5, []string{"kernel of many blocks"}, 1024, 1 << 18},
	{"kernel.warp_instructions_per_s", func(p *profile.Profile) *profile.Number { return &p.Kernel.Instructions }, 1e12, []string{"kernel computes"}, 16, 1024},
	{"kernel.instruction_latency_ns", func(p *profile.Profile) *profile.Number { return &p.Kernel.Latency }, 2, []string{"kernel computes in one block"}, 16, 16384},
	{"kernel.atomic_ns", func(p *profile.Profile) *profile.Number { return &p.Kernel.Atomic }, 0.75, []string{"kernel adds atomically to one word", "kernel adds atomically to many"}, 1024, 1 << 20},
	{"kernel.cache_bytes_per_s", func(p *profile.Profile) *profile.Number { return &p.Kernel.Cached }, 6e12, onDevice, 2 * mib, 16 * mib},
	{"kernel.memory_bytes_per_s", func(p *profile.Profile) *profile.Number { return &p.Kernel.Bandwidth }, 4e12, onDevice, 32 * mib, 64 * mib},
	{"link.payload_bytes_per_s", func(p *profile.Profile) *profile.Number { return &p.Link.Payload }, 6e10, pinnedKernels, 4 * mib, 64 * mib},
	{"link.duplex_cost", func(p *profile.Profile) *profile.Number { return &p.Link.Duplex }, 0.1, []string{"copy both ways", "kernel reads and writes pinned"}, mib, 64 * mib},
	{"link.tags", func(p *profile.Profile) *profile.Number { return &p.Link.Tags }, 800, strided, 64 * kib, 4 * mib},
	{"link.round_trip_ns", func(p *profile.Profile) *profile.Number { return &p.Link.RoundTrip }, 1200, pinnedKernels, 4 * kib, 64 * kib},

	{"managed.device_service.batch_ns", func(p *profile.Profile) *profile.Number { return &p.Managed.DeviceService.Batch }, 30e3, append([]string{step + "managed"}, faulted...), 4 * kib, 8 * mib},
	{"managed.device_service.zero_mib_ns", func(p *profile.Profile) *profile.Number { return &p.Managed.DeviceService.ZeroMiB }, 50e3, faulted[:1], 64 * kib, 64 * mib},
	{"managed.device_service.mib_ns", func(p *profile.Profile) *profile.Number { return &p.Managed.DeviceService.MiB }, 80e3, append([]string{step + "managed"}, faulted[1:]...), 64 * kib, 64 * mib},
	{"managed.device_service.block_ns", func(p *profile.Profile) *profile.Number { return &p.Managed.DeviceService.Block }, 10e3, faulted, 4 * kib, 16 * mib},
	{"managed.device_service.fault_ns", func(p *profile.Profile) *profile.Number { return &p.Managed.DeviceService.Fault }, 100, faulted, 4 * kib, 8 * mib},
	{"managed.device_service.run_ns", func(p *profile.Profile) *profile.Number { return &p.Managed.DeviceService.Run }, 1000, faulted[1:], 4 * kib, 8 * mib},
	{"managed.device_service.begin_ns", func(p *profile.Profile) *profile.Number { return &p.Managed.DeviceService.Begin }, 1000, faulted[:1], 4 * kib, 16 * mib},

	{"managed.host_service.block_ns", func(p *profile.Profile) *profile.Number { return &p.Managed.HostService.Block }, 8e3, touchedByCPU[1:], 4 * kib, 8 * mib},
	{"managed.host_service.mib_ns", func(p *profile.Profile) *profile.Number { return &p.Managed.HostService.MiB }, 150e3, touchedByCPU[1:], 64 * kib, 64 * mib},
	{"managed.host_service.run_ns", func(p *profile.Profile) *profile.Number { return &p.Managed.HostService.Run }, 5e3, touchedByCPU[1:], 4 * kib, 8 * mib},
	{"managed.host_service.begin_ns", func(p *profile.Profile) *profile.Number { return &p.Managed.HostService.Begin }, 80e3, touchedByCPU[:1], 4 * kib, 16 * mib},
	{"managed.host_service.zero_mib_ns", func(p *profile.Profile) *profile.Number { return &p.Managed.HostService.ZeroMiB }, 200e3, touchedByCPU[:1], 64 * kib, 64 * mib},
}

// curves are those that are one kind's own.
var curves = []curve{
	{"copy.pinned_htod", func(p *profile.Profile) *profile.Curve { return &p.Copy.PinnedHtoD }, "copy pinned in", 1, 1},
	{"copy.pinned_dtoh", func(p *profile.Profile) *profile.Curve { return &p.Copy.PinnedDtoH }, "copy pinned out", 1, 1},
	{"copy.write_combined_htod", func(p *profile.Profile) *profile.Curve { return &p.Copy.WriteCombinedHtoD }, "copy write-combined in", 1, 1},
	{"copy.pageable_htod", func(p *profile.Profile) *profile.Curve { return &p.Copy.PageableHtoD }, step + "pageable", 4, 2},
	{"copy.pageable_dtoh", func(p *profile.Profile) *profile.Curve { return &p.Copy.PageableDtoH }, "copy pageable out", 1, 1},
	{"copy.dtod", func(p *profile.Profile) *profile.Curve { return &p.Copy.DtoD }, "copy on device", 1, 1},
	{"copy.htoh", func(p *profile.Profile) *profile.Curve { return &p.Copy.HtoH }, "copy host to host", 1, 1},
	{"copy.memset", func(p *profile.Profile) *profile.Curve { return &p.Copy.Memset }, "fill", 1, 1},
	{"managed.prefetch_htod", func(p *profile.Profile) *profile.Curve { return &p.Managed.PrefetchHtoD }, "managed: prefetch to the device", 1, 1},
	{"managed.prefetch_dtoh", func(p *profile.Profile) *profile.Curve { return &p.Managed.PrefetchDtoH }, "managed: prefetch to the host", 1, 1},
	{"managed.prefetch_busy", func(p *profile.Profile) *profile.Curve { return &p.Managed.PrefetchBusy }, step + "managed_prefetched", 4, 3},
	{"link.fresh", func(p *profile.Profile) *profile.Curve { return &p.Link.Fresh }, step + "pinned", 4, 2},
	{"kernel.after_copy", func(p *profile.Profile) *profile.Curve { return &p.Kernel.Copied }, "kernel copies what was just copied in", 1, 1},
	{"own.host_alloc", func(p *profile.Profile) *profile.Curve { return &p.Own.HostAlloc }, "host memory: allocate", 1, 1},
	{"own.host_free", func(p *profile.Profile) *profile.Curve { return &p.Own.HostFree }, "host memory: free", 1, 1},
	{"own.register", func(p *profile.Profile) *profile.Curve { return &p.Own.Register }, "host memory: register", 1, 1},
	{"own.unregister", func(p *profile.Profile) *profile.Curve { return &p.Own.Unregister }, "host memory: unregister", 1, 1},
	{"own.device_grow", func(p *profile.Profile) *profile.Curve { return &p.Own.DeviceGrow }, "device memory: allocate", 1, 1},
	{"own.device_shrink", func(p *profile.Profile) *profile.Curve { return &p.Own.DeviceShrink }, "device memory: free", 1, 1},
	{"own.pool_grow", func(p *profile.Profile) *profile.Curve { return &p.Own.PoolGrow }, "pool memory: allocate and free", 1, 1},
}

// results is what was fitted, by path.
func (f *fitter) results() map[string]any {
	out := map[string]any{}
	for _, n := range numbers {
		if x := n.in(f.p); x.Source != "" { // it may not have been asked for
			out[n.path] = *x
		}
	}
	for _, c := range curves {
		if x := c.in(f.p); x.Source != "" {
			out[c.path] = *x
		}
	}
	for _, part := range []string{"batch_ns", "fault_ns"} { // the CPU has no batches, and a fault a service
		out["managed.host_service."+part] = profile.Number{Source: fitSource}
	}
	return out
}
