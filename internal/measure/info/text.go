package info

import (
	"fmt"
	"strings"

	"github.com/ferrygpu/ferry/profile"
)

// Text returns the report as text, with one line per subject.
func (r *Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", r.Device.Line())
	line := func(subject, format string, args ...any) {
		fmt.Fprintf(&b, "%-20s %s\n", subject, fmt.Sprintf(format, args...))
	}
	line("product", "%s, compute capability %s, %d multiprocessors", r.Device.Name, r.Compute.Capability, r.Compute.Multiprocessors)
	line("driver", "%s, CUDA %s", r.Driver.Kind, r.Driver.CUDA)
	line("memory", "%s, %s free", sizeText(r.Memory.Total), sizeText(r.Memory.Free))
	line("link to the host", "%s", r.linkText())
	line("PCI address", "%s", r.PCIBus)
	line("copy engines", "%d", r.CopyEngines)
	line("a block", "at most %d threads, %s of shared memory", r.Compute.ThreadsPerBlock, sizeText(r.Compute.SharedPerBlock))
	line("concurrent kernels", "%s", yes(r.Compute.Concurrent))
	line("stream priorities", "%s", r.priorityText())
	b.WriteString("\nhost memory\n")
	h := &r.Host
	line("  mapping", "%s", explain(h.Mapping, "kernels can use page-locked memory: zero-copy"))
	line("  unified addressing", "%s", explain(h.Unified, "one address on host and device"))
	line("  registration", "%s", registration(h.Register, h.RegisterReadOnly))
	line("  managed", "%s", managed(h.Managed, h.ConcurrentManaged))
	line("  pageable access", "%s", explain(h.Pageable, "kernels can use ordinary memory"))
	line("  native atomics", "%s", explain(h.NativeAtomics, "the link carries every atomic operation"))
	line("  memory pools", "%s", explain(h.MemoryPools, "stream-ordered allocation"))
	if len(r.Sure) > 0 {
		fmt.Fprintf(&b, "\nfigures of the profile: %s\n", r.sureText())
	}
	if len(r.Peers) > 0 {
		b.WriteString("\npeers\n")
	}
	for _, p := range r.Peers {
		line(fmt.Sprintf("  device %d", p.Ordinal), "%s, %s", p.Name, peerText(p.Access))
	}
	return b.String()
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
