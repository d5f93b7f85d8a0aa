package dl

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// driverDirs lists where distributions, containers and Jetson install the libraries of
// NVIDIA's driver.
var driverDirs = map[string][]string{
	"amd64": {
		"/usr/lib/x86_64-linux-gnu",
		"/usr/lib64",
		"/usr/local/nvidia/lib64",
		"/usr/lib64/nvidia",
		wslDir,
		"/run/opengl-driver/lib",
	},
	"arm64": {
		"/usr/lib/aarch64-linux-gnu",
		"/usr/lib64",
		"/usr/local/nvidia/lib64",
		"/usr/lib/aarch64-linux-gnu/nvidia",
		"/usr/lib/aarch64-linux-gnu/tegra",
		wslDir,
		"/run/opengl-driver/lib",
	},
}

// wslDir has the libraries of Windows' driver for Linux programs.
const wslDir = "/usr/lib/wsl/lib"

// DriverLibrary returns the search for a library of NVIDIA's driver. In WSL that of
// Windows goes first: a driver of Linux that was installed beside it has no GPU. The
// loader is asked before the usual directories, because its configuration can name a
// library for forward compatibility.
func DriverLibrary(names ...string) *Search { return driverLibrary("/", names...) }

// driverLibrary is DriverLibrary of the machine with a root directory, which ends in a slash.
func driverLibrary(root string, names ...string) *Search {
	s := &Search{Names: names, Dirs: driverDirs[runtime.GOARCH], LoaderFirst: true}
	if inWSL(root) {
		s.First = []string{wslDir}
	}
	return s
}

// inWSL reports whether a machine is a Linux in Windows. root is its root directory, which
// ends in a slash.
func inWSL(root string) bool {
	version, _ := os.ReadFile(root + "proc/version")
	return strings.Contains(strings.ToLower(string(version)), "microsoft") || exists(root+"dev/dxg")
}

// KernelDriver says what shows that the kernel has NVIDIA's driver: a file of a device such
// as "/dev/nvidiactl", or "/proc/driver/nvidia". It returns "" if nothing does. Containers
// without a GPU have the last on a machine with one.
func KernelDriver() string { return kernelDriver("/") }

// kernelDriver is KernelDriver of the machine with a root directory, which ends in a slash.
func kernelDriver(root string) string {
	if files, _ := filepath.Glob(root + "dev/nvidia*"); len(files) > 0 {
		return "/" + strings.TrimPrefix(files[0], root)
	}
	if exists(root + procDriver) {
		return "/" + procDriver
	}
	return ""
}

// procDriver is the directory of the kernel module.
const procDriver = "proc/driver/nvidia"
