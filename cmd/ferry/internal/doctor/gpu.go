package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/libcuda"
)

// Errors of a [Manager].
var (
	// ErrMismatch says that NVML and the kernel module have different versions.
	ErrMismatch = errors.New("NVML and the kernel module have different versions")

	// ErrLost says that the GPU fell off the bus.
	ErrLost = errors.New("the GPU does not answer")
)

func (p *patient) checkGPU() Check {
	if p.hasGPU() && errors.Is(p.askErr, ErrLost) {
		return problem{
			found:  "the GPU at " + p.address + " does not answer",
			cost:   "no program can use it until the machine restarts",
			source: Manual,
			mend:   "dmesg | grep Xid says why (79: it fell off the bus); restart the machine; check power and slot",
		}.failure()
	}
	if p.hasGPU() {
		found := p.product() + " at " + p.address
		if n := max(len(p.CUDA), len(p.gpus)); n > 1 {
			found += fmt.Sprintf(", one of %d", n)
		}
		return ok(found)
	}
	if p.soft {
		return skipped("the software GPU was asked for")
	}
	if !p.named && len(p.gpus) == 0 {
		return p.noGPU()
	}
	missing := problem{
		found:  fmt.Sprintf("there is no cuda:%d: CUDA and the PCI bus show %s", p.ordinal, plural(max(len(p.CUDA), len(p.gpus)), "GPU")),
		cost:   "no copy and no kernel runs on it; the software GPU predicts times only",
		source: Predicted,
		mend:   "lspci -d 10de: shows the GPUs of the machine; in a container pass one (docker run --gpus all)",
	}
	if p.idErr != nil {
		missing.found = p.idErr.Error()
	}
	return missing.failure()
}

// noGPU says that the machine has no GPU, which is no fault. A driver library that fails
// all the same may be why none is seen.
func (p *patient) noGPU() Check {
	e, notOpened := errors.AsType[*libcuda.OpenError](p.CUDAError)
	if p.CUDAError == nil || notOpened && !e.Broken() {
		return skipped("no NVIDIA GPU: nothing of a GPU is checked")
	}
	c := p.driverFails()
	c.State, c.Degrades, c.Found = Warning, false, "no NVIDIA GPU is seen, and "+c.Found
	return c
}

// oldestModule is the first release of the driver that has CUDA 11.3.
const oldestModule = 465

// module returns the version of NVIDIA's kernel module, or "" if none is loaded.
func (p *patient) module() string {
	line := p.field("proc/driver/nvidia/version", "NVRM version:")
	for word := range strings.FieldsSeq(line) {
		if isVersion(word) {
			return word
		}
	}
	return ""
}

// release returns the version of the driver: that of the kernel module, or what NVML says,
// as in WSL, where Linux has no module. It returns "" if nobody says.
func (p *patient) release() string {
	if module := p.module(); module != "" || p.Manager == nil {
		return module
	}
	version, err := p.Manager.Driver()
	if err != nil {
		return ""
	}
	return version
}

// isVersion reports whether a text is the version of a driver, such as 580.159.04.
func isVersion(text string) bool {
	major, rest, found := strings.Cut(text, ".")
	n, err := strconv.Atoi(major)
	return found && err == nil && n >= 100 && rest != "" && strings.Trim(rest, "0123456789.") == ""
}

// libraryDirs are where distributions, containers and WSL install the driver library.
var libraryDirs = []string{
	"usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/local/nvidia/lib64",
	"usr/lib64/nvidia", "usr/lib/aarch64-linux-gnu/nvidia", "usr/lib/aarch64-linux-gnu/tegra",
	"usr/lib/wsl/lib", "run/opengl-driver/lib",
}

// library returns the file of libcuda and its version. It is the library that Ferry has loaded, else the
// last one that it tried, else the one in the usual places. The version is "" if the name has none.
func (p *patient) library() (file, version string) {
	file = p.Library
	if e, notOpened := errors.AsType[*libcuda.OpenError](p.CUDAError); notOpened {
		for _, tried := range e.Tried {
			if tried.Exists && path.IsAbs(tried.Path) {
				file = tried.Path
			}
		}
	}
	for i := 0; file == "" && i < len(libraryDirs); i++ {
		if name := libraryDirs[i] + "/libcuda.so.1"; p.exists(name) {
			file = "/" + name
		}
	}
	target := file
	if to := p.link(strings.TrimPrefix(file, "/")); file != "" && to != "" {
		target = to
	}
	if _, after, found := strings.Cut(target, ".so."); found && isVersion(after) {
		version = after
	}
	return file, version
}

