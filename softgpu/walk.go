package softgpu

import (
	"fmt"
	"strings"

	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/profile"
	"github.com/ferrygpu/ferry/softgpu/internal/accesspath"
)

// Agent is the unit that accesses memory.
type Agent uint8

// The agents.
const (
	Kernel     Agent = iota // a thread of a kernel
	CopyEngine              // a copy of the driver
	CPU                     // the host
)

// String returns the agent's name.
func (a Agent) String() string {
	if a > CPU {
		return fmt.Sprintf("agent %d", uint8(a))
	}
	return [...]string{"kernel", "copy engine", "CPU"}[a]
}

// Walk describes how one access reaches memory when nothing is cached. It lists
// every table entry that is read, and the cost of each step on the emulated
// machine. All physical addresses are the emulator's own. All times are
// predictions.
type Walk struct {
	Agent  Agent
	Device int // the device of the kernel or copy engine
	Addr   cu.DevicePtr
	Write  bool
	What   string // description of the memory
	Path   string // name of the path, such as "zero-copy"
	Steps  []Step
	// Fault is the reason why the access fails, or "" if it succeeds.
	Fault string
	// Ns is the sum of the steps. Sure is the confidence of the least sure
	// step.
	Ns   float64
	Sure profile.Confidence
}

// Step is one step of a walk.
type Step struct {
	Unit string // "GPU MMU", "IOMMU", "CPU MMU", "link", "driver" or "memory"
	Text string // description of the entry that is read, or of another event

	// Of an entry of a page table:
	Level string // "PDE0"; "" for other steps
	Index int
	Page  uint64 // bytes of the page, if the entry is a page
	Frame uint64 // the page's physical address
	Ns    float64
}

// String returns the walk as a table with a line for each step.
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

// nsText formats a time in nanoseconds, or in microseconds from 100 us on.
func nsText(ns float64) string {
	if ns >= 100e3 {
		return fmt.Sprintf("%.0f us", ns/1e3)
	}
	return fmt.Sprintf("%.0f ns", ns)
}

// Walk describes how an access of agent to addr would go now, with the rights
// of context h. It changes nothing and takes no virtual time. An address that
// the agent must not access is no error: the walk ends with a Fault. It is safe
// for concurrent use.
func (d *Driver) Walk(h cu.Context, addr cu.DevicePtr, agent Agent, write bool) (*Walk, error) {
	const what = "walk an address"
	if agent > CPU {
		return nil, refuse(cu.ErrorInvalidValue, what, "%v is not known", agent)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	c, err := d.context(h, what)
	if err != nil {
		return nil, err
	}
	d.settle() // moves managed pages to their places at this time
	found := d.frames.Walk(c.walkedMachine(agent), c.access(agent, uint64(addr), write))
	w := &Walk{
		Agent: agent, Device: c.dev.ordinal, Addr: addr, Write: write,
		What: found.What, Path: found.Path, Fault: found.Fault, Ns: found.Ns, Sure: found.Sure,
	}
	for _, s := range found.Steps {
		w.Steps = append(w.Steps, Step(s))
	}
	return w, nil
}

// access describes an access with the rights of c.
func (c *contextState) access(agent Agent, addr uint64, write bool) *accesspath.Access {
	a := &accesspath.Access{Agent: accesspath.Agent(agent), Device: c.dev.ordinal, Addr: addr, Write: write}
	if x, ok := c.drv.space.find(addr); ok {
		a.Target, a.Name, a.Denied = c.walkedMemory(agent, x).Owner, x.String(), deniedTo(agent, c, x)
	}
	return a
}

// walkedMachine describes the machine and its memory, with the rights of c.
func (c *contextState) walkedMachine(agent Agent) *accesspath.Machine {
	d := c.drv
	return &accesspath.Machine{
		Profile: d.prof, Devices: len(d.devices), Unified: d.uva,
		Window: deviceBase + uint64(c.dev.ordinal)*deviceWindow, HostOffset: aliasOffset,
		Ranges: func(yield func(accesspath.Range) bool) {
			for x := range d.space.all() {
				if !yield(c.walkedMemory(agent, x)) {
					return
				}
			}
		},
		Near: d.space.near,
		Mapping: func(addr uint64) (writable, mapped bool) {
			m, ok := mappingAt(addr)
			return m.writable, ok
		},
		KnowsMappings: knowsMappings, HugePages: hugePages,
		DeviceFaults: deviceFaults(&d.prof.Managed), HostFaults: hostFaults(&d.prof.Managed),
	}
}

// walkedMemory describes a range of addresses. The driver maps more for its copy engines than
// for kernels.
func (c *contextState) walkedMemory(agent Agent, x addressRange) accesspath.Range {
	r := x.region
	o := &accesspath.Owner{Key: r, Base: r.base, Size: r.size, OnHost: r.kind.onHost(), ReadOnly: r.local.ReadOnly}
	if r.managed != nil {
		o.Managed = r.managed.pages
	}
	if !o.OnHost {
		o.Device, o.Pages = r.dev.ordinal, accesspath.Pages{Key: r, Base: r.base, Bytes: roundUp(r.charge, slabSize)}
		if r.slab != nil {
			o.Pages = accesspath.Pages{Key: r.slab, Base: r.slab.base, Bytes: slabSize}
		}
	}
	return accesspath.Range{
		Base: x.base, Alias: x.alias, Owner: o,
		ForDevice: x.base == r.device && deniedTo(agent, c, x) == "",
	}
}

// deniedTo returns the reason why agent must not access x, or "" if it may.
func deniedTo(agent Agent, c *contextState, x addressRange) string {
	if agent != CopyEngine {
		v := view{drv: c.drv, ctx: c, stream: c.legacy, peers: c.peers, concurrent: c.dev.concurrentManaged()}
		return v.denied(x)
	}
	if !x.region.live() || !x.known(c, sideDevice) && !x.known(c, sideHost) {
		return "not known to this context"
	}
	return ""
}
