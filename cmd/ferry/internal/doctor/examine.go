package doctor

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/internal/gpuid"
)

// Options are what an examination cannot read from files. The zero value examines the
// first GPU, if there is one.
type Options struct {
	Device  string // as for ferry.Open: "", "cuda", "cuda:1", "cuda:GPU-8932", "cuda:0000:1b:00.0", "soft", "soft:NAME"
	Version string // of the program
	System  string // the operating system as Go names it; "" is linux
	Arch    string // of the processor, as Go names it

	// CUDA has the PCI addresses of the GPUs in the order of the CUDA driver. CUDAError is
	// the error of a driver that is installed and fails.
	CUDA      []string
	CUDAError error

	Library string // the file of the driver library that was loaded; "" if none was

	// OpenDevice opens a file of a device for reading and writing, and closes it. With nil
	// it is only checked that the files exist.
	OpenDevice func(name string) error

	Manager      Manager // nil if NVML did not open
	ManagerError error   // why it did not
}

const linux = "linux"

// DeviceError says that a text is no name of a device.
type DeviceError struct{ Name string }

func (e *DeviceError) Error() string {
	return fmt.Sprintf("device %q: want cuda, cuda:N, cuda:GPU-UUID, cuda:PCI-ADDRESS, soft or soft:NAME", e.Name)
}

// patient is a machine while it is examined.
type patient struct {
	files
	Options
	host    Host
	kernel  release // parsed from host.Kernel
	gpus    []string
	ordinal int // of the GPU that was asked for
	id      gpuid.ID
	idErr   error  // why its ID names no GPU
	soft    bool   // the software GPU was asked for
	named   bool   // an NVIDIA GPU was asked for
	address string // of the GPU that is examined, or ""
	about   *Facts // of that GPU; never nil
	askErr  error  // why NVML did not answer
}

// Examine examines the machine whose root is a tree of files. The error is a
// [*DeviceError].
func Examine(root fs.FS, o Options) (*Report, error) {
	if o.System == "" {
		o.System = linux
	}
	p := &patient{files: files{root}, Options: o, about: &Facts{}}
	if err := p.choose(o.Device); err != nil {
		return nil, err
	}
	p.readHost()
	p.findGPU()
	r := &Report{Schema: Schema, Version: o.Version, Host: p.host, Checks: []Check{}}
	for _, c := range allChecks {
		check := p.run(c)
		check.Name = c.name
		r.Checks = append(r.Checks, check)
	}
	if p.hasGPU() {
		r.Device = p.device()
	}
	r.Degraded = r.degraded()
	r.Summary = p.summary(r)
	return r, nil
}

// choose parses the name of a device.
func (p *patient) choose(name string) error {
	kind, rest, hasRest := strings.Cut(name, ":")
	switch {
	case name == "":
		return nil
	case kind == "soft" && (!hasRest || rest != ""):
		p.soft = true
		return nil
	case kind != "cuda":
		return &DeviceError{name}
	}
	p.named = true
	if !hasRest {
		return nil
	}
	if id, ok := gpuid.Parse(rest); ok {
		p.id = id
		return nil
	}
	n, err := strconv.Atoi(rest)
	if err != nil || n < 0 {
		return &DeviceError{name}
	}
	p.ordinal = n
	return nil
}

// findGPU finds the GPU to examine and asks NVML about it. If the CUDA driver does not
// list the GPUs, those of the PCI bus are taken in the order of their addresses.
func (p *patient) findGPU() {
	for _, address := range p.names(pciDevices) {
		if p.isGPU(address) {
			p.gpus = append(p.gpus, address)
		}
	}
	order := p.CUDA
	if len(order) == 0 {
		order = p.gpus
	}
	if p.id.Named() {
		p.ordinal, p.idErr = p.id.Find(p.identities(order))
	}
	if p.soft || p.idErr != nil || p.ordinal >= len(order) {
		return
	}
	p.address = shortAddress(order[p.ordinal])
	if p.Manager == nil {
		p.askErr = p.ManagerError
		return
	}
	if about, err := p.Manager.Facts(p.address); err == nil {
		p.about = about
	} else {
		p.askErr = err
	}
}

// identities returns what names the GPUs at PCI addresses.
func (p *patient) identities(addresses []string) []gpuid.GPU {
	all := make([]gpuid.GPU, len(addresses))
	for i, address := range addresses {
		information := "proc/driver/nvidia/gpus/" + shortAddress(address) + "/information"
		all[i] = gpuid.GPU{Name: cmp.Or(p.field(information, "Model:"), "NVIDIA GPU"), UUID: p.field(information, "GPU UUID:"), PCIAddress: address}
	}
	return all
}

