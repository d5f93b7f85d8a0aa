package simt

import (
	"runtime/debug"

	"github.com/ferrygpu/ferry/cu"
)

// guard is deferred twice around a worker: what it returns turns an access that
// the system refuses into a fault of the kernel. Memory of [Launch.Guarded]
// segments may be unmapped by others at any time.
func (x *execution) guard() func() {
	if !x.l.Guarded {
		return func() {}
	}
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		v := recover()
		if v == nil {
			return
		}
		fault, ok := v.(interface{ Addr() uintptr })
		if !ok {
			panic(v)
		}
		x.fail(&cu.Fault{Result: cu.ErrorIllegalAddress, Kernel: x.l.Kernel.Name, Addr: cu.DevicePtr(fault.Addr()), Bytes: 1})
	}
}
