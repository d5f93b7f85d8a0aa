package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatalf("%v; create it with go test -update", err)
	}
	if got != string(text) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, text)
	}
}

// laptop is a machine without a GPU, with the limits that distributions set.
func laptop() *machine {
	m := bareLinux()
	m.set("proc/sys/kernel/osrelease", "6.8.0-51-generic\n")
	m.set("proc/self/status", "Cpus_allowed_list:\t0-7\nMems_allowed_list:\t0\n")
	m.set("proc/meminfo", "MemTotal: 16172016 kB\nHugePages_Free: 0\nHugepagesize: 2048 kB\nHugetlb: 0 kB\n")
	m.set("proc/self/limits", "Max locked memory         2070016000           2070016000           bytes     \n")
	m.set("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
	return m
}

// wsl is WSL 2 with a GPU that Windows serves: no PCI device, no kernel module.
func wsl() *machine {
	m := bareLinux()
	m.set("proc/sys/kernel/osrelease", "5.15.167.4-microsoft-standard-WSL2\n")
	m.set("proc/cpuinfo", "flags\t\t: fpu sse2 hypervisor\n")
	m.set("proc/self/limits", "Max locked memory         67108864             67108864             bytes     \n")
	m.tree["dev/dxg"] = &fstest.MapFile{Mode: fs.ModeDevice | fs.ModeCharDevice}
	m.set("usr/lib/wsl/lib/libcuda.so.1", "library")
	m.options.CUDA = []string{"0000:01:00.0"}
	m.facts = &Facts{
		Name: "NVIDIA GeForce RTX 4090", Generation: pointer(4), MaxGeneration: pointer(4), Width: pointer(16), MaxWidth: pointer(16),
		Busy: pointer(3), Memory: pointer(uint64(24 << 30)), BAR1: pointer(uint64(32 << 30)), Persistence: pointer(true),
	}
	return m
}

// container is a container on a machine with an H200, with 8 MiB of locked memory, a
// memory limit and few processors.
func container() *machine {
	m := h200()
	m.set(".dockerenv", "")
	m.set("proc/self/limits", "Max locked memory         8388608              8388608              bytes     \n")
	m.set("proc/self/cgroup", "0::/\n")
	m.set("sys/fs/cgroup/memory.max", "8589934592\n")
	m.set("sys/fs/cgroup/memory.current", "7730941132\n")
	m.set("sys/fs/cgroup/memory.stat", "anon 7000000000\ninactive_file 10000000\n")
	m.set("sys/fs/cgroup/cpu.max", "400000 100000\n")
	return m
}

// narrow is a bare machine with an A100 of 16 lanes that has 8, and without NVML.
func narrow() *machine {
	m := h200()
	m.facts = nil
	m.options.ManagerError = errors.New("no library libnvidia-ml.so.1")
	m.set("proc/cpuinfo", "flags\t\t: fpu sse2\n")
	m.set("proc/driver/nvidia/gpus/"+h200Address+"/information", "Model: \t\t NVIDIA A100 80GB PCIe\nDevice Minor: \t 0\n")
	for name, text := range map[string]string{"current_link_speed": "16.0 GT/s PCIe", "max_link_speed": "16.0 GT/s PCIe", "current_link_width": "8"} {
		m.set(h200Path+"/"+name, text+"\n")
	}
	return m
}

// sick is an H200 with several faults at once.
func sick() *machine {
	m := h200()
	m.facts.Generation, m.facts.Width, m.facts.Busy = pointer(3), pointer(8), pointer(97)
	m.facts.Processes = []Process{{4711, 20 << 30}, {4712, 1 << 30}}
	m.facts.LostErrors, m.facts.Replays, m.facts.Replaying = pointer(uint64(2)), pointer(5123), true
	m.set("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n")
	m.dualSocket()
	m.set("proc/self/status", "Cpus_allowed_list:\t0-1\nMems_allowed_list:\t0\n")
	return m
}

// TestHealthy demands that a healthy machine has nothing but checks that are ok, and that
// each of its lines fits into 80 columns.
func TestHealthy(t *testing.T) {
	bare := h200()
	bare.behindBridge()
	sockets := h200()
	sockets.dualSocket()
	contained := h200()
	contained.set("proc/self/cgroup", "0::/kubepods/pod1\n")
	reserved := h200()
	reserved.set("proc/meminfo", "MemTotal: 201326592 kB\nHugePages_Free: 0\nHugepagesize: 2048 kB\nHugetlb: 134217728 kB\n")
	arm := h200()
	arm.options.Arch = "arm64"
	arm.set("proc/sys/kernel/osrelease", "7.0.0-1019-nvidia\n")
	arm.replace(t, "proc/cmdline", "quiet", "quiet kho=off")
	newest := h200()
	newest.set("proc/sys/kernel/osrelease", "7.0.0-12-generic\n")
	passed := h200()
	passed.link(h200Path+"/iommu_group", "../../../kernel/iommu_groups/7")
	passed.set("sys/kernel/iommu_groups/7/type", "identity\n")
	for name, m := range map[string]*machine{
		"virtual": h200(), "no handover": arm, "no arm64": newest, "pass-through": passed,
		"bare metal, two GPUs": bare, "two nodes": sockets, "container": contained, "used pages": reserved,
	} {
		r := m.examine(t)
		for _, c := range r.Checks {
			if c.State != OK || c.Cost != "" || c.Mend != "" {
				t.Errorf("%s: %s is %s: %s", name, c.Name, c.State, c.Found)
			}
		}
		if text := r.Page().Text(80); r.Degraded || text != r.Page().Text(0) {
			t.Errorf("%s: degraded, or a line is folded:\n%s", name, text)
		}
	}
}

// TestTrees compares the texts and documents of whole machines with golden files.
func TestTrees(t *testing.T) {
	for name, c := range map[string]struct {
		m        *machine
		degraded bool
	}{
		"healthy": {h200(), false}, "laptop": {laptop(), false}, "wsl": {wsl(), false},
		"container": {container(), true}, "narrow": {narrow(), true}, "sick": {sick(), true},
	} {
		r := c.m.examine(t)
		if r.Degraded != c.degraded {
			t.Errorf("%s: degraded is %t", name, r.Degraded)
		}
		golden(t, name+".txt", r.Page().Text(80))
		document, err := r.JSON()
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name+".json", string(document))
		if name == "sick" {
			golden(t, "sick-60.txt", r.Page().Text(60))
			golden(t, "sick-120.txt", r.Page().Text(120))
			golden(t, "sick-piped.txt", r.Page().Text(0))
		}
	}
}

