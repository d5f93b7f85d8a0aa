package softgpu

import "github.com/ferrygpu/ferry/cu"

// backing is real memory that stands behind addresses.
type backing struct {
	data    []byte
	release func() // gives it back; nil leaves it to the garbage collector
}

// pageSize of host allocations, whatever this machine's pages are.
const pageSize = 4096

// back finds n bytes of page-aligned zeroed memory. Asking for more than this
// computer has is refused here, because the system itself would only notice when
// the bytes are touched, and then end the process.
func (d *Driver) back(n uint64, reserve func(int) (*backing, error), what string) (*backing, error) {
	have := hostMemory()
	if n > have || d.backed > have-n {
		return nil, refuse(cu.ErrorOutOfMemory, what,
			"the software GPU keeps it in this computer's memory, which is %s with %s allocated already", size(have), size(d.backed))
	}
	b, err := reserve(int(n))
	if err != nil {
		return nil, refuse(cu.ErrorOutOfMemory, what, "this computer cannot back it: %v", err)
	}
	d.backed += n
	return b, nil
}

// bury gives b back once nothing that executes can still reach it.
func (d *Driver) bury(b *backing) {
	d.backed -= uint64(len(b.data))
	d.graves = append(d.graves, b)
	d.dig()
}

// dig empties the graves while nothing executes.
func (d *Driver) dig() {
	if d.running > 0 {
		return
	}
	for _, b := range d.graves {
		if b.release != nil {
			b.release()
		}
	}
	d.graves = nil
}