// reload is the command that loads the module again, when nothing uses the GPU.
const reload = "restart the machine, or stop all GPU programs and: rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia; modprobe nvidia nvidia_uvm"

func (p *patient) checkDriver() Check {
	module := p.module()
	file, version := p.library()
	switch {
	case p.host.WSL && module == "":
		if p.CUDAError != nil {
			return p.driverFails()
		}
		return ok(strings.TrimSpace("Windows' driver " + p.release()))
	case module == "":
		return p.noModule()
	case len(p.CUDA) == 0 && version != "" && version != module && (p.CUDAError == nil || errors.Is(p.CUDAError, cu.ErrorSystemDriverMismatch)),
		errors.Is(p.askErr, ErrMismatch):
		return mismatch(module, file, version)
	case p.CUDAError != nil && !p.noLibrary():
		return p.driverFails()
	case file != "" && len(p.CUDA) == 0:
		return problem{
			found:  "module " + module + ", but CUDA lists no GPU (" + file + ")",
			cost:   "no program here can use CUDA",
			source: Measured,
			mend:   codeMend(cu.ErrorNoDevice),
		}.failure()
	case len(p.CUDA) == 0:
		return problem{
			found:  "module " + module + ", but no libcuda.so.1",
			cost:   "no program can use CUDA",
			source: Manual,
			mend:   "install the driver's libraries of version " + module + "; in a container set NVIDIA_DRIVER_CAPABILITIES=compute,utility",
		}.failure()
	}
	return p.age(module, file, version)
}

// age checks whether the driver is new enough for Ferry.
func (p *patient) age(module, file, version string) Check {
	major, _, _ := strings.Cut(module, ".")
	if n, err := strconv.Atoi(major); err == nil && n < oldestModule {
		return problem{
			found:  "module " + module + " is older than CUDA 11.3",
			cost:   "Ferry does not open the driver: it needs CUDA 11.3",
			source: Manual,
			mend:   fmt.Sprintf("install a driver of release %d or newer", oldestModule),
		}.failure()
	}
	switch {
	case version == module:
		return ok(module + ", same library in " + path.Dir(file))
	case file != "":
		return ok(module + ", library " + file)
	}
	return ok(module)
}

func mismatch(module, file, version string) Check {
	library := cmp.Or(version, "of another version")
	if file != "" {
		library += " (" + file + ")"
	}
	return problem{
		found:  "module " + module + ", library " + library,
		cost:   "cuInit fails with CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, so no program can use CUDA",
		source: Manual,
		mend:   codeMend(cu.ErrorSystemDriverMismatch),
	}.failure()
}

func (p *patient) noModule() Check {
	found := "NVIDIA's kernel module is not loaded"
	bound := p.link(p.inDevice(p.address, "driver"))
	if i := strings.LastIndexByte(bound, '/'); i >= 0 && bound[i+1:] != "nvidia" {
		found = "the GPU belongs to " + bound[i+1:] + ", not to NVIDIA's module"
	}
	return problem{
		found:  found,
		cost:   "no program can use the GPU",
		source: Manual,
		mend:   "install NVIDIA's driver and: modprobe nvidia; dmesg | grep NVRM says why it fails",
	}.failure()
}

// driverFails reports the error of the driver library, with the mend of its code.
func (p *patient) driverFails() Check {
	found, mend := "the library fails: "+oneLine(p.CUDAError), codeMend(p.CUDAError)
	if p.Library != "" {
		found = "the library " + p.Library + " fails: " + oneLine(p.CUDAError)
	}
	if e, notOpened := errors.AsType[*libcuda.OpenError](p.CUDAError); notOpened && e.Reason() != "" {
		found = "no driver library works: " + e.Reason()
		switch {
		case p.noLibrary():
			mend = "install the driver's libraries; in a container set NVIDIA_DRIVER_CAPABILITIES=compute,utility"
		case mend == "":
			mend = "remove or mend these libraries, or set " + libcuda.LibraryVariable + " to one that works"
		}
	}
	if mend == "" {
		mend = "restart the machine if the GPU fell off the bus"
	}
	return problem{
		found:  found,
		cost:   "no program can use CUDA",
		source: Manual,
		mend:   mend + "; nvidia-smi and dmesg | grep -e NVRM -e Xid say more",
	}.failure()
}

