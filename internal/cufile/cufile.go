package cufile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/ferrygpu/ferry/internal/dl"
	"github.com/ferrygpu/ferry/internal/toolkit"
)

// Facts are what a probe has found.
type Facts struct {
	Path    string // of the library
	Version int    // of the library: 1000*major + 10*minor, as cuFileGetVersion says
	Driver  Driver
	Module  string // the version of the kernel module nvidia-fs, or "" if it is not loaded
}

// Driver is what cuFileDriverGetProperties says (CUfileDrvProps_t).
type Driver struct {
	Major, Minor  uint32 // of nvidia-fs, 0.0 without it
	MaxDirect     uint64 // the largest transfer of the module, in KiB
	FileSystems   uint32 // bit 4 is NVMe, bit 1 is WekaFS, and so on (CUfileDriverStatusFlags_t)
	Compatibility bool   // reads through host memory are allowed
}

// Direct reports whether disks can write into the memory of a GPU here: the driver names file systems
// from which they can. Else cuFile copies through host memory.
func (f *Facts) Direct() bool { return f.Driver.FileSystems != 0 }

// String returns a sentence.
func (f *Facts) String() string {
	text := fmt.Sprintf("cuFile %d.%d (%s): ", f.Version/1000, f.Version%1000/10, f.Path)
	switch {
	case f.Direct():
		return text + fmt.Sprintf("direct, by nvidia-fs %d.%d, file systems %#x", f.Driver.Major, f.Driver.Minor, f.Driver.FileSystems)
	case f.Module == "":
		return text + "the kernel module nvidia-fs is not loaded, so cuFile would copy through host memory (compatibility mode)"
	}
	return text + fmt.Sprintf("nvidia-fs %s is loaded and knows no file system here, so cuFile would copy through host memory (compatibility mode)", f.Module)
}

// statusError is a CUfileOpError that is not success.
type statusError struct {
	function string
	code     int32
}

func (e *statusError) Error() string { return fmt.Sprintf("%s: cuFile error %d", e.function, e.code) }

// library calls a function of a C library by its name. Memory that arguments point to comes from a
// [dl.Frame].
type library func(name string, args ...uintptr) (uintptr, error)

// Probe opens cuFile's library and its driver, asks both and closes the driver. root is the root of the
// file system, which says whether the module is loaded. The error is a [*dl.NotFoundError] if there is
// no library, dl.ErrPlatform where none can be opened, or what the library says. The library writes
// its log, cufile.log, into the working directory. It initializes CUDA.
func Probe(root fs.FS) (*Facts, error) {
	l, err := (&dl.Search{Names: []string{"libcufile.so.0", "libcufile.so"}, Dirs: toolkit.Dirs("cufile"), LoaderFirst: true}).Find()
	if err != nil {
		return nil, fmt.Errorf("find cuFile: %w", err)
	}
	f, err := ask(func(name string, args ...uintptr) (uintptr, error) {
		fn, err := l.Symbol(name)
		if err != nil {
			return 0, err
		}
		return dl.Call(fn, args...), nil
	})
	if err != nil {
		return nil, fmt.Errorf("ask cuFile (%s): %w", l.Path(), err)
	}
	f.Path, f.Module = l.Path(), Module(root)
	return f, nil
}

// Module returns the version of the kernel module nvidia-fs, "of unknown version" if it does not say
// one, or "" if it is not loaded.
func Module(root fs.FS) string {
	text, err := fs.ReadFile(root, "proc/driver/nvidia-fs/version")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if _, version, ok := strings.Cut(line, "version:"); ok {
			return strings.TrimSpace(version)
		}
	}
	return "of unknown version"
}

// ask calls the functions of the library.
func ask(lib library) (f *Facts, err error) {
	var mem dl.Frame
	defer mem.Release()
	f = new(Facts)
	version := make([]byte, 4)
	if err := call(lib, "cuFileGetVersion", mem.Bytes(version)); err != nil {
		return nil, err
	}
	f.Version = int(int32(binary.LittleEndian.Uint32(version)))
	if err := call(lib, "cuFileDriverOpen"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, call(lib, "cuFileDriverClose")) }()
	p := make([]byte, 256) // CUfileDrvProps_t has 56 bytes at version 1.16, and may grow
	if err := call(lib, "cuFileDriverGetProperties", mem.Bytes(p)); err != nil {
		return nil, err
	}
	f.Driver = driver(p)
	return f, nil
}

// allowCompatibility is CU_FILE_ALLOW_COMPAT_MODE, a number of a bit.
const allowCompatibility = 1

// driver reads the part of a CUfileDrvProps_t that tells of the module.
func driver(p []byte) Driver {
	le := binary.LittleEndian
	return Driver{
		Major: le.Uint32(p), Minor: le.Uint32(p[4:]), MaxDirect: le.Uint64(p[16:]), FileSystems: le.Uint32(p[24:]),
		Compatibility: le.Uint32(p[28:])>>allowCompatibility&1 == 1,
	}
}

// call calls a function that returns a CUfileError_t. Its lower half is the error of cuFile.
func call(lib library, function string, args ...uintptr) error {
	r, err := lib(function, args...)
	if err != nil {
		return err
	}
	if code := int32(r); code != 0 {
		return &statusError{function, code}
	}
	return nil
}
