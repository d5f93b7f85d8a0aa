package libcuda

import (
	"fmt"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
)

// Unsafe: Addresses of Go memory are converted in the argument list of a function with the
// directive uintptrescapes, or are pinned. So the memory stays alive and in place until C
// returns, and C keeps none of them. Function addresses come from the library itself.

// library is an open shared library. Tests provide their own.
type library struct {
	path string
	// symbol returns the address of an exported function.
	symbol func(name string) (uintptr, error)
}

// newDriver makes a Driver of a library. It asks for the version, which works before
// cuInit.
func newDriver(lib library) *Driver {
	d := &Driver{lib: lib}
	if version, err := d.DriverGetVersion(); err == nil {
		d.version = version
	}
	return d
}

// proc returns the address of a function. Goroutines that need the same function at
// the same time each look it up, and find the same address.
func (d *Driver) proc(id procID) (uintptr, error) {
	if fn := d.procs[id].Load(); fn != 0 {
		return fn, nil
	}
	fn, err := d.resolve(&procs[id])
	if err != nil {
		return 0, err
	}
	d.procs[id].Store(fn)
	return fn, nil
}

// legacyStream asks for the functions for which stream 0 is the legacy default stream
// (CU_GET_PROC_ADDRESS_LEGACY_STREAM).
const legacyStream = 1

// resolve looks up a function. Since CUDA 12.0 cuGetProcAddress has five arguments,
// under the name cuGetProcAddress_v2; in CUDA 11.3 to 11.8 it has four. Older drivers
// do not have it, and the exported name decides which form is found.
func (d *Driver) resolve(p *proc) (uintptr, error) {
	name := append([]byte(p.symbol), 0)
	if get, err := d.lib.symbol("cuGetProcAddress_v2"); err == nil {
		var fn uintptr
		var status uint32
		r := syscallN(get, uintptr(unsafe.Pointer(&name[0])), uintptr(unsafe.Pointer(&fn)),
			uintptr(p.version), legacyStream, uintptr(unsafe.Pointer(&status)))
		return d.found(p, fn, r)
	}
	if get, err := d.lib.symbol("cuGetProcAddress"); err == nil {
		var fn uintptr
		r := syscallN(get, uintptr(unsafe.Pointer(&name[0])), uintptr(unsafe.Pointer(&fn)),
			uintptr(p.version), legacyStream)
		return d.found(p, fn, r)
	}
	fn, err := d.lib.symbol(p.export)
	if err != nil {
		return 0, d.missing(p)
	}
	return fn, nil
}

// found interprets the answers of cuGetProcAddress. For a missing function drivers
// return success without an address, CUDA_ERROR_NOT_FOUND, or, for a version newer
// than the driver, CUDA_ERROR_INVALID_VALUE.
func (d *Driver) found(p *proc, fn, r uintptr) (uintptr, error) {
	switch code := cu.Result(uint32(r)); {
	case code == cu.Success && fn != 0:
		return fn, nil
	case code == cu.Success, code == cu.ErrorNotFound, code == cu.ErrorInvalidValue, code == cu.ErrorNotSupported:
		return 0, d.missing(p)
	default:
		return 0, fmt.Errorf("look up %s in %s: %w", p.symbol, d.lib.path, code)
	}
}

// missing is the error for a function that the library lacks. A library that says a version
// which has the function is not too old: it is incomplete, or another file than it should
// be.
func (d *Driver) missing(p *proc) error {
	if d.version >= int32(p.version) {
		return &cu.NotSupportedError{
			Call:  p.symbol,
			Needs: fmt.Sprintf("the symbol %s of CUDA %s", p.export, versionText(int32(p.version))),
			Found: "a damaged or incomplete library, which says a version that has it: " + d.text(),
		}
	}
	return &cu.NotSupportedError{
		Call:  p.symbol,
		Needs: fmt.Sprintf("a driver for CUDA %s or newer", versionText(int32(p.version))),
		Found: d.text(),
	}
}

// versionText formats 12040 as "12.4".
func versionText(v int32) string {
	return fmt.Sprintf("%d.%d", v/1000, v%1000/10)
}
