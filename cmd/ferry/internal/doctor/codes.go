package doctor

import (
	"errors"
	"strings"

	"github.com/ferrygpu/ferry/cu"
)

// codeMends says how to mend what makes cuInit or the listing of devices fail, by the code.
var codeMends = []struct {
	code cu.Result
	mend string
}{
	{cu.ErrorStubLibrary, "a library for linkers was loaded: take the toolkit's directory stubs off LD_LIBRARY_PATH and ldconfig, and install the driver's libcuda.so.1"},
	{cu.ErrorDeviceUnavailable, "a process has the GPU for itself: end it, or as root nvidia-smi -c DEFAULT; nvidia-smi -q -d COMPUTE shows the mode"},
	{cu.ErrorNoDevice, "unset CUDA_VISIBLE_DEVICES; in a container pass the GPU (docker run --gpus all)"},
	{cu.ErrorOperatingSystem, "the kernel refused a file of a device or a call: see device-files and dmesg; in gVisor start runsc with --nvproxy"},
	{cu.ErrorSystemNotReady, "start the fabric manager on a machine with NVSwitch, in the driver's version: systemctl start nvidia-fabricmanager; in confidential computing set the GPU ready: nvidia-smi conf-compute -srs 1"},
	{cu.ErrorSystemDriverMismatch, reload + "; a container gets its library from the host"},
	{cu.ErrorCompatNotSupportedOnDevice, "the library of cuda-compat serves data center GPUs only: take its directory off LD_LIBRARY_PATH and ldconfig, or install a newer driver"},
	{cu.ErrorUnknown, "most often nvidia_uvm is missing: modprobe nvidia_uvm; nvidia-modprobe -u -c 0, as root of the host, and then start the container again"},
}

// codeMend returns the mends of all codes that an error wraps, or "" for other errors.
func codeMend(err error) string {
	var mends []string
	for _, c := range codeMends {
		if errors.Is(err, c.code) {
			mends = append(mends, c.mend)
		}
	}
	return strings.Join(mends, "; ")
}