// noLibrary reports whether the error of the CUDA driver is that no place has its library.
func (p *patient) noLibrary() bool {
	e, notOpened := errors.AsType[*libcuda.OpenError](p.CUDAError)
	return notOpened && !e.Named && !slices.ContainsFunc(e.Tried, func(a libcuda.Attempt) bool { return a.Exists })
}

// oneLine returns the text of an error without line breaks.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

func (p *patient) checkPersistence() Check {
	on := p.about.Persistence
	switch {
	case on == nil:
		return skipped(p.without())
	case *on:
		return ok("on")
	}
	return problem{
		found:  "off",
		cost:   "a program that is alone on the GPU starts 1 to 3 s later (NVIDIA's guide Driver Persistence)",
		source: Manual,
		mend:   "systemctl enable --now nvidia-persistenced, or nvidia-smi -pm 1",
	}.warning(false)
}

func (p *patient) checkECC() Check {
	f := p.about
	switch {
	case isTrue(f.RemapFailed):
		return memoryTrouble("a row of memory could not be replaced")
	case f.LostErrors != nil && *f.LostErrors > 0:
		return memoryTrouble(fmt.Sprintf("%d errors were not corrected since the driver was loaded", *f.LostErrors))
	case isTrue(f.RemapPending):
		c := memoryTrouble("a row of memory waits for its replacement")
		c.State, c.Mend = Warning, "nvidia-smi --gpu-reset, when no program uses the GPU"
		return c
	case f.ECC == nil:
		return skipped(p.without())
	case !*f.ECC:
		return problem{
			found:  "off",
			cost:   "an error of memory is not noticed; results can be wrong (NVML manual)",
			source: Manual,
			mend:   "nvidia-smi -e 1, then restart the machine",
		}.warning(false)
	}
	found := "on, no errors"
	if n := f.CorrectedErrors; n != nil && *n > 0 {
		found = fmt.Sprintf("on, %d errors corrected", *n)
	}
	if n := f.EverLost; n != nil && *n > 0 {
		found += fmt.Sprintf(", %d not corrected in its life", *n)
	}
	return ok(found)
}

func isTrue(b *bool) bool { return b != nil && *b }

func memoryTrouble(found string) Check {
	return problem{
		found:  found,
		cost:   "programs on the GPU end with CUDA_ERROR_ECC_UNCORRECTABLE, or lose memory (NVIDIA's guide GPU Memory Error Management)",
		source: Manual,
		mend:   "nvidia-smi -q -d ECC,ROW_REMAPPER shows the counts; reset the GPU, and replace it if they return",
	}.failure()
}

// busyFrom is the use of a GPU, in per cent of time, from which it counts as under load.
const busyFrom = 10

// busy reports whether something uses the GPU now. known is false if nobody says.
func (p *patient) busy() (busy, known bool) {
	b := p.about.Busy
	return b != nil && *b >= busyFrom, b != nil
}

func (p *patient) checkProcesses() Check {
	f := p.about
	if !f.ProcessesKnown {
		return skipped(p.without())
	}
	load := ""
	if f.Busy != nil {
		load = fmt.Sprintf(", %d %% busy", *f.Busy)
	}
	busy, _ := p.busy()
	if len(f.Processes) == 0 && !busy {
		return ok("no other" + load)
	}
	var memory uint64
	ids := make([]string, 0, len(f.Processes))
	for _, other := range f.Processes {
		memory += other.Memory
		if ids = append(ids, strconv.Itoa(other.ID)); len(ids) == 4 {
			break
		}
	}
	found := "none visible, as in a container"
	if n := len(f.Processes); n > 0 {
		found = plural(n, "other process")
	}
	if len(ids) > 0 {
		found += " (" + strings.Join(ids, ", ") + ")"
	}
	if memory > 0 {
		found += ", " + sizeText(memory)
	}
	return problem{
		found:  found + load,
		cost:   "copies share the link: two that copy at once have 27.7 GB/s each instead of 55.4 (from 55.4 of an H200), and kernels share the GPU",
		source: Predicted,
		mend:   "measure when the GPU is idle, or choose another with --device; nvidia-smi names the processes",
	}.warning(busy)
}
