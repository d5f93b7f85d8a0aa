package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/libcuda"
)

// contained makes the machine a container of docker.
func (m *machine) contained() { m.set(".dockerenv", "") }

// TestDeviceFilesOpen demands of each error of open its own words and its own mend, in a container and
// outside.
func TestDeviceFilesOpen(t *testing.T) {
	for _, c := range []struct {
		name  string
		plant func(*machine)
		found string
		cost  string
		mend  string
	}{
		{"EPERM in a container", func(m *machine) {
			m.contained()
			for _, name := range []string{"nvidia0", "nvidiactl", "nvidia-uvm"} {
				m.opens["/dev/"+name] = syscall.EPERM
			}
		}, "EPERM, the device control group refuses: /dev/nvidiactl, /dev/nvidia-uvm, /dev/nvidia0", "no program here", "start the container again: systemctl daemon-reload"},
		{"EPERM in a service", func(m *machine) { m.opens["/dev/nvidia0"] = syscall.EPERM }, "group refuses: /dev/nvidia0", "no program here", "DeviceAllow="},
		{"EACCES by mode", func(m *machine) {
			m.tree["dev/nvidia0"] = &fstest.MapFile{Mode: fs.ModeDevice | fs.ModeCharDevice | 0o660}
			m.opens["/dev/nvidia0"] = syscall.EACCES
		}, "EACCES, its mode is 0660: /dev/nvidia0", "no program here", "usermod -aG GROUP"},
		{"EACCES in spite of the mode", func(m *machine) { m.opens["/dev/nvidia-uvm"] = syscall.EACCES }, "EACCES though its mode is 0666", "cuInit fails with CUDA_ERROR_UNKNOWN", "nodev"},
		{"ENXIO", func(m *machine) { m.opens["/dev/nvidia0"] = syscall.ENXIO }, "ENXIO, no driver serves its number: /dev/nvidia0", "no program here", "modprobe nvidia; if"},
		{"ENXIO of nvidia-uvm", func(m *machine) { m.opens["/dev/nvidia-uvm"] = syscall.ENXIO }, "ENXIO, no driver serves its number: /dev/nvidia-uvm", "(999)", "rm /dev/nvidia-uvm; nvidia-modprobe -u -c 0"},
		{"ENODEV in a container", func(m *machine) {
			m.contained()
			m.opens["/dev/nvidia0"] = syscall.ENODEV
		}, "ENODEV", "no program here", "on the host modprobe nvidia;"},
		{"EIO", func(m *machine) { m.opens["/dev/nvidia0"] = syscall.EIO }, "EIO, the driver cannot start the device", "no program here", "Xid"},
		{"another error", func(m *machine) { m.opens["/dev/nvidiactl"] = syscall.EMFILE }, "does not open (open /dev/nvidiactl: too many open files)", "no program here", "dmesg"},
		{"nvidia-uvm missing", func(m *machine) { m.remove("dev/nvidia-uvm") }, "missing: /dev/nvidia-uvm", "(999)", "modprobe nvidia_uvm; nvidia-modprobe -u -c 0, as root"},
		{"nvidia-uvm missing in a container", func(m *machine) {
			m.contained()
			m.remove("dev/nvidia-uvm")
		}, "missing: /dev/nvidia-uvm", "(999)", "on the host: modprobe nvidia_uvm"},
		{"missing in a container", func(m *machine) {
			m.contained()
			m.remove("dev/nvidia0")
			m.remove("dev/nvidiactl")
		}, "missing: /dev/nvidiactl, /dev/nvidia0", "no program here", "docker run --gpus all"},
		{"gone since the look", func(m *machine) { m.opens["/dev/nvidia0"] = syscall.ENOENT }, "missing: /dev/nvidia0", "no program here", "nvidia-modprobe"},
		{"two causes", func(m *machine) {
			m.remove("dev/nvidia-uvm")
			m.opens["/dev/nvidia0"] = syscall.EPERM
		}, "missing: /dev/nvidia-uvm; EPERM, the device control group refuses: /dev/nvidia0", "no program here", "modprobe nvidia_uvm; nvidia-modprobe -u -c 0, as root; the service"},
		{"no PCI bus is shown", func(m *machine) {
			m.remove("sys/bus")
			m.remove("proc/driver/nvidia")
			m.options.CUDA = nil
			m.opens["/dev/nvidia0"] = syscall.EPERM
		}, "EPERM", "no program here", "DeviceAllow="},
	} {
		m := h200()
		m.opens = map[string]error{}
		c.plant(m)
		for name, err := range m.opens {
			m.opens[name] = &fs.PathError{Op: "open", Path: name, Err: err}
		}
		got := m.examine(t).check("device-files")
		if got.State != Failure || !got.Degrades || got.Source != Manual {
			t.Errorf("%s: %+v", c.name, got)
		}
		for _, part := range []struct{ what, text, want string }{{"found", got.Found, c.found}, {"cost", got.Cost, c.cost}, {"mend", got.Mend, c.mend}} {
			if !strings.Contains(part.text, part.want) {
				t.Errorf("%s: %s is %q, want %q in it", c.name, part.what, part.text, part.want)
			}
		}
	}
}

