package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// openFailure is why files of devices do not open, and how to mend it.
type openFailure struct {
	names []string // in /dev
	found string   // the error and what it means
	mend  string
}

// checkDeviceFiles opens the files of the devices. Containers often have files that exist and
// cannot be opened.
func (p *patient) checkDeviceFiles() Check {
	names := p.deviceFiles()
	if len(names) == 0 {
		if !p.hasGPU() {
			return skipped("no GPU")
		}
		return skipped("no kernel module, so no device files")
	}
	var failures []openFailure
	for _, name := range names {
		found, mend := p.tryDevice(name)
		if found == "" {
			continue
		}
		i := slices.IndexFunc(failures, func(f openFailure) bool { return f.found == found && f.mend == mend })
		if i < 0 {
			i, failures = len(failures), append(failures, openFailure{found: found, mend: mend})
		}
		failures[i].names = append(failures[i].names, "/dev/"+name)
	}
	if len(failures) == 0 {
		if p.OpenDevice == nil {
			return ok(strings.Join(names, ", "))
		}
		return ok("opened: " + strings.Join(names, ", "))
	}
	return deviceFailure(failures)
}

// deviceFailure returns the check of files that do not open.
func deviceFailure(failures []openFailure) Check {
	var found, mends []string
	for _, f := range failures {
		found = append(found, f.found+": "+strings.Join(f.names, ", "))
		if !slices.Contains(mends, f.mend) {
			mends = append(mends, f.mend)
		}
	}
	cost := "no program here can use the GPU"
	if len(failures) == 1 && slices.Equal(failures[0].names, []string{"/dev/" + uvm}) {
		cost = "cuInit fails with CUDA_ERROR_UNKNOWN (999) or OPERATING_SYSTEM (304), though nvidia-smi works"
	}
	return problem{found: strings.Join(found, "; "), cost: cost, source: Manual, mend: strings.Join(mends, "; ")}.failure()
}

// uvm is the file of the module nvidia_uvm, which CUDA needs and NVML does not.
const uvm = "nvidia-uvm"

// deviceFiles returns the names in /dev that CUDA needs here: those of the driver, and that of the GPU,
// or those of all GPUs if its number is not known.
func (p *patient) deviceFiles() []string {
	if p.soft {
		return nil
	}
	if p.host.WSL {
		if !p.hasGPU() && !p.exists("dev/dxg") {
			return nil
		}
		return []string{"dxg"}
	}
	var present []string
	for _, name := range p.names("dev") {
		if _, err := strconv.Atoi(strings.TrimPrefix(name, "nvidia")); err == nil && strings.HasPrefix(name, "nvidia") {
			present = append(present, name)
		}
	}
	if p.module() == "" && len(present) == 0 && !p.exists("dev/nvidiactl") {
		return nil
	}
	if minor := p.field("proc/driver/nvidia/gpus/"+p.address+"/information", "Device Minor:"); minor != "" {
		present = []string{"nvidia" + minor}
	}
	if !p.hasGPU() && len(present) == 0 {
		return nil // a container without the GPU sees the module of its host
	}
	return append([]string{"nvidiactl", uvm}, present...)
}

// tryDevice opens a file of /dev. It returns what is wrong and how to mend it, or "" and "".
func (p *patient) tryDevice(name string) (found, mend string) {
	info, err := fs.Stat(p.FS, "dev/"+name)
	if err != nil {
		return "missing", p.missingMend(name)
	}
	if p.OpenDevice == nil {
		return "", ""
	}
	switch err := p.OpenDevice("/dev/" + name); {
	case err == nil:
		return "", ""
	case errors.Is(err, syscall.ENOENT):
		return "missing", p.missingMend(name)
	case errors.Is(err, syscall.EPERM):
		return "EPERM, the device control group refuses", p.groupMend()
	case errors.Is(err, syscall.EACCES):
		return p.denied(info.Mode())
	case errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.ENODEV):
		return p.stale(name, err)
	case errors.Is(err, syscall.EIO):
		return "EIO, the driver cannot start the device", "dmesg | grep -e NVRM -e Xid says why; then nvidia-smi --gpu-reset, or restart the machine"
	default:
		return "does not open (" + oneLine(err) + ")", "dmesg | grep -e NVRM -e nvidia says more"
	}
}

// missingMend says how to make a file of /dev.
func (p *patient) missingMend(name string) string {
	switch {
	case p.host.WSL:
		return "wsl --update, in Windows"
	case name == uvm && p.host.Container != "":
		return "on the host: modprobe nvidia_uvm; nvidia-modprobe -u -c 0; then start the container again: it has the files that the host had at its start"
	case name == uvm:
		return "modprobe nvidia_uvm; nvidia-modprobe -u -c 0, as root"
	case p.host.Container != "":
		return "start the container with the GPU: docker run --gpus all; on the host nvidia-modprobe -u -c 0"
	}
	return "nvidia-modprobe -u -c 0, as root"
}

// groupMend says how to let a device through the device control group.
func (p *patient) groupMend() string {
	if p.host.Container == "" {
		return "the service or slice has a list of devices: systemctl edit it, PrivateDevices=no and DeviceAllow=FILE rw for each of them"
	}
	return "start the container again: systemctl daemon-reload on the host takes its devices away; so that it lasts, name each with docker run --device, or use CDI (--device nvidia.com/gpu=all)"
}

// denied explains EACCES by the mode of a file.
func (p *patient) denied(mode fs.FileMode) (found, mend string) {
	if mode.Perm()&0o006 == 0o006 {
		return fmt.Sprintf("EACCES though its mode is %04o, so a security module or a mount with nodev refuses", mode.Perm()),
			"dmesg | grep -i denied names SELinux or AppArmor (docker run --security-opt label=disable); findmnt -T /dev shows nodev: let the container's runtime make the files"
	}
	return fmt.Sprintf("EACCES, its mode is %04o", mode.Perm()),
		"ls -l shows the group: usermod -aG GROUP USER and a new login, docker run --group-add; or load the module with NVreg_DeviceFileMode=0666"
}

// stale explains ENXIO and ENODEV: no driver serves the number of the file.
func (p *patient) stale(name string, err error) (found, mend string) {
	code := "ENXIO"
	if errors.Is(err, syscall.ENODEV) {
		code = "ENODEV"
	}
	found = code + ", no driver serves its number"
	switch {
	case name == uvm:
		mend = "modprobe nvidia_uvm; if it is loaded, its number has changed: rm /dev/nvidia-uvm; nvidia-modprobe -u -c 0"
	default:
		mend = "modprobe nvidia; if it is loaded, there is no such GPU now: rm the file; nvidia-modprobe -c 0; nvidia-smi -L lists the GPUs"
	}
	if p.host.Container != "" {
		mend = "on the host " + mend + "; then start the container again"
	}
	return found, mend
}
