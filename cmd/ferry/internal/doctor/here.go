package doctor

import (
	"context"
	"os"
	"runtime"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/internal/secureenv"
	"github.com/ferrygpu/ferry/libcuda"
)

// Here examines the machine that the program runs on. Without a name of a device it takes
// that of FERRY_DEVICE, and else the first NVIDIA GPU, if there is one. If ctx ends first,
// it returns the error of ctx; a driver that hangs is left behind.
func Here(ctx context.Context, device, version string) (*Report, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	type outcome struct {
		report *Report
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		r, err := examineHere(device, version)
		done <- outcome{r, err}
	}()
	select {
	case o := <-done:
		return o.report, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func examineHere(device, version string) (*Report, error) {
	if device == "" {
		device = secureenv.Device()
	}
	o := Options{Device: device, Version: version, System: runtime.GOOS, Arch: runtime.GOARCH}
	o.Manager, o.ManagerError = OpenNVML()
	o.OpenDevice = openDevice
	if d, err := libcuda.Open(); err == nil {
		o.Library = d.Path()
	} else {
		o.CUDAError = err
	}
	all, err := ferry.GPUs()
	if err != nil {
		o.CUDAError = err
	}
	for _, d := range all {
		if !d.Emulated {
			o.CUDA = append(o.CUDA, d.PCIAddress)
		}
	}
	return Examine(os.DirFS("/"), o)
}

// openDevice opens a file for reading and writing, and closes it.
func openDevice(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}