// TestDeviceFilesOf demands which files are opened: those of the GPU that is examined.
func TestDeviceFilesOf(t *testing.T) {
	m := h200()
	m.behindBridge()
	m.tree["dev/nvidia1"], m.tree["dev/nvidia-caps"] = m.tree["dev/nvidia0"], &fstest.MapFile{Mode: fs.ModeDir}
	m.opens = map[string]error{"/dev/nvidia1": syscall.EPERM} // of the other GPU
	if c := m.examine(t).check("device-files"); c.State != OK || c.Found != "opened: nvidiactl, nvidia-uvm, nvidia0" {
		t.Errorf("%+v", c)
	}
	m.remove("proc/driver/nvidia/gpus") // whose number is not known
	if c := m.examine(t).check("device-files"); c.State != Failure || !strings.HasSuffix(c.Found, ": /dev/nvidia1") {
		t.Errorf("%+v", c)
	}
	without := laptop() // a container without the GPU sees the module of the host
	without.set("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04\n")
	if c := without.examine(t).check("device-files"); c.State != Skipped || c.Found != "no GPU" {
		t.Errorf("%+v", c)
	}
}

// TestOpenDevice opens real files: one that opens, one that is missing, and one that may not be opened.
func TestOpenDevice(t *testing.T) {
	if err := openDevice(os.DevNull); err != nil {
		t.Error(err)
	}
	dir := t.TempDir()
	if err := openDevice(filepath.Join(dir, "nvidia0")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if err := openDevice(dir); err == nil {
		t.Error("a directory opened for writing")
	}
}

// TestCodes demands the mend of each code, wrapped as libcuda wraps it.
func TestCodes(t *testing.T) {
	const file = "/usr/local/cuda/compat/libcuda.so.1"
	for code, want := range map[cu.Result]string{
		cu.ErrorStubLibrary:                "take the toolkit's directory stubs off",
		cu.ErrorDeviceUnavailable:          "nvidia-smi -c DEFAULT",
		cu.ErrorNoDevice:                   "CUDA_VISIBLE_DEVICES",
		cu.ErrorOperatingSystem:            "see device-files",
		cu.ErrorSystemNotReady:             "nvidia-fabricmanager",
		cu.ErrorCompatNotSupportedOnDevice: "cuda-compat",
		cu.ErrorUnknown:                    "modprobe nvidia_uvm",
	} {
		m := h200()
		m.options.CUDA = nil
		m.options.CUDAError = &libcuda.OpenError{Tried: []libcuda.Attempt{{Path: file, Exists: true, Err: code, Message: fmt.Sprintf("cuInit of %s: %v", file, code)}}}
		c := m.examine(t).check("driver")
		if c.State != Failure || !strings.Contains(c.Found, file) || !strings.Contains(c.Mend, want) {
			t.Errorf("%v: %+v, want the mend %q", code, c, want)
		}
	}
	m := h200() // cuInit worked, and what follows fails
	m.options.Library = "/usr/lib64/libcuda.so.580.159.04"
	m.options.CUDAError = fmt.Errorf("describe cuda:0: %w", cu.ErrorDeviceUnavailable)
	if c := m.examine(t).check("driver"); !strings.Contains(c.Found, m.options.Library) || !strings.Contains(c.Mend, "has the GPU for itself") {
		t.Errorf("%+v", c)
	}
}

// TestLoadedLibrary demands that the report names the library that was loaded, whatever the usual
// places have, and that another version that works is no fault.
func TestLoadedLibrary(t *testing.T) {
	m := h200()
	m.link("usr/lib/x86_64-linux-gnu/libcuda.so.1", "libcuda.so.570.86.15") // which was not loaded
	m.options.Library = "/usr/local/cuda/compat/libcuda.so.590.44.01"
	r := m.examine(t)
	if c := r.check("driver"); c.State != OK || c.Found != "580.159.04, library /usr/local/cuda/compat/libcuda.so.590.44.01" {
		t.Errorf("%+v", c)
	}
	if r.Device.Library != m.options.Library {
		t.Errorf("the document names %q", r.Device.Library)
	}
}