// TestDocument demands the fields of ferry.doctor/1.
func TestDocument(t *testing.T) {
	document, err := sick().examine(t).JSON()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Schema, Version string
		Host, Device    map[string]any
		Checks          []map[string]any
	}
	if err := json.Unmarshal(document, &got); err != nil {
		t.Fatal(err)
	}
	if got.Schema != "ferry.doctor/1" || got.Version != "test" || len(got.Host) == 0 || len(got.Device) == 0 || len(got.Checks) != len(Names()) {
		t.Errorf("got %+v", got)
	}
	for i, c := range got.Checks {
		for _, field := range []string{"name", "state", "found", "cost", "mend"} {
			if _, isText := c[field].(string); !isText {
				t.Errorf("check %v has no text %q", c, field)
			}
		}
		if c["name"] != Names()[i] {
			t.Errorf("check %d is %v, want %s", i, c["name"], Names()[i])
		}
	}
}

// TestWidth demands that no line is wider than asked, apart from single words.
func TestWidth(t *testing.T) {
	for _, m := range []*machine{h200(), laptop(), wsl(), container(), narrow(), sick()} {
		for _, width := range []int{60, 80, 120, 200} {
			for line := range strings.Lines(m.examine(t).Page().Text(width)) {
				line = strings.TrimSuffix(line, "\n")
				if utf8.RuneCountInString(line) > width && strings.Contains(strings.TrimSpace(line), " ") {
					t.Errorf("width %d: %q", width, line)
				}
			}
		}
	}
}

// check returns the check of a name.
func (r *Report) check(name string) Check {
	return r.Checks[slices.Index(Names(), name)]
}

// TestSlot demands that the bridge above the GPU bounds its link, also without NVML.
func TestSlot(t *testing.T) {
	m := h200()
	m.behindBridge()
	m.facts = nil
	dir := "sys/devices/pci0000:00/" + bridge + "/"
	m.set(dir+"max_link_speed", "16.0 GT/s PCIe\n")
	m.set(dir+"max_link_width", "8\n")
	m.set(dir+h200Address+"/current_link_speed", "16.0 GT/s PCIe\n")
	m.set(dir+h200Address+"/current_link_width", "8\n")
	r := m.examine(t)
	if c := r.check("link-generation"); !c.Degrades || c.State != Warning || !strings.HasPrefix(c.Found, "Gen4: the slot ends there") {
		t.Errorf("%+v", c)
	}
	if c := r.check("link-width"); !c.Degrades || c.State != Warning || !strings.Contains(c.Found, "the slot has no more lanes") {
		t.Errorf("%+v", c)
	}
}

