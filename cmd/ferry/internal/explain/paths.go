package explain

import (
	"fmt"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/softgpu"
)

// offset is where in a buffer an access is, so that addresses are not those of pages.
const offset = 0x1240

// allRuns is the title of the runs after the paths.
const allRuns = "the whole run"

// steps runs functions until one fails.
func steps(all ...func() error) error {
	for _, f := range all {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// host allocates page-locked memory for a run.
func (l *lab) host(o *ferry.HostOptions) (*ferry.Host[uint32], error) {
	h, err := ferry.AllocHost[uint32](l.g, runBytes/4, o)
	if err == nil {
		l.after(h.Close)
	}
	return h, err
}

// device allocates device memory for a run.
func (l *lab) device() (*ferry.Device[uint32], error) {
	d, err := ferry.Alloc[uint32](l.g, runBytes/4)
	if err == nil {
		l.after(d.Close)
	}
	return d, err
}

// memories are page-locked and device memory with the same chain of indices.
type memories struct {
	host *ferry.Host[uint32]
	dev  *ferry.Device[uint32]
}

// memories allocates and fills memory. mapped memory has an address for kernels.
func (l *lab) memories(mapped bool) (m memories, err error) {
	if m.host, err = l.host(&ferry.HostOptions{Mapped: mapped}); err != nil {
		return m, err
	}
	if m.dev, err = l.device(); err != nil {
		return m, err
	}
	chain(m.host.Slice())
	return m, ferry.Copy(l.s, m.dev, m.host)
}

// at returns the address of the host memory for the CPU.
func (m *memories) at() uint64 { return addressOf(m.host.ReadSlice()) }

// size is the memory of a run as text.
var size = refusal.Size(runBytes)

func zeroCopy(l *lab) error {
	if !l.has(cu.DeviceAttributeCanMapHostMemory) {
		l.note("this device cannot map host memory, so it has no zero-copy")
		return nil
	}
	m, err := l.memories(true)
	if err != nil {
		return err
	}
	inKernels, onDevice := m.host.Pointer(), m.dev.Pointer()
	return steps(
		func() error {
			return l.access(access{"a kernel reads page-locked memory", pageLocked, uint64(inKernels) + offset, softgpu.Kernel, false})
		},
		func() error {
			return l.access(access{"a kernel writes page-locked memory", pageLocked, uint64(inKernels) + offset, softgpu.Kernel, true})
		},
		func() error {
			return l.access(access{"the CPU reads the same bytes", pageLocked, m.at() + offset, softgpu.CPU, false})
		},
		func() error {
			return l.alone(allRuns, "a read of host memory by a thread that waits for each", inKernels)
		},
		func() error {
			return l.alone(allRuns, "a read of device memory by such a thread; a cache of the GPU can serve it", onDevice)
		},
		func() error {
			return l.time(allRuns, timing{text: size + " of host memory read by a kernel", bytes: runBytes, f: l.reading(inKernels, runBytes)})
		},
		func() error {
			return l.time(allRuns, timing{text: size + " of host memory written by a kernel", bytes: runBytes, f: l.writing(inKernels, runBytes)})
		},
		func() error {
			return l.time(allRuns, timing{text: size + " of device memory read by the same kernel", bytes: runBytes, f: l.reading(onDevice, runBytes)})
		},
		func() error {
			return l.time(allRuns, timing{text: "for comparison, a copy of " + size + " to the device", bytes: runBytes, f: func() error { return ferry.Copy(l.s, m.dev, m.host) }})
		},
	)
}

func dmaCopy(l *lab) error {
	m, err := l.memories(false)
	if err != nil {
		return err
	}
	in := func() error { return ferry.Copy(l.s, m.dev, m.host) }
	out := func() error { return ferry.Copy(l.s, m.host, m.dev) }
	return steps(
		func() error {
			return l.access(access{"the copy engine reads page-locked memory", pageLocked, m.at() + offset, softgpu.CopyEngine, false})
		},
		func() error {
			return l.access(access{"the copy engine writes device memory", device, uint64(m.dev.Pointer()) + offset, softgpu.CopyEngine, true})
		},
		func() error {
			return l.time(allRuns, timing{text: "the call that queues a copy", host: true, f: in})
		},
		func() error {
			return l.time(allRuns, timing{text: "a copy of 4 bytes to the device, between two events", f: func() error {
				return ferry.Copy(l.s, m.dev.Range(0, 1), m.host.Range(0, 1))
			}})
		},
		func() error {
			return l.time(allRuns, timing{text: size + " to the device", bytes: runBytes, f: in})
		},
		func() error {
			return l.time(allRuns, timing{text: size + " to the host", bytes: runBytes, f: out})
		},
	)
}

func pageableCopy(l *lab) error {
	m, err := l.memories(false)
	if err != nil {
		return err
	}
	ordinary := make([]byte, runBytes)
	for i := range ordinary {
		ordinary[i] = byte(i)
	}
	d, ctx := l.g.Driver(), l.g.CUContext()
	return steps(
		func() error {
			return l.access(access{"the driver copies pageable memory", pageable, addressOf(ordinary) + offset, softgpu.CopyEngine, false})
		},
		func() error {
			return l.access(access{"the CPU reads the same bytes", pageable, addressOf(ordinary) + offset, softgpu.CPU, false})
		},
		func() error {
			return l.time(allRuns, timing{text: size + " of pageable memory to the device by cuMemcpyHtoD", bytes: runBytes, host: true, f: func() error {
				return d.MemcpyHtoD(ctx, m.dev.Pointer(), pointerTo(ordinary), runBytes)
			}})
		},
		func() error {
			return l.time(allRuns, timing{text: size + " back by cuMemcpyDtoH", bytes: runBytes, host: true, f: func() error {
				return d.MemcpyDtoH(ctx, pointerTo(ordinary), m.dev.Pointer(), runBytes)
			}})
		},
		func() error {
			return l.time(allRuns, timing{text: "for comparison, " + size + " of page-locked memory to the device", bytes: runBytes,
				f: func() error { return ferry.Copy(l.s, m.dev, m.host) }})
		},
	)
}

func managedMemory(l *lab) error {
	if !l.has(cu.DeviceAttributeManagedMemory) {
		l.note("this device has no managed memory")
		return nil
	}
	m, err := ferry.AllocManaged[uint32](l.g, runBytes/4, nil)
	if err != nil {
		return err
	}
	l.after(m.Close)
	at := uint64(m.Pointer()) + offset
	fill := func() error {
		words, err := m.SliceContext(l.ctx)
		for i := range words {
			words[i] = uint32(i)
		}
		return err
	}
	kernel := l.reading(m.Pointer(), runBytes)
	both := func(path string, agent softgpu.Agent, write bool, x timing) func() error {
		return func() error {
			if err := l.access(access{path, managed, at, agent, write}); err != nil {
				return err
			}
			x.bytes = runBytes
			return l.time(path, x)
		}
	}
	return steps(
		both("the CPU writes pages that nobody has used", softgpu.CPU, true,
			timing{text: "the CPU writes " + size + " for the first time", once: true, host: true, f: fill}),
		both("a kernel reads pages that are on the host", softgpu.Kernel, false, timing{text: "a kernel reads " + size, once: true, f: kernel}),
		both("a kernel reads pages that are on the device", softgpu.Kernel, false, timing{text: "a kernel reads " + size, f: kernel}),
		both("the CPU writes pages that are on the device", softgpu.CPU, true,
			timing{text: "the CPU writes " + size, once: true, host: true, f: fill}),
		func() error {
			if !l.has(cu.DeviceAttributeConcurrentManagedAccess) {
				l.note("this device has no prefetch and no faults of kernels: all managed pages move before a kernel begins")
				return nil
			}
			return l.time("a prefetch", timing{text: "a prefetch moves " + size + " to the device", bytes: runBytes, once: true,
				f: func() error { return m.Prefetch(l.s, l.g.CUDevice()) }})
		},
	)
}

func unifiedAddresses(l *lab) error {
	if !l.has(cu.DeviceAttributeUnifiedAddressing) {
		l.note("this device has no unified addressing: host and device have address spaces of their own")
		return nil
	}
	m, err := l.memories(true)
	if err != nil {
		return err
	}
	ordinary := make([]byte, runBytes)
	what := func(place string, at uint64) {
		l.add(Step{Path: "the driver describes addresses", Place: place, Address: hex(at), Source: Observed, Text: l.attributes(at)})
	}
	what("page-locked", m.at()+offset)
	what("device", uint64(m.dev.Pointer())+offset)
	if l.has(cu.DeviceAttributeManagedMemory) {
		x, err := ferry.AllocManaged[uint32](l.g, runBytes/4, nil)
		if err != nil {
			return err
		}
		l.after(x.Close)
		what("managed", uint64(x.Pointer())+offset)
	}
	what("pageable", addressOf(ordinary)+offset)
	d, ctx := l.g.Driver(), l.g.CUContext()
	copying := func(text string, dst, src cu.DevicePtr) func() error {
		return func() error {
			return l.time(allRuns, timing{text: text, bytes: runBytes, host: true, f: func() error { return d.Memcpy(ctx, dst, src, runBytes) }})
		}
	}
	host := cu.DevicePtr(m.at())
	return steps(
		func() error {
			return l.access(access{"a kernel reads the host's address", pageLocked, m.at() + offset, softgpu.Kernel, false})
		},
		func() error {
			return l.access(access{"the CPU reads the same address", pageLocked, m.at() + offset, softgpu.CPU, false})
		},
		func() error {
			return l.access(access{"the CPU reads a device's address", device, uint64(m.dev.Pointer()) + offset, softgpu.CPU, false})
		},
		copying(fmt.Sprintf("cuMemcpy of %s without a direction, from page-locked to device memory", size), m.dev.Pointer(), host),
		copying(fmt.Sprintf("the same call with the addresses exchanged: %s to the host", size), host, m.dev.Pointer()),
	)
}
