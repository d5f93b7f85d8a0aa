package runner

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ferrygpu/ferry/cu"
)

// explain adds the line of the PTX file and the addresses of the buffers to a kernel's
// fault.
func (r *run) explain(err error) error {
	fault, ok := errors.AsType[*cu.Fault](err)
	if !ok {
		return err
	}
	var b strings.Builder
	if text := r.spec.Program.line(fault.Line); text != "" {
		fmt.Fprintf(&b, "\n  %s:%d: %s", r.spec.Program.File, fault.Line, text)
	}
	if fault.Addr != 0 {
		for _, buf := range r.buffers {
			fmt.Fprintf(&b, "\n  %s: %s from %#x", buf.describe(), count(buf.size, "byte"), uint64(address(buf)))
		}
	}
	return fmt.Errorf("%w%s", err, b.String())
}

func address(b *buffer) cu.DevicePtr {
	m, ok := b.memory.(interface{ Pointer() cu.DevicePtr })
	if !ok {
		return 0
	}
	return m.Pointer()
}
