package softgpu

import (
	"math/rand/v2"
	"time"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/softgpu/internal/simt"
)

// lazyLinger is how long a kernel waits under lazy before it ends, if a flag has overtaken
// its data. So a host that polls the flag sees old data.
const lazyLinger = time.Millisecond

// mapped returns how the kernel of o shares mapped memory with the host, nil if every access
// reaches memory at once. Under random the seed chooses what is loose for each kernel.
func (v *view) mapped(o *op) *simt.Mapped {
	d := v.drv
	if d.schedule == Eager && !raceBuild && !d.races {
		return nil
	}
	m := &simt.Mapped{Ranges: v.mappedRanges()}
	if len(m.Ranges) == 0 {
		return nil
	}
	loose := uint64(0)
	switch d.schedule {
	case Lazy:
		loose, m.Linger = 7, lazyLinger
	case Random:
		loose = rand.New(rand.NewPCG(d.seed, o.id)).Uint64()
	}
	m.Stale, m.Hold, m.Forward = loose&1 != 0, loose&2 != 0, loose&8 != 0
	if loose&4 != 0 && !v.nativeAtomics() {
		m.Atomics = &d.heldAtomics
	}
	return m
}

// mappedRanges returns the page-locked memory that the kernel can use.
func (v *view) mappedRanges() (all []simt.AddressRange) {
	for x := range v.drv.space.all() {
		r := x.region
		if (r.kind == kindHost || r.kind == kindRegistered) && v.denied(x) == "" {
			all = append(all, simt.AddressRange{Base: x.base, End: x.end})
		}
	}
	return all
}

// nativeAtomics reports whether atomic operations of kernels on mapped memory, and those of
// the CPU, are atomic to each other.
func (v *view) nativeAtomics() bool {
	return v.ctx.dev.attr(cu.DeviceAttributeHostNativeAtomicSupported) != 0
}