// TestVirtualBridge demands that the bridge of a virtual machine, which says Gen1 x1, is no
// fault of a link that runs at its best.
func TestVirtualBridge(t *testing.T) {
	m := h200()
	m.behindBridge()
	dir := "sys/devices/pci0000:00/" + bridge + "/"
	m.set(dir+"max_link_speed", "2.5 GT/s PCIe\n")
	m.set(dir+"max_link_width", "1\n")
	r := m.examine(t)
	for _, name := range []string{"link-generation", "link-width"} {
		if c := r.check(name); c.State != OK {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// TestIOMMUOfTwoGPUs demands that a translating IOMMU of bare metal counts if there are
// peers, because their copies suffer.
func TestIOMMUOfTwoGPUs(t *testing.T) {
	m := h200()
	m.behindBridge()
	m.link("sys/devices/pci0000:00/"+bridge+"/"+h200Address+"/iommu_group", "../../../../kernel/iommu_groups/7")
	m.set("sys/kernel/iommu_groups/7/type", "DMA-FQ\n")
	if c := m.examine(t).check("iommu"); c.State != Warning || !c.Degrades {
		t.Errorf("%+v", c)
	}
}

// TestDevice demands which GPU a name means.
func TestDevice(t *testing.T) {
	for device, want := range map[string]struct {
		address string
		state   State
	}{
		"": {h200Address, OK}, "cuda": {h200Address, OK}, "cuda:1": {secondIn, OK}, "cuda:2": {"", Failure},
		"soft": {"", Skipped}, "soft:a100": {"", Skipped},
		"cuda:" + h200Address: {h200Address, OK}, "cuda:2:0.0": {secondIn, OK}, "cuda:0000:09:00.0": {"", Failure},
		"cuda:GPU-02": {secondIn, OK}, "cuda:GPU-01000000-": {h200Address, OK}, "cuda:GPU-0": {"", Failure}, "cuda:GPU-7": {"", Failure},
	} {
		m := h200()
		m.behindBridge()
		for i, address := range []string{h200Address, secondIn} {
			m.set("proc/driver/nvidia/gpus/"+address+"/information", fmt.Sprintf("Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-0%d000000-d72c-4106-c12f-20bd9faed9f6\nDevice Minor: \t 0\n", i+1))
		}
		m.options.Device = device
		r := m.examine(t)
		if got := r.Checks[0]; got.State != want.state || r.Device == nil != (want.address == "") || r.Device != nil && r.Device.PCIAddress != want.address {
			t.Errorf("%q: %+v, device %+v; want %+v", device, got, r.Device, want)
		}
		if r.Degraded != (want.state == Failure) {
			t.Errorf("%q: degraded is %t: %s", device, r.Degraded, r.Summary)
		}
	}
	for _, device := range []string{"cuda:", "cuda:x", "cuda:-1", "cuda:GPU-", "cuda:0000:1b:00.9", "soft:", "gpu", "h200"} {
		_, err := Examine(h200().tree, Options{Device: device})
		if _, wrong := errors.AsType[*DeviceError](err); !wrong || !strings.Contains(err.Error(), "want cuda") {
			t.Errorf("%q: error %v", device, err)
		}
	}
	m := h200()
	m.options.Device = "cuda:GPU-7"
	if c := m.examine(t).check("gpu"); !strings.Contains(c.Found, "no GPU has a UUID") || !strings.Contains(c.Found, h200Address) {
		t.Errorf("an unknown UUID: %s", c.Found)
	}
	m = laptop()
	m.options.Device = "cuda"
	if r := m.examine(t); !r.Degraded || r.Checks[0].State != Failure {
		t.Errorf("cuda without a GPU: %s", r.Summary)
	}
}

// TestNoGPU demands that a driver library that fails is named where no GPU is seen, and is
// no fault.
func TestNoGPU(t *testing.T) {
	m := laptop()
	m.options.CUDAError = errors.New("cuInit: CUDA_ERROR_UNKNOWN")
	r := m.examine(t)
	if c := r.check("gpu"); c.State != Warning || r.Degraded || !strings.Contains(c.Found, "CUDA_ERROR_UNKNOWN") {
		t.Errorf("%+v", c)
	}
}

// TestOrder demands the order of the CUDA driver, and without it that of the bus.
func TestOrder(t *testing.T) {
	m := h200()
	m.behindBridge()
	m.options.CUDA = []string{"00000000:02:00.0", h200Address}
	if got := m.examine(t).Device.PCIAddress; got != secondIn {
		t.Errorf("the first of CUDA is %s", got)
	}
	m.options.CUDA = nil
	if got := m.examine(t).Device.PCIAddress; got != h200Address {
		t.Errorf("the first of the bus is %s", got)
	}
}

// TestOtherSystem demands that nothing is examined on another system.
func TestOtherSystem(t *testing.T) {
	r, err := Examine(fstest.MapFS{}, Options{System: "darwin"})
	if err != nil || r.Degraded || r.count(Skipped) != len(Names()) {
		t.Errorf("error %v, report %+v", err, r)
	}
}

// TestOldCgroups reads the limits of version 1 of cgroups.
func TestOldCgroups(t *testing.T) {
	m := h200()
	m.set("proc/self/cgroup", "4:memory:/a/b\n3:cpu,cpuacct:/a\n0::/\n")
	m.set("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n")
	m.set("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1073741824\n")
	m.set("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "536870912\n")
	m.set("sys/fs/cgroup/memory/a/memory.stat", "inactive_file 1\nactive_file 1\ntotal_inactive_file 201326592\ntotal_active_file 134217728\ntotal_dirty 67108864\n")
	m.set("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "250000\n")
	m.set("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n")
	r := m.examine(t)
	for _, c := range r.Checks {
		switch {
		case c.Name == "cgroup" && c.Found != "memory limit 1 GiB, room for 768 MiB", c.Name == "processors" && !strings.Contains(c.Found, "2.5"):
			t.Errorf("%s: %s", c.Name, c.Found)
		}
	}
}

// TestSpoiledFiles spoils each file of a machine in several ways. No check may panic, or
// give a state or a text that it does not have.
func TestSpoiledFiles(t *testing.T) {
	names := make([]string, 0)
	for name := range sick().tree {
		names = append(names, name)
	}
	for _, spoil := range []string{"", "\x00\xff", "-1", "18446744073709551616", "[", "0-99999999", "3-1,,", ":::", strings.Repeat("9 ", 10000), "580.", "0x1 0x0"} {
		for _, name := range names {
			m := sick()
			m.behindBridge()
			m.set(name, spoil)
			m.facts = nil
			for _, c := range m.examine(t).Checks {
				if !slices.Contains([]State{OK, Warning, Failure, Skipped}, c.State) || c.Found == "" {
					t.Errorf("%s = %.20q: %+v", name, spoil, c)
				}
			}
		}
	}
	if r, err := Examine(fstest.MapFS{}, Options{}); err != nil || r.Degraded {
		t.Errorf("an empty tree: %v, %+v", err, r)
	}
}

// TestACSCircle demands that capabilities that point at each other end.
func TestACSCircle(t *testing.T) {
	config := configuration(0x1d)
	copy(config[0x148:], config[0x100:0x104])
	if got := acsControl(config); got != 0 {
		t.Errorf("a circle has control %#x", got)
	}
	if got := acsControl(bytes.Repeat([]byte{0xff}, 4096)); got != 0 {
		t.Errorf("a lost device has control %#x", got)
	}
	if got := acsControl(configuration(0x1d)); got != 0x1d {
		t.Errorf("control %#x, want 0x1d", got)
	}
}

func TestParseRelease(t *testing.T) {
	for text, want := range map[string]release{
		"6.8.0-86-generic": {6, 8, 0}, "6.11.9": {6, 11, 9}, "5.15": {5, 15, 0}, "6.18.44-fc-v595": {6, 18, 44}, "5.14.0-427.el9.x86_64": {5, 14, 0},
	} {
		if got, known := parseRelease(text); got != want || !known {
			t.Errorf("%q is %v, %t", text, got, known)
		}
	}
	for _, text := range []string{"", "6", "x.y", ".."} {
		if got, known := parseRelease(text); known {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// TestDocumented demands that docs/doctor.md has every check.
func TestDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Names() {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/doctor.md lacks %s", name)
		}
	}
}

// TestAround: in what a program runs, of machines that differ in it. What was not found out is left
// out.
func TestAround(t *testing.T) {
	instance, encrypted, bare := h200(), h200(), h200()
	instance.facts.MIG, encrypted.facts.Confidential = pointer(true), pointer(true)
	bare.link(h200Path+"/iommu_group", "../../../kernel/iommu_groups/17")
	bare.set("sys/kernel/iommu_groups/17/type", "DMA-FQ\n")
	for name, c := range map[string]struct {
		m     *machine
		check string
		found string
	}{
		"an instance":            {instance, "mig", "one instance"},
		"confidential computing": {encrypted, "confidential", "the CPU encrypts"},
		"an IOMMU":               {bare, "iommu", "translates (DMA-FQ), group 17"},
		"WSL":                    {wsl(), "wsl", "WSL 2"},
		"a container":            {container(), "locked-memory", "limit of 8 MiB"},
		"its memory":             {container(), "cgroup", "memory limit 8 GiB"},
		"its kind":               {container(), "container", "docker"},
	} {
		seen := false
		for _, x := range c.m.examine(t).Around() {
			seen = seen || x.Name == c.check && strings.Contains(x.Found, c.found)
			if x.State == Skipped || x.Name == "ecc" {
				t.Errorf("%s: %+v", name, x)
			}
		}
		if !seen {
			t.Errorf("%s: nothing of %q", name, c.found)
		}
	}
	for _, name := range around {
		if !slices.Contains(Names(), name) {
			t.Errorf("there is no check %q", name)
		}
	}
}
