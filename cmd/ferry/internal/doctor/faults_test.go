package doctor

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/libcuda"
)

// fault is something wrong that is planted on a healthy machine.
type fault struct {
	name   string
	plant  func(*testing.T, *machine)
	check  string // the one check that must find it
	state  State
	slower bool   // whether it degrades the machine
	says   string // a part of found
}

// file returns a plant that writes a file.
func file(name, text string) func(*testing.T, *machine) {
	return func(_ *testing.T, m *machine) { m.set(name, text) }
}

// said returns a plant that changes what NVML says.
func said(change func(*Facts)) func(*testing.T, *machine) {
	return func(_ *testing.T, m *machine) { change(m.facts) }
}

const cgroupDir = "sys/fs/cgroup/user.slice/session-1.scope/"

var faults = []fault{
	{"link slower under load", said(func(f *Facts) { f.Generation, f.Busy = pointer(3), pointer(96) }), "link-generation+processes", Failure, true, "Gen3 of Gen5 while 96 % busy"},
	{"link slower, idle", said(func(f *Facts) { f.Generation = pointer(1) }), "link-generation", Warning, false, "may be power saving"},
	{"link narrower", said(func(f *Facts) { f.Width = pointer(8) }), "link-width", Warning, true, "x8 of x16"},
	{"slot of an older generation", func(_ *testing.T, m *machine) {
		m.facts.Generation, m.facts.MaxGeneration = pointer(4), pointer(4)
	}, "link-generation", Warning, true, "the slot ends there"},
	{"slot with fewer lanes", func(_ *testing.T, m *machine) {
		m.facts.Width, m.facts.MaxWidth = pointer(8), pointer(8)
	}, "link-width", Warning, true, "the slot has no more lanes"},
	{"replays", said(func(f *Facts) { f.Replays = pointer(12) }), "replays", Warning, false, "12 since"},
	{"replays that grow", said(func(f *Facts) { f.Replays, f.Replaying = pointer(900), true }), "replays", Warning, true, "it grows"},
	{"small BAR", said(func(f *Facts) { f.BAR1 = pointer(uint64(256 << 20)) }), "bar", Warning, false, "256 MiB for 140 GiB"},
	{"BARs without addresses", func(_ *testing.T, m *machine) {
		m.facts.BAR1 = nil
		m.set(h200Path+"/resource", strings.Repeat("0x0000000000000000 0x0000000000000000 0x0000000000000000\n", 7))
	}, "bar", Failure, true, "no addresses"},
	{"process of another node", func(_ *testing.T, m *machine) {
		m.dualSocket()
		m.set("proc/self/status", "Cpus_allowed_list:\t0-7\nMems_allowed_list:\t0-1\n")
	}, "numa", Warning, true, "runs on others"},
	{"memory of another node", func(_ *testing.T, m *machine) {
		m.dualSocket()
		m.set("proc/self/status", "Cpus_allowed_list:\t0-15\nMems_allowed_list:\t0\n")
	}, "numa", Warning, true, "memory of others"},
	{"node unknown", func(_ *testing.T, m *machine) {
		m.dualSocket()
		m.set(h200Path+"/numa_node", "-1\n")
	}, "numa", Warning, false, "does not say"},
	{"IOMMU translates strictly", func(t *testing.T, m *machine) {
		m.link(h200Path+"/iommu_group", "../../../kernel/iommu_groups/7")
		m.set("sys/kernel/iommu_groups/7/type", "DMA\n")
		m.replace(t, "proc/cmdline", "quiet", "intel_iommu=on iommu.strict=1")
	}, "iommu", Warning, true, "intel_iommu=on iommu.strict=1"},
	{"IOMMU translates lazily", func(_ *testing.T, m *machine) {
		m.link(h200Path+"/iommu_group", "../../../kernel/iommu_groups/7")
		m.set("sys/kernel/iommu_groups/7/type", "DMA-FQ\n")
	}, "iommu", Warning, false, "DMA-FQ"},
	{"ACS redirects", func(_ *testing.T, m *machine) {
		m.behindBridge()
		m.tree["sys/devices/pci0000:00/"+bridge+"/config"].Data = configuration(0x1d)
	}, "acs", Warning, true, bridge},
	{"library of another version", func(_ *testing.T, m *machine) {
		m.link("usr/lib/x86_64-linux-gnu/libcuda.so.1", "libcuda.so.570.86.15")
		m.set("usr/lib/x86_64-linux-gnu/libcuda.so.570.86.15", "library")
		m.options.CUDA, m.options.CUDAError = nil, cu.ErrorSystemDriverMismatch
	}, "driver", Failure, true, "library 570.86.15 (/usr/lib/x86_64-linux-gnu/libcuda.so.1)"},
	{"driver too old", func(t *testing.T, m *machine) {
		m.replace(t, "proc/driver/nvidia/version", driverRelease, "450.80.02")
		m.link("usr/lib/x86_64-linux-gnu/libcuda.so.1", "libcuda.so.450.80.02")
		m.set("usr/lib/x86_64-linux-gnu/libcuda.so.450.80.02", "library")
	}, "driver", Failure, true, "older than CUDA 11.3"},
	{"driver library missing", func(_ *testing.T, m *machine) {
		m.remove("usr/lib/x86_64-linux-gnu")
		m.options.CUDA = nil
	}, "driver", Failure, true, "no libcuda.so.1"},
	{"driver fails", func(_ *testing.T, m *machine) {
		m.options.CUDAError = errors.New("cuInit:\nCUDA_ERROR_UNKNOWN")
	}, "driver", Failure, true, "cuInit: CUDA_ERROR_UNKNOWN"},
	{"driver libraries broken", func(_ *testing.T, m *machine) {
		m.options.CUDAError = fmt.Errorf("list the NVIDIA GPUs: %w", &libcuda.OpenError{Kernel: "/dev/nvidia0", Tried: []libcuda.Attempt{
			{Path: "/opt/lib", Message: "not there"},
			{Path: "/opt/stubs/libcuda.so.1", Message: "CUDA_ERROR_STUB_LIBRARY", Exists: true},
		}})
	}, "driver", Failure, true, "no driver library works: /opt/stubs/libcuda.so.1: CUDA_ERROR_STUB_LIBRARY"},
	{"driver library missing, and its error", func(_ *testing.T, m *machine) {
		m.remove("usr/lib/x86_64-linux-gnu")
		m.options.CUDA = nil
		m.options.CUDAError = &libcuda.OpenError{Kernel: "/dev/nvidia0", Tried: []libcuda.Attempt{{Path: "/usr/lib64", Message: "not there"}}}
	}, "driver", Failure, true, "but no libcuda.so.1"},
	{"GPU hidden from CUDA", func(_ *testing.T, m *machine) { m.options.CUDA = nil }, "driver", Failure, true, "CUDA lists no GPU"},
	{"GPU fell off the bus", func(_ *testing.T, m *machine) { m.refusal = &nvmlError{"nvmlDeviceGetHandleByPciBusId_v2", nvmlLost} }, "gpu", Failure, true, "does not answer"},
	{"device file missing", func(_ *testing.T, m *machine) { m.remove("dev/nvidia-uvm") }, "device-files", Failure, true, "/dev/nvidia-uvm"},
	{"persistence off", said(func(f *Facts) { f.Persistence = pointer(false) }), "persistence", Warning, false, "off"},
	{"ECC off", said(func(f *Facts) { f.ECC = pointer(false) }), "ecc", Warning, false, "off"},
	{"errors of memory", said(func(f *Facts) { f.LostErrors = pointer(uint64(3)) }), "ecc", Failure, true, "3 errors"},
	{"rows not replaced", said(func(f *Facts) { f.RemapFailed = pointer(true) }), "ecc", Failure, true, "could not be replaced"},
	{"rows to be replaced", said(func(f *Facts) { f.RemapPending = pointer(true) }), "ecc", Warning, true, "waits"},
	{"busy, and no process visible", said(func(f *Facts) { f.Busy = pointer(50) }), "processes", Warning, true, "none visible"},
	{"idle process on the GPU", said(func(f *Facts) { f.Processes = []Process{{4711, 10 << 30}} }), "processes", Warning, false, "1 other process (4711), 10 GiB"},
	{"busy process on the GPU", said(func(f *Facts) {
		f.Processes, f.Busy = []Process{{4711, 10 << 30}, {4712, 0}}, pointer(88)
	}), "processes", Warning, true, "88 % busy"},
	{"limit of locked memory", file("proc/self/limits", "Max locked memory         8388608              8388608              bytes     \n"), "locked-memory", Warning, false, "8 MiB"},
	{"little room in the cgroup", func(_ *testing.T, m *machine) {
		m.set("sys/fs/cgroup/user.slice/memory.max", "4294967296\n")
		m.set("sys/fs/cgroup/user.slice/memory.current", "4100000000\n")
		m.set("sys/fs/cgroup/user.slice/memory.stat", "anon 1\ninactive_file 60000000\nactive_file 50000000\nfile_dirty 10000000\nshmem 5000000\n")
	}, "cgroup", Warning, false, "memory limit 4 GiB, room for 281 MiB"},
	{"no room in the cgroup", func(_ *testing.T, m *machine) {
		m.set(cgroupDir+"memory.max", "536870912\n")
		m.set(cgroupDir+"memory.current", "536870912\n")
	}, "cgroup", Failure, true, "room for 0 bytes"},
	{"no huge pages", file("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n"), "huge-pages", Warning, true, "never"},
	{"reserved pages", file("proc/meminfo", "MemTotal: 201326592 kB\nHugePages_Total: 65536\nHugePages_Free: 60000\nHugepagesize: 2048 kB\nHugetlb: 134217728 kB\n"), "reserved-pages", Warning, false, "128 GiB reserved, 117 GiB of it unused"},
	{"kernel that leaks pins", file("proc/sys/kernel/osrelease", "6.11.0-26-generic\n"), "kernel", Warning, true, "page-locking leaks"},
	{"kernel with a limit of pins", file("proc/sys/kernel/osrelease", "6.12.3\n"), "kernel", Warning, false, "2 GiB"},
	{"kernel with handover", func(_ *testing.T, m *machine) {
		m.set("proc/sys/kernel/osrelease", "7.0.0-1019-nvidia\n")
		m.options.Arch = "arm64"
	}, "kernel", Warning, false, "KHO"},
	{"few processors", file("proc/self/status", "Cpus_allowed_list:\t0,4\nMems_allowed_list:\t0\n"), "processors", Warning, true, "2 for this process"},
	{"little time of processors", file(cgroupDir+"cpu.max", "150000 100000\n"), "processors", Warning, true, "time of 1.5"},
	{"module not loaded", func(_ *testing.T, m *machine) {
		m.remove("proc/driver/nvidia")
		m.remove("dev")
		m.link(h200Path+"/driver", "../../../bus/pci/drivers/vfio-pci")
	}, "driver", Failure, true, "belongs to vfio-pci"},
}

