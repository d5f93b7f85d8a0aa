package softgpu

import (
	"fmt"
	"strings"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/mmu"
	"github.com/ferrygpu/ferry/profile"
)

// Agent is who touches memory.
type Agent uint8

// Agents.
const (
	Kernel     Agent = iota // a thread of a kernel
	CopyEngine              // a copy of the driver's
	CPU                     // the host
)

// String is the agent in words.
func (a Agent) String() string {
	if a > CPU {
		return fmt.Sprintf("agent %d", uint8(a))
	}
	return [...]string{"kernel", "copy engine", "CPU"}[a]
}

// Walk is how one access reaches memory when nothing is cached: every table that
// is read on the way, and what each step costs on the machine that is played.
// All physical addresses are the emulator's own; all times are predictions.
type Walk struct {
	Agent  Agent
	Device int // whose kernel or copy engine it is
	Addr   cu.DevicePtr
	Write  bool
	What   string // the memory, in words
	Path   string // the way, in a word or two: "zero-copy"
	Steps  []Step
	// Fault is why the access goes wrong, in words; "" if it arrives.
	Fault string
	// Ns is the sum of the steps. Sure is how sure the least sure of them is.
	Ns   float64
	Sure profile.Confidence
}

// Step is one thing that happens on the way.
type Step struct {
	Unit string // who does it: "GPU MMU", "IOMMU", "CPU MMU", "link", "driver", "memory"
	Text string // what: the entry that is read, in words, or another event

	// Of an entry of a page table:
	Level string // "PDE0"; "" for other steps
	Index int
	Page  uint64 // bytes of the page, where the entry is one
	Frame uint64 // the page's physical address
	Ns    float64
}

// String is the walk as a table, a line a step.
func (w *Walk) String() string {
	var b strings.Builder
	verb := "reads"
	if w.Write {
		verb = "writes"
	}
	who := w.Agent.String()
	if w.Agent != CPU {
		who = fmt.Sprintf("%s of device %d", w.Agent, w.Device)
	}
	fmt.Fprintf(&b, "%s %s %#x, %s: %s\n", who, verb, uint64(w.Addr), w.What, w.Path)
	unit := ""
	for _, s := range w.Steps {
		name := s.Unit
		if name == unit {
			name = ""
		}
		unit = s.Unit
		fmt.Fprintf(&b, "  %-8s %-62s %8s\n", name, s.Text, nsText(s.Ns))
	}
	if w.Fault != "" {
		fmt.Fprintf(&b, "  fault    %s\n", w.Fault)
		return b.String()
	}
	fmt.Fprintf(&b, "  in all   %-62s %8s\n", fmt.Sprintf("predicted, nothing cached; the least sure figure is %s", article(w.Sure)), nsText(w.Ns))
	return b.String()
}

func article(c profile.Confidence) string {
	switch c {
	case profile.Guess, profile.Datasheet:
		return "a " + string(c)
	}
	return string(c)
}

// nsText is a time in nanoseconds, or larger units from 100 us on.
func nsText(ns float64) string {
	if ns >= 100e3 {
		return fmt.Sprintf("%.0f us", ns/1e3)
	}
	return fmt.Sprintf("%.0f ns", ns)
}

// Of is the software GPU behind d, which may wrap it; nil if there is none.
func Of(d cu.Driver) *Driver {
	for d != nil {
		if s, ok := d.(*Driver); ok {
			return s
		}
		w, ok := d.(interface{ Unwrap() cu.Driver })
		if !ok {
			return nil
		}
		d = w.Unwrap()
	}
	return nil
}

// add appends a step that costs what number says, times over.
func (w *Walk) add(t *tables, unit, text string, number profile.Number, times float64) {
	w.addNs(t, Step{Unit: unit, Text: text, Ns: number.Value * times}, number.Source)
}

func (w *Walk) addNs(t *tables, s Step, source string) {
	w.Steps = append(w.Steps, s)
	w.Ns += s.Ns
	if s.Ns > 0 {
		w.Sure = leastSure(w.Sure, t.prof.Confidence(source))
	}
}

var sureness = map[profile.Confidence]int{"": 0, profile.Measured: 1, profile.Datasheet: 2, profile.Derived: 3, profile.Guess: 4}

func leastSure(a, b profile.Confidence) profile.Confidence {
	if sureness[b] > sureness[a] {
		return b
	}
	return a
}

// table appends the steps of a walk through a table, each at the cost of a level,
// and says where it led.
func (w *Walk) table(t *tables, unit string, table *mmu.Table, addr uint64, level profile.Number) (mmu.Walk, bool) {
	walk := table.Walk(addr)
	for _, e := range walk.Entries {
		w.addNs(t, Step{Unit: unit, Text: e.String(), Level: e.Level, Index: e.Index, Page: e.Page, Frame: e.Frame, Ns: level.Value}, level.Source)
	}
	return walk, !walk.Faults()
}
