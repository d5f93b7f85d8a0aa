package cutest

import (
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/dl"
	"github.com/ferrygpu/ferry/libcuda"
)

// Unsafe: Addresses of Go memory are converted in the argument list of dl.Call, which has the
// directive uintptrescapes.

// softLibrary is the software GPU behind the C interface: a libcuda.so.1 that cmd/libcuda is. Such a
// library answers for functions of its own, with which the driver over it is emulated like the
// software GPU itself. A process has one device: a new driver is a new process.
type softLibrary struct {
	*libcuda.Driver
	profile         string
	now, hostAccess uintptr
}

var _ cu.Emulated = (*softLibrary)(nil)

// asSoft returns the driver of a library that is a software GPU, or nil.
func asSoft(d *libcuda.Driver) (*softLibrary, error) {
	l, err := dl.Open(d.Path())
	if err != nil {
		return nil, err
	}
	get, err := l.Symbol("cuGetProcAddress_v2")
	if err != nil {
		return nil, nil // an old driver of hardware
	}
	own := func(name string) (fn uintptr) {
		text := append([]byte(name), 0)
		dl.Call(get, uintptr(unsafe.Pointer(&text[0])), uintptr(unsafe.Pointer(&fn)), 1<<20, 0, 0)
		runtime.KeepAlive(text)
		return fn
	}
	profile := own("ferryProfile")
	if profile == 0 {
		return nil, nil
	}
	s := &softLibrary{Driver: d, now: own("ferryNow"), hostAccess: own("ferryHostAccess")}
	if s.now == 0 || s.hostAccess == 0 {
		return nil, fmt.Errorf("library %s has ferryProfile, and lacks ferryNow or ferryHostAccess", d.Path())
	}
	name := make([]byte, 100)
	r := dl.Call(profile, uintptr(unsafe.Pointer(&name[0])), uintptr(len(name)))
	for _, c := range name {
		if c == 0 {
			break
		}
		s.profile += string(rune(c))
	}
	return s, asError(r)
}

func asError(r uintptr) error {
	if code := cu.Result(uint32(r)); code != cu.Success {
		return code
	}
	return nil
}

func (s *softLibrary) oneInProcess() {}

// Unwrap returns the driver over the library.
func (s *softLibrary) Unwrap() cu.Driver { return s.Driver }

// Profile asks the library for the name of its machine.
func (s *softLibrary) Profile() string { return s.profile }

// Now asks the library for the virtual time.
func (s *softLibrary) Now() time.Duration {
	var ns int64
	if err := asError(dl.Call(s.now, uintptr(unsafe.Pointer(&ns)))); err != nil {
		panic(fmt.Sprintf("ferryNow: %v", err))
	}
	return time.Duration(ns)
}

// HostAccess announces an access of the host to the library.
func (s *softLibrary) HostAccess(p cu.HostPtr, bytes uintptr, write bool) error {
	w := uintptr(0)
	if write {
		w = 1
	}
	return asError(dl.Call(s.hostAccess, uintptr(p), bytes, w))
}
