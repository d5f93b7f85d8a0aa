package info

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/profile"
)

// Schema is the version of the document that [Report.JSON] returns.
const Schema = "ferry.info/1"

// Report describes what a device is and can do. Its fields are those of the JSON
// document.
type Report struct {
	Schema  string `json:"schema"`
	Device  Device `json:"device"`
	Ordinal int    `json:"ordinal"`
	PCIBus  string `json:"pci_bus_id"`

	Driver struct {
		Kind    string `json:"kind"`    // "NVIDIA" or "software"
		Version int    `json:"version"` // 13000 for CUDA 13.0
		CUDA    string `json:"cuda"`    // "13.0"
	} `json:"driver"`
	Memory struct {
		Total int `json:"total_bytes"`
		Free  int `json:"free_bytes"`
	} `json:"memory"`
	Compute struct {
		Capability      string `json:"capability"` // "9.0"
		Multiprocessors int    `json:"multiprocessors"`
		ThreadsPerBlock int    `json:"max_threads_per_block"`
		SharedPerBlock  int    `json:"max_shared_bytes_per_block"`
		Concurrent      bool   `json:"concurrent_kernels"`
	} `json:"compute"`
	CopyEngines int `json:"copy_engines"`
	Host        struct {
		Mapping           bool `json:"can_map_host_memory"`
		Unified           bool `json:"unified_addressing"`
		Register          bool `json:"can_register_host_memory"`
		RegisterReadOnly  bool `json:"can_register_read_only"`
		Managed           bool `json:"managed_memory"`
		ConcurrentManaged bool `json:"concurrent_managed_access"`
		Pageable          bool `json:"pageable_memory_access"`
		NativeAtomics     bool `json:"native_atomics"`
		MemoryPools       bool `json:"memory_pools"`
		HostPageTables    bool `json:"pageable_uses_host_page_tables"`
		Integrated        bool `json:"integrated"` // host and device have one memory
	} `json:"host_memory"`
	Priorities struct {
		Least    int `json:"least"`
		Greatest int `json:"greatest"` // a lower number runs first
	} `json:"stream_priorities"`
	Link  Link   `json:"link"`
	Peers []Peer `json:"peers"` // the other devices of the driver
	// Sure counts the figures of an emulated device's profile by their confidence.
	Sure map[profile.Confidence]int `json:"profile_figures,omitempty"`
	// About is what the profile of an emulated device says of the machine.
	About string `json:"about,omitempty"`
	// Machine is what is known of the machine around a device of hardware. The caller of About adds it.
	Machine []Fact `json:"machine,omitempty"`
}

// Fact is something that is known of the machine around a device.
type Fact struct {
	Name  string `json:"name"`  // of the check of "ferry doctor", such as "wsl"
	State string `json:"state"` // of the check: "ok", "warning", "failure" or "skipped"
	Found string `json:"found"`
	Cost  string `json:"cost,omitempty"` // of what is not ok
}

// Peer is another device.
type Peer struct {
	Ordinal int    `json:"ordinal"`
	Name    string `json:"name"`
	Access  bool   `json:"access"` // whether memory there can be used from here
}

// JSON returns the report as one document.
func (r *Report) JSON() ([]byte, error) {
	text, err := json.Marshal(r)
	return append(text, '\n'), err
}

// About queries a device and returns its report.
func About(g *ferry.GPU) (*Report, error) {
	q := &query{g: g}
	r := &Report{Schema: Schema, Device: Of(g), Ordinal: int(g.CUDevice()), Peers: []Peer{}}
	q.driver(r)
	q.attributes(r)
	if q.err != nil {
		return nil, q.err
	}
	var err error
	if r.Memory.Free, r.Memory.Total, err = g.MemInfo(); err != nil {
		return nil, err
	}
	least, greatest, err := g.Driver().CtxGetStreamPriorityRange(g.CUContext())
	if err != nil {
		return nil, fmt.Errorf("read the stream priorities of %s: %w", g, err)
	}
	r.Priorities.Least, r.Priorities.Greatest = int(least), int(greatest)
	r.Link = linkOf(g, r.PCIBus)
	if g.Emulated() {
		if p := profileOf(g); p != nil {
			r.Sure, r.About = p.Count(), p.About
		}
	}
	r.Peers, err = peers(g)
	return r, err
}

