package libcuda

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/dl"
	"github.com/ferrygpu/ferry/internal/forked"
	"github.com/ferrygpu/ferry/internal/origin"
)

// LibraryVariable is the environment variable that names the driver library. When it
// is set, to an absolute path, no other place is tried.
const LibraryVariable = "FERRY_LIBCUDA"

// Open finds the driver library and opens it. It does not start the driver; call
// Init. The error is an [*OpenError].
func Open() (*Driver, error) {
	if !platformSupported {
		return nil, &OpenError{Platform: runtime.GOOS + "/" + runtime.GOARCH}
	}
	paths := libraryPaths()
	if path := os.Getenv(LibraryVariable); path != "" {
		if !filepath.IsAbs(path) {
			return nil, &OpenError{Tried: []Attempt{{Path: path, Message: LibraryVariable + " is not an absolute path"}}}
		}
		paths = []string{path}
	}
	failed := &OpenError{}
	for _, path := range paths {
		lib, err := openLibrary(path)
		if err == nil {
			return newDriver(lib), nil
		}
		failed.Tried = append(failed.Tried, Attempt{Path: path, Message: err.Error()})
	}
	if _, safe := dl.SearchPath(); !safe && os.Getenv(LibraryVariable) == "" {
		failed.Tried = append(failed.Tried, Attempt{Path: dl.NotAsked.Path, Message: dl.NotAsked.Reason})
	}
	return nil, failed
}

// openLibrary opens one file and checks that it is a CUDA driver.
func openLibrary(path string) (library, error) {
	lib, err := dlopen(path)
	if err != nil {
		return library{}, err
	}
	addr, err := lib.symbol("cuInit")
	if err != nil {
		return library{}, fmt.Errorf("%s: no CUDA driver: %w", path, err)
	}
	maps, _ := os.ReadFile("/proc/self/maps")
	if file := mappedFile(string(maps), addr); file != "" {
		lib.path = file
	}
	return lib, nil
}

// OpenError is the reason why there is no driver library: the platform has none, or
// every place was tried.
type OpenError struct {
	Platform string // "darwin/arm64" where libcuda cannot be used; else ""
	Tried    []Attempt
}

// Attempt is a file that could not be opened as the driver library.
type Attempt struct {
	Path    string
	Message string // from the system's loader
}

func (e *OpenError) Error() string {
	if e.Platform != "" {
		return fmt.Sprintf("open the CUDA driver library: Ferry uses it on linux/amd64 and linux/arm64, this is %s", e.Platform)
	}
	var b strings.Builder
	b.WriteString("open the CUDA driver library: tried ")
	for i := 0; i < len(e.Tried); i++ {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(e.Tried[i].Path)
		// The message is usually the same for every place: print it once.
		for i+1 < len(e.Tried) && e.Tried[i+1].reason() == e.Tried[i].reason() {
			i++
			b.WriteString(", " + e.Tried[i].Path)
		}
		b.WriteString(": " + e.Tried[i].reason())
	}
	b.WriteString(". Install NVIDIA's driver, or set " + LibraryVariable + " to the path of its libcuda.so.1")
	return b.String()
}

// reason returns the message without the path that loaders put before it.
func (a Attempt) reason() string {
	return strings.TrimPrefix(a.Message, a.Path+": ")
}

// Init starts the driver. An error names the library, its CUDA version and the loaded
// kernel module, because the usual cause is that these do not match.
func (d *Driver) Init(flags uint32) error {
	if d == nil || d.lib.symbol == nil {
		return fmt.Errorf("cuInit: %w: the driver was not made by Open", cu.ErrorNotInitialized)
	}
	err := d.call3(procInit, uintptr(flags), 0, 0)
	switch code, ok := err.(cu.Result); {
	case ok:
		return fmt.Errorf("cuInit of %s: %w", d.text(), code)
	case err == nil:
		forked.Started()
	}
	return err
}

// text describes the driver: "/usr/lib64/libcuda.so.580.65.06 (CUDA 13.0, kernel
// module 580.65.06)".
func (d *Driver) text() string {
	var known []string
	if d.version != 0 {
		known = append(known, "CUDA "+versionText(d.version))
	}
	if v := origin.Release(); v != "" {
		known = append(known, "kernel module "+v)
	} else {
		known = append(known, "no kernel module in /proc/driver/nvidia")
	}
	return d.lib.path + " (" + strings.Join(known, ", ") + ")"
}

// hex parses a hexadecimal number. It returns 0 for other text.
func hex(digits string) uintptr {
	n, _ := strconv.ParseUint(digits, 16, 64)
	return uintptr(n)
}
