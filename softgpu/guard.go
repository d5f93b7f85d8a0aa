package softgpu

import (
	"fmt"
	"os"
	"runtime/debug"

	"github.com/ferrygpu/ferry/cu"
)

// guard runs f, which uses the given places, and turns a fault at a host address into an
// error. It names the span that has the address, if its memory is registered.
func guard(what string, spans []span, f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		fault, ok := v.(interface{ Addr() uintptr })
		if !ok {
			// No panic: a program cannot recover from one of a goroutine that it has not started.
			fmt.Fprintf(os.Stderr, "ferry: BUG: %s: %v\n%s", what, v, debug.Stack())
			err = fmt.Errorf("BUG: %s: %v", what, v)
			return
		}
		addr := uint64(fault.Addr())
		for _, p := range spans {
			if p.region != nil && p.region.holds(addr) {
				err = refuse(cu.ErrorInvalidValue, what, "host address %#x cannot be read or written: %s", addr, p.region.gone())
				return
			}
		}
		err = refuse(cu.ErrorInvalidValue, what, "host address %#x cannot be read or written", addr)
	}()
	return f()
}

// holds reports whether the region has the host address addr.
func (r *region) holds(addr uint64) bool { return addr >= r.base && addr < r.end() }

// gone says why host memory of the region cannot be used any more, and what to do.
func (r *region) gone() string {
	name := addressRange{base: r.base, end: r.end(), region: r}.String()
	if r.kind != kindRegistered {
		return name + " was unmapped or protected: only the driver may do that"
	}
	return name + " was unmapped or protected after its registration, or its file was truncated: keep the memory until MemHostUnregister"
}