// isGPU reports whether a PCI device is a display controller of NVIDIA.
func (p *patient) isGPU(address string) bool {
	return p.text(p.inDevice(address, "vendor")) == "0x10de" && strings.HasPrefix(p.text(p.inDevice(address, "class")), "0x03")
}

// shortAddress returns a PCI address as sysfs writes it, with four digits of domain.
func shortAddress(address string) string {
	address = strings.ToLower(address)
	if domain, rest, found := strings.Cut(address, ":"); found && len(domain) > 4 {
		return domain[len(domain)-4:] + ":" + rest
	}
	return address
}

// hasGPU reports whether there is a GPU to examine.
func (p *patient) hasGPU() bool { return p.address != "" }

// several reports whether the machine has more than one GPU.
func (p *patient) several() bool { return max(len(p.gpus), len(p.CUDA)) > 1 }

func (p *patient) device() *Device {
	file, _ := p.library()
	return &Device{Name: p.product(), Opened: "cuda:" + strconv.Itoa(p.ordinal), PCIAddress: p.address, Driver: p.release(), Library: file}
}

// product returns the name of the GPU.
func (p *patient) product() string {
	if p.about.Name != "" {
		return p.about.Name
	}
	if name := p.field("proc/driver/nvidia/gpus/"+p.address+"/information", "Model:"); name != "" {
		return name
	}
	return "NVIDIA GPU " + p.text(p.inDevice(p.address, "device"))
}

// examination is a check and its name.
type examination struct {
	name  string
	ofGPU bool // skipped without a GPU
	run   func(*patient) Check
}

// allChecks are in the order of the report: the GPU, its link, memory, the system.
var allChecks = []examination{
	{"gpu", false, (*patient).checkGPU},
	{"driver", true, (*patient).checkDriver},
	{"device-files", false, (*patient).checkDeviceFiles},
	{"link-generation", true, (*patient).checkGeneration},
	{"link-width", true, (*patient).checkWidth},
	{"replays", true, (*patient).checkReplays},
	{"bar", true, (*patient).checkBAR},
	{"numa", true, (*patient).checkNUMA},
	{"iommu", true, (*patient).checkIOMMU},
	{"acs", true, (*patient).checkACS},
	{"persistence", true, (*patient).checkPersistence},
	{"ecc", true, (*patient).checkECC},
	{"processes", true, (*patient).checkProcesses},
	{"direct-storage", true, (*patient).checkDirectStorage},
	{"locked-memory", false, (*patient).checkLocked},
	{"cgroup", false, (*patient).checkCgroup},
	{"huge-pages", false, (*patient).checkHugePages},
	{"reserved-pages", false, (*patient).checkReservedPages},
	{"first-touch", false, (*patient).checkFirstTouch},
	{"processors", false, (*patient).checkProcessors},
	{"kernel", false, (*patient).checkKernel},
	{"container", false, (*patient).checkContainer},
	{"wsl", false, (*patient).checkWSL},
}

// Names returns the names of all checks in the order of the report.
func Names() (all []string) {
	for _, c := range allChecks {
		all = append(all, c.name)
	}
	return all
}

func (p *patient) run(c examination) Check {
	if p.System != linux {
		return skipped("only Linux is examined, this is " + p.System)
	}
	if c.ofGPU && !p.hasGPU() {
		return skipped("no GPU")
	}
	return c.run(p)
}

// summary says in a line how the machine is.
func (p *patient) summary(r *Report) string {
	var parts []string
	if n := r.count(Failure); n > 0 {
		parts = append(parts, plural(n, string(Failure)))
	}
	if n := r.count(Warning); n > 0 {
		parts = append(parts, plural(n, string(Warning))+r.serious())
	}
	parts = append(parts, fmt.Sprintf("%d ok", r.count(OK)))
	if n := r.count(Skipped); n > 0 {
		parts = append(parts, fmt.Sprintf("%d skipped", n))
	}
	text := "healthy: "
	switch {
	case r.Degraded:
		text = "degraded: "
	case !p.hasGPU():
		text = "no GPU: "
	}
	text += strings.Join(parts, ", ") + "."
	if !p.hasGPU() {
		text += " Nothing of a GPU was checked."
	}
	return text
}

// serious says how many warnings degrade the machine.
func (r *Report) serious() string {
	n := 0
	for _, c := range r.Checks {
		if c.State == Warning && c.Degrades {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d that slow copies or fail)", n)
}

// without returns the reason why NVML did not say something.
func (p *patient) without() string {
	if p.askErr != nil {
		return "unknown without NVML"
	}
	return "NVML does not say"
}

// anyPart reports whether text has one of the parts.
func anyPart(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}