// TestFaults plants each fault on a healthy machine. The named check must find it, and no
// other may find anything. A second check that finds the fault too stands behind a +. A
// fault that silences NVML or CUDA may make other checks skip.
func TestFaults(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			m := h200()
			f.plant(t, m)
			r := m.examine(t)
			first, second, _ := strings.Cut(f.check, "+")
			for _, c := range r.Checks {
				switch found := c.State == Warning || c.State == Failure; {
				case c.Name == first:
					f.judge(t, c)
				case found != (c.Name == second), c.State == Skipped && f.state == Warning:
					t.Errorf("%s is %s: %s", c.Name, c.State, c.Found)
				}
			}
			if r.Degraded != f.slower {
				t.Errorf("degraded is %t, want %t: %s", r.Degraded, f.slower, r.Summary)
			}
			if text := r.Page().Text(80); !strings.Contains(text, "\n"+marks[f.state]+" "+first+": ") {
				t.Errorf("the text does not name %s:\n%s", first, text)
			}
		})
	}
}

// judge compares a check with what the fault must give.
func (f *fault) judge(t *testing.T, c Check) {
	t.Helper()
	if c.State != f.state || !strings.Contains(c.Found, f.says) {
		t.Errorf("%s is %s: %q; want %s: %q", c.Name, c.State, c.Found, f.state, f.says)
	}
	if c.Cost == "" || c.Mend == "" || c.Source == "" {
		t.Errorf("%s lacks a cost, its source or a mend: %+v", c.Name, c)
	}
	if c.Degrades != f.slower {
		t.Errorf("%s: degrades is %t", c.Name, c.Degrades)
	}
}

