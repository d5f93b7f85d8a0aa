package ferry

import (
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/devices"
	"github.com/ferrygpu/ferry/internal/forked"
	"github.com/ferrygpu/ferry/internal/gpuid"
	"github.com/ferrygpu/ferry/internal/hint"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/internal/secureenv"
	"github.com/ferrygpu/ferry/internal/variables"
	"github.com/ferrygpu/ferry/libcuda"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu"
)

// SpecVariable is the environment variable in which Open("") looks for a [GPUInfo].Spec.
const SpecVariable = secureenv.DeviceVariable

// GPUInfo describes a device that [Open] can open.
type GPUInfo struct {
	Spec     string // name for [Open]: "cuda:0", "soft:h200"
	Name     string // product name: "NVIDIA H200" (cuDeviceGetName)
	Emulated bool   // true for a software GPU

	Memory       uint64 // bytes (cuDeviceTotalMem)
	Major, Minor int    // compute capability: 9 and 0 for 9.0
	UUID         string // as nvidia-smi prints it, "GPU-" and 36 characters (cuDeviceGetUuid); "" if the driver has none
	PCIAddress   string // "0000:1b:00.0" (cuDeviceGetPCIBusId)
}

// GPUs lists the devices that [Open] can open: first the NVIDIA GPUs, then one software
// GPU for each machine profile that Ferry ships. It opens none of them: it creates no
// context and allocates no device memory.
//
// A machine without NVIDIA's driver or without a GPU is not an error: Open("cuda") says
// what was tried. The error is that of a driver that is there and does not work: each
// library with its reason, if no library starts, or files of devices without a library.
// FERRY_LIBCUDA counts as a driver. The kernel module alone does not, because containers
// without the GPU see that of their host. The list then still has the devices that can be
// opened.
func GPUs() ([]GPUInfo, error) {
	if forked.Child() {
		return nil, forked.New("list devices")
	}
	all, failed := hardware()
	for _, name := range profile.Names() {
		p, err := profile.Named(name)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		d, err := softgpu.Open(softgpu.Options{Profile: p})
		if err == nil {
			all, err = appendInfo(all, d, "soft:"+name, 0)
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("describe soft:%s: %w", name, err))
		}
	}
	return all, failed
}

// hardware lists the NVIDIA GPUs. A machine without a driver or a device has none.
func hardware() (all []GPUInfo, failed error) {
	d, count, err := cudaDevices()
	missing, notOpened := errors.AsType[*libcuda.OpenError](err)
	switch {
	case notOpened && !missing.Broken(), errors.Is(err, cu.ErrorNoDevice) && !notOpened:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("list the NVIDIA GPUs: %w", err)
	}
	for i := range count {
		label := "cuda:" + strconv.Itoa(i)
		if all, err = appendInfo(all, d, label, i); err != nil {
			failed = errors.Join(failed, fmt.Errorf("describe %s: %w", label, err))
		}
	}
	return all, failed
}

// appendInfo appends the description of a device. label is its name for Open.
func appendInfo(all []GPUInfo, d cu.Driver, label string, ordinal int) ([]GPUInfo, error) {
	info, err := infoOf(d, ordinal)
	if err != nil {
		return all, err
	}
	info.Spec = label
	return append(all, info), nil
}

