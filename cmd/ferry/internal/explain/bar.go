package explain

import (
	"fmt"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/softgpu"
)

// wordBytes is what one load of the CPU reads from a window that it must not cache.
const wordBytes = 8

// throughBAR explains the CPU's way to device memory. CUDA gives programs no such mapping,
// so the way itself is predicted, and beside it stands what a copy takes.
func throughBAR(l *lab) error {
	m, err := l.memories(false)
	if err != nil {
		return err
	}
	at := uint64(m.dev.Pointer()) + offset
	return steps(
		func() error {
			return l.access(access{"the CPU reads an address of cuMemAlloc", device, at, softgpu.CPU, false})
		},
		func() error { return l.window(false, at) },
		func() error { return l.window(true, at) },
		func() error {
			return l.time(allRuns, timing{text: "a copy of 8 bytes to the host, between two events", f: func() error {
				return ferry.Copy(l.s, m.host.Range(0, 2), m.dev.Range(0, 2))
			}})
		},
		func() error {
			return l.time(allRuns, timing{text: "a copy of " + size + " to the host", bytes: runBytes, f: func() error { return ferry.Copy(l.s, m.host, m.dev) }})
		},
		func() error { return l.byWords() },
	)
}

// window adds the way of a load or a store through the BAR.
func (l *lab) window(write bool, at uint64) error {
	path := "the CPU reads device memory through a mapped BAR"
	if write {
		path = "the CPU writes device memory through a mapped BAR"
	}
	add := func(place, address string, ns float64, source Source, format string, args ...any) {
		s := Step{Path: path, Place: place, Address: address, Source: source, Text: fmt.Sprintf(format, args...)}
		if ns > 0 {
			s.CostNs = cost(ns)
		}
		l.add(s)
	}
	add("virtual address", "", 0, Manual, "where a driver maps the window for a program, as GDRCopy's module does; CUDA has no call for it")
	add("CPU MMU", "", l.cpuLevels(), l.priced(Manual), "the page table leads to an address of the window, which is uncached or write-combined")
	l.windowPlace(add)
	link, text := l.linkTime(write)
	add("link packets", "", link, l.priced(Manual), "%s", text)
	add("IOMMU", "", 0, Manual, "not on the way: it translates accesses of devices, not of the CPU")
	tables, frame, err := l.deviceTables(at, write)
	if err != nil {
		return err
	}
	add("GPU MMU", "", tables.mmu, l.priced(Manual), "the GPU translates the address in the window by a page table of its own for the BAR")
	add("physical place", frame, tables.memory, l.priced(Manual), "memory of the GPU")
	if l.prof != nil && !write {
		add("in all", "", l.cpuLevels()+link+tables.mmu+tables.memory, Predicted, "nothing cached; the figures are those of the profile's other ways")
	}
	return nil
}

// priced returns the source of a step whose cost is that of the profile, or other without
// a profile.
func (l *lab) priced(other Source) Source {
	if l.prof == nil {
		return other
	}
	return Predicted
}

// cpuLevels predicts a walk through the four levels of the CPU's page table.
func (l *lab) cpuLevels() float64 {
	if l.prof == nil {
		return 0
	}
	return 4 * l.prof.Translation.CPULevel.Value
}

// windowPlace adds the window itself.
func (l *lab) windowPlace(add func(place, address string, ns float64, source Source, format string, args ...any)) {
	if l.soft != nil {
		add("BAR", "", 0, Manual, "a range of physical addresses of the PCI device; the software GPU has none")
		return
	}
	largest := -1
	for i, w := range l.hw.Windows {
		if largest < 0 || w.Bytes > l.hw.Windows[largest].Bytes {
			largest = i
		}
	}
	if largest < 0 {
		add("BAR", "", 0, Observed, "the system shows no window of this GPU")
		return
	}
	w := l.hw.Windows[largest]
	add("BAR", hex(w.Base), 0, Observed, "BAR%d, a window of %s", w.BAR, refusal.Size(uintptr(w.Bytes)))
	add("link packets", "", 0, Observed, "%s", linkText(&l.hw))
}

// linkTime predicts the link's part of a load or a store.
func (l *lab) linkTime(write bool) (ns float64, text string) {
	if l.prof != nil {
		ns = l.latency()
	}
	if write {
		return ns / 2, "a posted write: the CPU does not wait for an answer; half of a read's time"
	}
	return ns, "a read and its answer, predicted as long as a read of the GPU the other way; the CPU waits for it"
}

// deviceCosts are the predicted costs of the GPU's side.
type deviceCosts struct{ mmu, memory float64 }

// deviceTables returns what the software GPU says of an access to device memory: costs,
// and the physical address. On hardware it takes the costs from the prediction.
func (l *lab) deviceTables(at uint64, write bool) (c deviceCosts, frame string, err error) {
	if l.soft == nil {
		return l.shadowCosts(), "", nil
	}
	w, err := l.soft.Walk(l.g.CUContext(), cu.DevicePtr(at), softgpu.CopyEngine, write)
	if err != nil {
		return c, "", err
	}
	for _, s := range w.Steps {
		switch s.Unit {
		case "GPU MMU":
			c.mmu += s.Ns
		case "memory":
			c.memory, frame = s.Ns, firstAddress(s.Text)
		}
	}
	return c, frame, nil
}

// shadowCosts returns the costs of the GPU's side in the prediction.
func (l *lab) shadowCosts() (c deviceCosts) {
	for _, s := range l.shadow {
		switch {
		case s.CostNs == nil:
		case s.Place == "GPU MMU":
			c.mmu = *s.CostNs
		case s.Place == "physical place":
			c.memory = *s.CostNs
		}
	}
	return c
}

// byWords predicts how long the CPU reads the memory of a run word by word.
func (l *lab) byWords() error {
	if l.prof == nil {
		return nil
	}
	ns := l.latency() * runBytes / wordBytes
	l.add(Step{Path: allRuns, Place: "prediction", CostNs: cost(ns), Source: Predicted,
		Text: fmt.Sprintf("%s read by the CPU through the window, %d bytes at a time: %.2g GB/s", size, wordBytes, runBytes/ns)})
	return nil
}
