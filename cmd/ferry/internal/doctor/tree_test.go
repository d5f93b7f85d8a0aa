package doctor

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

// machine is a machine of a test: its files, and what NVML and CUDA say.
type machine struct {
	tree    fstest.MapFS
	facts   *Facts           // nil if there is no NVML
	refusal error            // what NVML returns instead
	opens   map[string]error // why files of devices do not open
	options Options
}

// Driver returns the version that a healthy machine has.
func (m *machine) Driver() (string, error) { return driverRelease, nil }

// Facts returns the facts of the machine for its GPUs only.
func (m *machine) Facts(address string) (*Facts, error) {
	if m.refusal != nil {
		return nil, m.refusal
	}
	for _, known := range m.options.CUDA {
		if strings.EqualFold(known, address) {
			return m.facts, nil
		}
	}
	return nil, errors.New("no such GPU")
}

func (m *machine) set(name, text string) {
	m.tree[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
}

func (m *machine) link(name, target string) {
	m.tree[name] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
}

// remove removes a file, or a directory with all in it.
func (m *machine) remove(name string) {
	for at := range m.tree {
		if at == name || strings.HasPrefix(at, name+"/") {
			delete(m.tree, at)
		}
	}
}

// replace replaces a part of a file.
func (m *machine) replace(t *testing.T, name, old, text string) {
	t.Helper()
	file := m.tree[name]
	if file == nil || !strings.Contains(string(file.Data), old) {
		t.Fatalf("%s does not have %q", name, old)
	}
	m.set(name, strings.ReplaceAll(string(file.Data), old, text))
}

// examine examines the machine.
func (m *machine) examine(t *testing.T) *Report {
	t.Helper()
	o := m.options
	if m.facts != nil || m.refusal != nil {
		o.Manager = m
	}
	o.OpenDevice = func(name string) error { return m.opens[name] }
	r, err := Examine(m.tree, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const (
	driverRelease = "580.159.04"
	h200Address   = "0000:00:06.0"
	h200Path      = "sys/devices/pci0000:00/" + h200Address
)

func pointer[T any](v T) *T { return &v }

// bareLinux is a Linux machine without a GPU: 16 processors, 192 GiB, one NUMA node.
func bareLinux() *machine {
	m := &machine{tree: fstest.MapFS{}, options: Options{Version: "test", Arch: "amd64"}}
	m.set("proc/sys/kernel/osrelease", "6.8.0-86-generic\n")
	m.set("proc/version", "Linux version 6.8.0-86-generic\n")
	m.set("proc/cmdline", "BOOT_IMAGE=/boot/vmlinuz root=/dev/vda1 ro quiet\n")
	m.set("proc/self/status", "Name:\tferry\nCpus_allowed_list:\t0-15\nMems_allowed_list:\t0\n")
	m.set("proc/self/limits", "Limit                     Soft Limit           Hard Limit           Units     \nMax locked memory         unlimited            unlimited            bytes     \n")
	m.set("proc/self/cgroup", "0::/user.slice/session-1.scope\n")
	m.set("proc/meminfo", "MemTotal:       201326592 kB\nMemFree:        100000000 kB\nHugePages_Total:       0\nHugePages_Free:        0\nHugepagesize:       2048 kB\nHugetlb:               0 kB\n")
	m.set("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme sse2 avx512f\n")
	m.set("sys/fs/cgroup/user.slice/session-1.scope/memory.max", "max\n")
	m.set("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
	m.set("sys/devices/system/node/node0/cpulist", "0-15\n")
	m.set("sys/devices/system/node/node0/distance", "10\n")
	m.set("sys/bus/pci/devices/0000:00:01.0/vendor", "0x8086\n")
	m.set("sys/bus/pci/devices/0000:00:01.0/class", "0x060400\n")
	return m
}

// addGPU adds the files of a GPU at an address below a directory of bridges.
func (m *machine) addGPU(address, bridges string) {
	dir := "sys/devices/pci0000:00/" + bridges + address
	m.link("sys/bus/pci/devices/"+address, "../../../devices/pci0000:00/"+bridges+address)
	for name, text := range map[string]string{
		"vendor": "0x10de", "device": "0x2335", "class": "0x030200", "numa_node": "0",
		"current_link_speed": "32.0 GT/s PCIe", "max_link_speed": "32.0 GT/s PCIe",
		"current_link_width": "16", "max_link_width": "16", "aer_dev_correctable": "RxErr 0\nTOTAL_ERR_COR 0",
		"resource": "0x00000000c0000000 0x00000000c0ffffff 0x0000000000040200\n" +
			"0x0000004000000000 0x0000007fffffffff 0x000000000014220c\n" +
			"0x0000000000000000 0x0000000000000000 0x0000000000000000",
	} {
		m.set(dir+"/"+name, text+"\n")
	}
	m.link(dir+"/driver", "../../../bus/pci/drivers/nvidia")
}

// addDriver adds NVIDIA's driver and the files of its devices.
func (m *machine) addDriver(address string) {
	m.set("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  "+driverRelease+"  Release Build  (dvs-builder@U22)\nGCC version:  gcc version 13.3.0\n")
	m.set("proc/driver/nvidia/gpus/"+address+"/information", "Model: \t\t NVIDIA H200\nIRQ:   \t\t 51\nDevice Minor: \t 0\n")
	const dir = "usr/lib/x86_64-linux-gnu/"
	m.set(dir+"libcuda.so."+driverRelease, "library")
	m.link(dir+"libcuda.so.1", "libcuda.so."+driverRelease)
	for _, name := range []string{"nvidiactl", "nvidia-uvm", "nvidia0"} {
		m.tree["dev/"+name] = &fstest.MapFile{Mode: fs.ModeDevice | fs.ModeCharDevice | 0o666}
	}
}

// h200 is a healthy virtual machine with an H200.
func h200() *machine {
	m := bareLinux()
	m.set("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme sse2 avx512f hypervisor\n")
	m.addGPU(h200Address, "")
	m.addDriver(h200Address)
	m.options.CUDA = []string{h200Address}
	m.facts = &Facts{
		Name: "NVIDIA H200", Generation: pointer(5), MaxGeneration: pointer(5), GPUGeneration: pointer(5),
		Width: pointer(16), MaxWidth: pointer(16), Replays: pointer(0), BAR1: pointer(uint64(256 << 30)),
		Memory: pointer(uint64(150754820096)), Busy: pointer(0), Persistence: pointer(true), ECC: pointer(true),
		CorrectedErrors: pointer(uint64(0)), LostErrors: pointer(uint64(0)), EverLost: pointer(uint64(0)),
		RemapPending: pointer(false), RemapFailed: pointer(false), ProcessesKnown: true,
	}
	return m
}

// dualSocket makes the machine one of two NUMA nodes, with the GPU at the second.
func (m *machine) dualSocket() {
	m.set("sys/devices/system/node/node0/cpulist", "0-7\n")
	m.set("sys/devices/system/node/node0/distance", "10 21\n")
	m.set("sys/devices/system/node/node1/cpulist", "8-15\n")
	m.set("sys/devices/system/node/node1/distance", "21 10\n")
	m.set(h200Path+"/numa_node", "1\n")
	m.set("proc/self/status", "Name:\tferry\nCpus_allowed_list:\t0-15\nMems_allowed_list:\t0-1\n")
}

const (
	bridge   = "0000:00:01.0"
	secondIn = "0000:02:00.0"
)

// behindBridge moves the GPU behind a bridge, as on bare metal, and adds a second one.
func (m *machine) behindBridge() {
	m.remove(h200Path)
	m.remove("sys/bus/pci/devices/" + bridge)
	m.addGPU(h200Address, bridge+"/")
	m.addGPU(secondIn, bridge+"/")
	m.link("sys/bus/pci/devices/"+bridge, "../../../devices/pci0000:00/"+bridge)
	dir := "sys/devices/pci0000:00/" + bridge + "/"
	m.set(dir+"max_link_speed", "32.0 GT/s PCIe\n")
	m.set(dir+"max_link_width", "16\n")
	m.tree[dir+"config"] = &fstest.MapFile{Data: configuration(0x11)}
	m.options.CUDA = []string{h200Address, secondIn}
	m.set("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme sse2 avx512f\n")
}

// configuration is the configuration space of a bridge with an ACS control register, the
// second of its extended capabilities.
func configuration(control uint16) []byte {
	config := make([]byte, 4096)
	binary.LittleEndian.PutUint32(config[0x100:], 0x0001|1<<16|0x148<<20)
	binary.LittleEndian.PutUint32(config[0x148:], acsCapability|1<<16)
	binary.LittleEndian.PutUint16(config[0x148+6:], control)
	return config
}
