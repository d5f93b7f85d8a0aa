package info

import (
	"fmt"
	"strings"

	"github.com/ferrygpu/ferry/internal/layout"
	"github.com/ferrygpu/ferry/profile"
)

// facts returns a table of names and texts. All tables of a page have one width of names.
func facts(indent, width int) *layout.Table {
	return &layout.Table{Columns: []layout.Column{{Width: width - indent}, {Words: true}}, Indent: indent, Narrow: true}
}

// Page returns the report with one line per subject.
func (r *Report) Page() *layout.Page {
	p := new(layout.Page)
	p.Line(r.Device.Line())
	if r.About != "" {
		p.Hang(0, r.About)
	}
	p.Line("")
	const width = 20
	device := facts(0, width)
	device.Row("product", fmt.Sprintf("%s, compute capability %s, %d multiprocessors", r.Device.Name, r.Compute.Capability, r.Compute.Multiprocessors))
	device.Row("driver", fmt.Sprintf("%s, CUDA %s", r.Driver.Kind, r.Driver.CUDA))
	device.Row("memory", fmt.Sprintf("%s, %s free", sizeText(r.Memory.Total), sizeText(r.Memory.Free)))
	device.Row("link to the host", r.linkText())
	device.Row("PCI address", r.PCIBus)
	device.Row("copy engines", fmt.Sprint(r.CopyEngines))
	device.Row("a block", fmt.Sprintf("at most %d threads, %s of shared memory", r.Compute.ThreadsPerBlock, sizeText(r.Compute.SharedPerBlock)))
	device.Row("concurrent kernels", yes(r.Compute.Concurrent))
	device.Row("stream priorities", r.priorityText())
	p.Table(device)
	p.Line("\nhost memory")
	h, host := &r.Host, facts(2, width)
	host.Row("mapping", explain(h.Mapping, "kernels can use page-locked memory: zero-copy"))
	host.Row("unified addressing", explain(h.Unified, "one address on host and device"))
	host.Row("registration", registration(h.Register, h.RegisterReadOnly))
	host.Row("managed", managed(h.Managed, h.ConcurrentManaged))
	host.Row("pageable access", explain(h.Pageable, "kernels can use ordinary memory"))
	host.Row("native atomics", explain(h.NativeAtomics, "the link carries every atomic operation"))
	host.Row("memory pools", explain(h.MemoryPools, "stream-ordered allocation"))
	p.Table(host)
	if len(r.Sure) > 0 {
		p.Linef("\nfigures of the profile: %s", r.sureText())
	}
	r.addMachine(p, width)
	if len(r.Peers) > 0 {
		p.Line("\npeers")
	}
	peers := facts(2, width)
	for _, peer := range r.Peers {
		peers.Row(fmt.Sprintf("device %d", peer.Ordinal), fmt.Sprintf("%s, %s", peer.Name, peerText(peer.Access)))
	}
	p.Table(peers)
	return p
}

// addMachine adds what is known of the machine around the device.
func (r *Report) addMachine(p *layout.Page, width int) {
	if len(r.Machine) == 0 {
		return
	}
	p.Line("\nmachine")
	t, wrong := facts(2, width), false
	for _, f := range r.Machine {
		text := f.Found
		if f.Cost != "" {
			text, wrong = text+": "+f.Cost, true
		}
		t.Row(f.Name, text)
	}
	p.Table(t)
	if wrong {
		p.Line("  ferry doctor says how to mend it")
	}
}

// linkText describes the link. A device on the host's chip has none.
func (r *Report) linkText() string {
	if r.Host.Integrated {
		return "none: host and device share one memory"
	}
	if r.Link.Generation == nil && r.Host.HostPageTables {
		return "coherent: the device uses the host's page tables"
	}
	return r.Link.text()
}

func (l Link) text() string {
	if l.Generation == nil || l.Lanes == nil {
		return "unknown"
	}
	if l.Source == "system" {
		return fmt.Sprintf("PCIe %d.0 x%d, as it runs now", *l.Generation, *l.Lanes)
	}
	return fmt.Sprintf("PCIe %d.0 x%d, from %s", *l.Generation, *l.Lanes, l.Source)
}

// sureText lists how many figures of the profile have each confidence.
func (r *Report) sureText() string {
	var parts []string
	for _, c := range profile.Confidences() {
		if n := r.Sure[c]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, c))
		}
	}
	return strings.Join(parts, ", ")
}

func (r *Report) priorityText() string {
	p := r.Priorities
	if p.Least == p.Greatest {
		return "none"
	}
	return fmt.Sprintf("%d (last) to %d (first)", p.Least, p.Greatest)
}

func yes(v bool) string {
	if v {
		return "yes"
	}
	return "no"
}

func explain(v bool, what string) string {
	if v {
		return "yes: " + what
	}
	return "no"
}

func registration(any, readOnly bool) string {
	switch {
	case readOnly:
		return "yes: existing memory can be page-locked, read-only too"
	case any:
		return "yes: existing memory can be page-locked"
	}
	return "no"
}

func managed(any, concurrent bool) string {
	switch {
	case concurrent:
		return "yes: host and device may use it at once"
	case any:
		return "yes: host and device take turns"
	}
	return "no"
}

func peerText(access bool) string {
	if access {
		return "its memory can be used from here"
	}
	return "no access to its memory"
}

// sizeText formats a number of bytes in the largest unit that is not greater.
func sizeText(n int) string {
	units := []string{"bytes", "KiB", "MiB", "GiB", "TiB"}
	v, unit := float64(n), 0
	for v >= 1024 && unit < len(units)-1 {
		v, unit = v/1024, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.4g %s", v, units[unit])
}
