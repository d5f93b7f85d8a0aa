package libcuda

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/dl"
	"github.com/ferrygpu/ferry/internal/forked"
	"github.com/ferrygpu/ferry/internal/origin"
	"github.com/ferrygpu/ferry/internal/printable"
	"github.com/ferrygpu/ferry/internal/secureenv"
)

// LibraryVariable is the environment variable that names the driver library. When it
// is set, to an absolute path, no other place is tried. Privileged programs ignore it:
// see SECURITY.md.
const LibraryVariable = "FERRY_LIBCUDA"

// Open finds the driver library, opens it and starts the driver (cuInit). It tries one
// library after the other until one starts: a stub for linkers, a broken file or a library
// that does not match the kernel module does not hide a working one behind it. If the
// environment has FERRY_LIBCUDA, no other library is tried. The error is an [*OpenError],
// which has all libraries with their reasons.
func Open() (*Driver, error) {
	if !dl.Supported {
		return nil, &OpenError{Platform: dl.Platform()}
	}
	if path := secureenv.Get(LibraryVariable); path != "" {
		return openNamed(path)
	}
	var d *Driver
	s := dl.DriverLibrary("libcuda.so.1", "libcuda.so")
	s.Accept = func(l *dl.Library) (err error) {
		d, err = start(l)
		return err
	}
	if _, err := s.Find(); err != nil {
		return nil, openError(err)
	}
	return d, nil
}

// openNamed opens the library that the environment names.
func openNamed(path string) (*Driver, error) {
	if !filepath.IsAbs(path) {
		return nil, &OpenError{Named: true, Tried: []Attempt{{Path: path, Message: LibraryVariable + " is not an absolute path"}}}
	}
	l, err := dl.Open(path)
	if err != nil {
		_, missing := os.Lstat(path)
		return nil, &OpenError{Named: true, Tried: []Attempt{{Path: path, Message: err.Error(), Exists: missing == nil}}}
	}
	d, err := start(l)
	if err != nil {
		return nil, &OpenError{Named: true, Tried: []Attempt{{Path: path, Message: err.Error(), Exists: true, Err: err}}}
	}
	return d, nil
}

// start checks that a library is a CUDA driver, and starts it.
func start(l *dl.Library) (*Driver, error) {
	addr, err := l.Symbol("cuInit")
	if err != nil {
		return nil, fmt.Errorf("no CUDA driver: %w", err)
	}
	lib := library{path: l.Path(), symbol: l.Symbol}
	maps, _ := os.ReadFile("/proc/self/maps")
	if file := mappedFile(string(maps), addr); file != "" {
		lib.path = file
	}
	d := newDriver(lib)
	return d, d.Init(0)
}

// openError makes the error of a search.
func openError(err error) error {
	failed := &OpenError{}
	e, ok := errors.AsType[*dl.NotFoundError](err)
	if !ok {
		failed.Tried = []Attempt{{Path: "libcuda.so.1", Message: err.Error()}}
		return failed
	}
	for _, a := range e.Tried {
		failed.Tried = append(failed.Tried, Attempt{Path: a.Path, Message: a.Reason, Exists: a.Exists, Err: a.Err})
	}
	failed.Kernel = dl.KernelDriver()
	return failed
}

// OpenError is the reason why there is no driver: the platform has none, or every place was
// tried. It wraps the results of cuInit.
type OpenError struct {
	Platform string // "darwin/arm64", or what else has no libcuda; "" where it can be used
	Tried    []Attempt
	Named    bool   // FERRY_LIBCUDA names the library, so no other was tried
	Kernel   string // what shows that the kernel has NVIDIA's driver, such as "/dev/nvidiactl", or ""
}

// Attempt is a file that could not be used as the driver library, or a directory without
// one.
type Attempt struct {
	Path    string
	Message string // from the system's loader, or from cuInit
	Exists  bool   // there is such a file
	Err     error  // from cuInit or from looking up cuInit; nil if the file did not open
}