// query reads properties of a device and joins the errors.
type query struct {
	g   *ferry.GPU
	err error
}

func (q *query) number(a cu.DeviceAttribute) int {
	v, err := q.g.Attribute(a)
	if err != nil && !errors.Is(err, cu.ErrorInvalidValue) { // invalid: the driver is older than the attribute
		q.err = errors.Join(q.err, err)
	}
	return v
}

func (q *query) yes(a cu.DeviceAttribute) bool { return q.number(a) != 0 }

func (q *query) driver(r *Report) {
	d := q.g.Driver()
	version, err := d.DriverGetVersion()
	if err != nil {
		q.err = errors.Join(q.err, fmt.Errorf("read the driver's version: %w", err))
	}
	r.Driver.Kind = "NVIDIA"
	if q.g.Emulated() {
		r.Driver.Kind = "software"
	}
	r.Driver.Version = int(version)
	r.Driver.CUDA = fmt.Sprintf("%d.%d", version/1000, version%1000/10)
	if r.PCIBus, err = d.DeviceGetPCIBusId(cu.Device(int(q.g.CUDevice()))); err != nil {
		q.err = errors.Join(q.err, fmt.Errorf("read the PCI address: %w", err))
	}
}

func (q *query) attributes(r *Report) {
	r.Compute.Capability = fmt.Sprintf("%d.%d",
		q.number(cu.DeviceAttributeComputeCapabilityMajor), q.number(cu.DeviceAttributeComputeCapabilityMinor))
	r.Compute.Multiprocessors = q.number(cu.DeviceAttributeMultiprocessorCount)
	r.Compute.ThreadsPerBlock = q.number(cu.DeviceAttributeMaxThreadsPerBlock)
	r.Compute.SharedPerBlock = q.number(cu.DeviceAttributeMaxSharedMemoryPerBlock)
	r.Compute.Concurrent = q.yes(cu.DeviceAttributeConcurrentKernels)
	r.CopyEngines = q.number(cu.DeviceAttributeAsyncEngineCount)
	h := &r.Host
	h.Mapping = q.yes(cu.DeviceAttributeCanMapHostMemory)
	h.Unified = q.yes(cu.DeviceAttributeUnifiedAddressing)
	h.Register = q.yes(cu.DeviceAttributeHostRegisterSupported)
	h.RegisterReadOnly = q.yes(cu.DeviceAttributeReadOnlyHostRegisterSupported)
	h.Managed = q.yes(cu.DeviceAttributeManagedMemory)
	h.ConcurrentManaged = q.yes(cu.DeviceAttributeConcurrentManagedAccess)
	h.Pageable = q.yes(cu.DeviceAttributePageableMemoryAccess)
	h.NativeAtomics = q.yes(cu.DeviceAttributeHostNativeAtomicSupported)
	h.MemoryPools = q.yes(cu.DeviceAttributeMemoryPoolsSupported)
	h.HostPageTables = q.yes(cu.DeviceAttributePageableMemoryAccessUsesHostPageTables)
	h.Integrated = q.yes(cu.DeviceAttributeIntegrated)
}

// peers describes the other devices of the driver.
func peers(g *ferry.GPU) ([]Peer, error) {
	all := []Peer{}
	d := g.Driver()
	count, err := d.DeviceGetCount()
	if err != nil {
		return all, fmt.Errorf("count the devices: %w", err)
	}
	self := cu.Device(int(g.CUDevice()))
	for dev := range cu.Device(count) {
		if dev == self {
			continue
		}
		name, err := d.DeviceGetName(dev)
		if err != nil {
			return all, fmt.Errorf("read the name of device %d: %w", dev, err)
		}
		can, err := d.DeviceCanAccessPeer(self, dev)
		if err != nil {
			return all, fmt.Errorf("ask whether device %d can use device %d: %w", self, dev, err)
		}
		all = append(all, Peer{Ordinal: int(dev), Name: name, Access: can != 0})
	}
	return all, nil
}