// infoOf reads the description of a device from its driver.
func infoOf(d cu.Driver, ordinal int) (info GPUInfo, err error) {
	if err := d.Init(0); err != nil {
		return info, err
	}
	device, err := d.DeviceGet(int32(ordinal))
	if err != nil {
		return info, err
	}
	info.Emulated = cu.AsEmulated(d) != nil
	if info.Name, err = d.DeviceGetName(device); err != nil {
		return info, err
	}
	memory, err := d.DeviceTotalMem(device)
	if err != nil {
		return info, err
	}
	info.Memory = uint64(memory)
	major, err := d.DeviceGetAttribute(cu.DeviceAttributeComputeCapabilityMajor, device)
	if err != nil {
		return info, err
	}
	minor, err := d.DeviceGetAttribute(cu.DeviceAttributeComputeCapabilityMinor, device)
	if err != nil {
		return info, err
	}
	info.Major, info.Minor = int(major), int(minor)
	if info.PCIAddress, err = d.DeviceGetPCIBusId(device); err != nil {
		return info, err
	}
	u, err := d.DeviceGetUuid(device)
	if errors.Is(err, cu.ErrorNotSupported) {
		return info, nil
	}
	if err != nil {
		return info, err
	}
	info.UUID = fmt.Sprintf("GPU-%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
	return info, nil
}

// Open opens a device by name:
//
//	""            the device in FERRY_DEVICE, else an NVIDIA GPU, else the software GPU
//	cuda          the first NVIDIA GPU
//	cuda:1        the NVIDIA GPU with ordinal 1
//	cuda:GPU-8932 the NVIDIA GPU whose UUID begins so; no other one may have that beginning
//	cuda:1b:00.0  the NVIDIA GPU with this PCI address, also with a domain: cuda:0000:1b:00.0
//	soft          the software GPU, emulating an H200
//	soft:NAME     the software GPU, emulating a machine of package profile
//	soft:FILE     the software GPU with the profile in FILE, whose name ends in .json
//	soft:h200*2   the first GPU of a software machine with two
//
// "cuda:" with the UUID or PCIAddress of a [GPUInfo] opens that GPU, whatever its ordinal is. The
// error for a UUID or address that names none or several lists the GPUs that the driver shows.
// Software GPUs have both, too, but no name with them: each Open makes a new one.
//
// [GPUs] lists the names that this machine can open. Only "" falls back to the software
// GPU: on a machine without a GPU, "cuda" is an error that says what was tried. When Open
// falls back, it writes one line to standard error, once per process, and
// [GPU.Fallback] returns the reason. If the machine has a driver, the line says why no GPU
// could be opened. FERRY_QUIET=1 suppresses the line. The error for a name that Open does
// not know wraps cu.ErrorInvalidValue. Privileged programs ignore a FERRY_DEVICE that names
// a file: see SECURITY.md.
//
// Each Open of a software GPU makes a new machine. Use [OpenAll] for devices that access
// each other's memory.
func Open(name string) (*GPU, error) {
	all, err := open(name, false)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// OpenAll opens every device that a name of [Open] stands for: two for "soft:h200*2",
// every NVIDIA GPU for "cuda". After an error none is open.
func OpenAll(name string) ([]*GPU, error) { return open(name, true) }

// OpenDriver opens the device with an ordinal of any driver, such as a driver that wraps
// another one. Devices that copy to each other or share memory must be opened with the
// same driver value. If FERRY_TRACE is set, OpenDriver and Open wrap the driver in one that
// records its calls: see package trace. If FERRY_FAULT is set, calls fail: see package
// fault. If FERRY_CHECK has "memory", wrong uses of memory are reported: see package check.
// The same driver value is wrapped once, as long as a GPU of it is open or the program keeps what
// [GPU.Driver] returns.
func OpenDriver(d cu.Driver, ordinal int) (*GPU, error) {
	if d == nil {
		return nil, refusal.Invalid("open device %d: no driver given (nil)", ordinal)
	}
	d, err := wrap(d)
	if err != nil {
		return nil, fmt.Errorf("open device %d: %w", ordinal, err)
	}
	if err := d.Init(0); err != nil {
		return nil, fmt.Errorf("open device %d: %w", ordinal, err)
	}
	count, err := d.DeviceGetCount()
	if err != nil {
		return nil, fmt.Errorf("open device %d: %w", ordinal, err)
	}
	if ordinal < 0 || ordinal >= int(count) {
		return nil, refusal.New(cu.ErrorInvalidDevice, "open device %d: the driver has %d, numbered from 0", ordinal, count)
	}
	label := devices.Label(d, int(count), ordinal)
	g, err := newGPU(d, ordinal, label)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", label, err)
	}
	return g, nil
}

// wrap wraps a driver as the environment asks for it.
func wrap(d cu.Driver) (cu.Driver, error) {
	w, err := devices.Wrap(d)
	if library := cudaDriver.Load(); err == nil && library != nil && d == cu.Driver(library) {
		cudaWrapped.Store(&w)
	}
	return w, err
}

// open opens the first device that a name stands for or, if all is set, every one.
func open(name string, all bool) ([]*GPU, error) {
	variables.Warn()
	if forked.Child() {
		return nil, forked.New("open " + printable.Value(name))
	}
	asked := name
	if name == "" {
		name = secureenv.Device()
		asked = SpecVariable + "=" + name
	}
	n, err := devices.Parse(name)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", printable.Value(asked), err)
	}
	if n.Soft {
		return openSoft(n, name, all)
	}
	gpus, err := openCUDA(n, all)
	if err == nil {
		return gpus, nil
	}
	if !n.Auto {
		return nil, fmt.Errorf("open %s: %w; \"soft\" opens the software GPU, which needs no hardware", printable.Value(name), err)
	}
	gpus, softErr := openSoft(devices.Soft, "soft", all)
	if softErr != nil {
		return nil, errors.Join(softErr, err) // what the program can change comes first
	}
	for _, g := range gpus {
		g.fallback = err
	}
	hint.Say(hint.Fallback, "no NVIDIA GPU could be opened%s, using %v: times are predictions (FERRY_DEVICE=cuda reports what was tried; FERRY_DEVICE=soft or %s=1 suppresses this line)", hint.Because(err), gpus[0], hint.QuietVariable)
	return gpus, nil
}