// DriverPresent reports whether the machine has a driver, so that the error is no answer
// that a machine without a GPU gives: a library is there, or the kernel has NVIDIA's
// driver, or FERRY_LIBCUDA names the library.
func (e *OpenError) DriverPresent() bool {
	return e.Named || e.Kernel != "" || len(e.found()) > 0
}

// Broken reports whether a driver is there that should work. A machine without a GPU is not
// broken: it has no library, a stub of the toolkit, or a library that starts and finds no
// device (CUDA_ERROR_NO_DEVICE). A kernel module alone is no fault either, because a
// container without the GPU sees that of its host.
func (e *OpenError) Broken() bool {
	tried := e.found()
	if e.Named {
		tried = e.Tried
	}
	starts := false
	for _, a := range tried {
		switch {
		case errors.Is(a.Err, cu.ErrorNoDevice):
			starts = true
		case e.Named || !a.isStub():
			return true
		}
	}
	return !starts && (e.Named || strings.HasPrefix(e.Kernel, "/dev/"))
}

// isStub reports whether the file is one that the toolkit has for linkers.
func (a Attempt) isStub() bool {
	return errors.Is(a.Err, cu.ErrorStubLibrary) || filepath.Base(filepath.Dir(a.Path)) == "stubs"
}

// found returns the attempts at files that exist.
func (e *OpenError) found() (all []Attempt) {
	for _, a := range e.Tried {
		if a.Exists {
			all = append(all, a)
		}
	}
	return all
}

// Reason returns a line that says what is wrong with the driver that is there: each library
// with its reason, or that the kernel has a driver and no library was found. It is "" where
// nothing of a driver is.
func (e *OpenError) Reason() string {
	tried := e.found()
	if e.Named {
		tried = e.Tried
	}
	switch {
	case len(tried) > 0:
		return listed(tried)
	case e.Kernel != "":
		return "the kernel has NVIDIA's driver (" + e.Kernel + "), and no libcuda.so.1 was found"
	}
	return ""
}

func (e *OpenError) Error() string {
	if e.Platform != "" {
		return fmt.Sprintf("open the CUDA driver library: Ferry uses it on linux/amd64 and linux/arm64, this is %s", e.Platform)
	}
	text := "open the CUDA driver library: tried " + listed(e.Tried)
	if e.Kernel != "" && len(e.found()) == 0 && !e.Named {
		text += "; but " + e.Reason()
	}
	return text + ". Install NVIDIA's driver, or set " + LibraryVariable + " to the path of its libcuda.so.1"
}

// Unwrap returns what cuInit said of each library.
func (e *OpenError) Unwrap() (all []error) {
	for _, a := range e.Tried {
		if a.Err != nil {
			all = append(all, a.Err)
		}
	}
	return all
}

// listed lists attempts. The message is usually the same for several places: it stands once.
func listed(tried []Attempt) string {
	var b strings.Builder
	for i := 0; i < len(tried); i++ {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(printable.Path(tried[i].Path))
		for i+1 < len(tried) && tried[i+1].reason() == tried[i].reason() {
			i++
			b.WriteString(", " + printable.Path(tried[i].Path))
		}
		b.WriteString(": " + tried[i].reason())
	}
	return b.String()
}

// reason returns the message without the path that loaders put before it.
func (a Attempt) reason() string {
	return printable.Line(strings.ReplaceAll(strings.TrimPrefix(a.Message, a.Path+": "), a.Path, printable.Path(a.Path)))
}

// Init starts the driver, which [Open] has done. An error names the library, its CUDA version and the loaded
// kernel module, because the usual cause is that these do not match.
func (d *Driver) Init(flags uint32) error {
	if d == nil || d.lib.symbol == nil {
		return fmt.Errorf("cuInit: %w: the driver was not made by Open", cu.ErrorNotInitialized)
	}
	err := d.call3(procInit, uintptr(flags), 0, 0)
	switch code, ok := isResult(err); {
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