// TestEveryCheckHasAFault demands a fault for each check that can find one.
func TestEveryCheckHasAFault(t *testing.T) {
	planted := map[string]bool{"container": true, "first-touch": true, "direct-storage": true, "wsl": true} // these only inform; TestWSL has the last
	for _, f := range faults {
		name, _, _ := strings.Cut(f.check, "+")
		planted[name] = true
	}
	for _, name := range Names() {
		if !planted[name] {
			t.Errorf("no fault is planted for %s", name)
		}
	}
}

// TestDirectStorage: the module of cuFile is told, and is no fault if it is missing.
func TestDirectStorage(t *testing.T) {
	for text, want := range map[string]Check{
		"version: 2.26\n": ok("nvidia-fs 2.26: cuFile can go past host memory"),
		"":                ok("no nvidia-fs: cuFile would copy through host memory"),
	} {
		m := h200()
		if text != "" {
			m.set("proc/driver/nvidia-fs/version", text)
		}
		for _, c := range m.examine(t).Checks {
			if want.Name = c.Name; c.Name == "direct-storage" && c != want {
				t.Errorf("%q: %+v, want %+v", text, c, want)
			}
		}
	}
}

// TestWSLDriverFails: in WSL a library that is there and fails is a failure, too.
func TestWSLDriverFails(t *testing.T) {
	m := wsl()
	m.options.CUDAError = errors.New("cuInit: CUDA_ERROR_UNKNOWN")
	for _, c := range m.examine(t).Checks {
		if c.Name == "driver" && (c.State != Failure || !strings.Contains(c.Found, "CUDA_ERROR_UNKNOWN")) {
			t.Errorf("driver is %s: %s", c.State, c.Found)
		}
	}
}