// openSoft makes a software machine and opens its devices.
func openSoft(n devices.Name, name string, all bool) ([]*GPU, error) {
	d, err := n.Machine()
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", printable.Value(name), err)
	}
	return openSome(d, 0, n.Count, all)
}

// cudaDriver is the driver library after a successful cuInit. All its devices share one
// driver value. A failure is not stored, so that a later Open tries again.
var cudaDriver atomic.Pointer[libcuda.Driver]

// cudaWrapped keeps the wrappers of cudaDriver, which stays until the process ends: FERRY_FAULT
// counts calls and remembers a sticky error also over the Close of all GPUs.
var cudaWrapped atomic.Pointer[cu.Driver]

// openLibrary loads the driver library, which libcuda.Open initializes.
func openLibrary() (*libcuda.Driver, error) {
	if d := cudaDriver.Load(); d != nil {
		return d, nil
	}
	d, err := libcuda.Open()
	if err != nil {
		return nil, err
	}
	cudaDriver.CompareAndSwap(nil, d)
	return cudaDriver.Load(), nil
}

// cudaDevices returns the initialized driver library and the number of its devices. It
// fails if there are none.
func cudaDevices() (*libcuda.Driver, int, error) {
	d, err := openLibrary()
	if err != nil {
		return nil, 0, err
	}
	count, err := d.DeviceGetCount()
	if err == nil && count == 0 {
		err = fmt.Errorf("the driver has no device: %w", cu.ErrorNoDevice)
	}
	return d, int(count), err
}

// openCUDA opens the NVIDIA GPU with the ordinal or ID of a name or, without either, the first
// GPU or all of them.
func openCUDA(n devices.Name, all bool) ([]*GPU, error) {
	d, count, err := cudaDevices()
	if err != nil {
		return nil, err
	}
	if n.ID.Named() {
		if n.Ordinal, err = find(d, count, n.ID); err != nil {
			return nil, err
		}
	}
	if n.Ordinal >= 0 {
		return openSome(d, n.Ordinal, n.Ordinal+1, true)
	}
	return openSome(d, 0, count, all)
}

// find returns the ordinal of the device that an ID names, of count devices of a driver. A
// device that does not answer has no UUID and no address. Its error is told if none is found, or if
// it could be the one, too.
func find(d cu.Driver, count int, id gpuid.ID) (ordinal int, err error) {
	var failed error
	all := make([]gpuid.GPU, count)
	for i := range all {
		info, err := infoOf(d, i)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("describe cuda:%d: %w", i, err))
		}
		all[i] = gpuid.GPU{Name: info.Name, UUID: info.UUID, PCIAddress: info.PCIAddress}
	}
	ordinal, err = id.Find(all)
	if err != nil || failed != nil && !id.Whole() { // a GPU that does not answer may have this beginning, too
		return 0, errors.Join(err, failed)
	}
	return ordinal, nil
}

// openSome opens devices first to end-1 or, unless all is set, only the first of them.
func openSome(d cu.Driver, first, end int, all bool) ([]*GPU, error) {
	if !all {
		end = first + 1
	}
	var gpus []*GPU
	for i := first; i < end; i++ {
		g, err := OpenDriver(d, i)
		if err != nil {
			for _, g := range gpus {
				err = errors.Join(err, g.Close())
			}
			return nil, err
		}
		gpus = append(gpus, g)
	}
	return gpus, nil
}
