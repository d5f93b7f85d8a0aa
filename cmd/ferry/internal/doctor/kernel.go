package doctor

import (
	"fmt"
	"strings"
)

// defect is a bug of Linux that concerns page-locking.
type defect struct {
	from, fixed release // the first release with the bug, and the first without it
	only        func(*patient) bool
	what, cost  string
	mend        string
	source      Source
	degrades    bool
}

// defects are the known bugs. Distributions repair kernels without a new number, so the
// states are warnings.
var defects = []defect{
	{
		from: release{6, 11, 0}, fixed: release{6, 11, 10},
		what:     "page-locking leaks memory when it fails",
		cost:     "cuMemHostAlloc fails and pages are lost; one pin of over 2 GiB fails (NVIDIA/NV-Kernels#108; Linux commits aa6f8b2593b5, 94efde1d1539)",
		source:   Reported,
		mend:     "use Linux 6.12 or newer, or a 6.11 whose distribution has both commits; page-lock in pieces of at most 1 GiB, as Ferry does",
		degrades: true,
	},
	{
		from: release{6, 12, 0}, fixed: release{6, 14, 0},
		what:   "one pin of over 2 GiB may fail",
		cost:   "registering more than 2 GiB in one call fails (TensorRT-LLM registers in pieces on 6.11 to 6.13); Ferry's pieces have 256 MiB, so it loses nothing",
		source: Reported,
		mend:   "call cuMemHostRegister in pieces of at most 2 GiB, or use Linux 6.14 or newer",
	},
	{
		from: release{7, 0, 0}, fixed: release{7, 1, 0},
		only: func(p *patient) bool {
			return p.Arch == "arm64" && !anyPart(" "+p.text("proc/cmdline")+" ", " kho=off ", " kho=0 ", " kho=n ")
		},
		what:   "kexec handover (KHO) makes pins fail",
		cost:   "with little free memory pins of 4 KiB fail, because 9.3 GiB cannot be pinned (NVIDIA/NV-Kernels#591, DGX Spark)",
		source: Reported,
		mend:   "add kho=off to the kernel command line",
	},
}

// less reports whether r comes before other.
func (r release) less(other release) bool {
	switch {
	case r.major != other.major:
		return r.major < other.major
	case r.minor != other.minor:
		return r.minor < other.minor
	}
	return r.patch < other.patch
}

func (p *patient) checkKernel() Check {
	r, known := parseRelease(p.host.Kernel)
	if !known {
		return skipped("proc/sys/kernel/osrelease does not say")
	}
	for _, d := range defects {
		if r.less(d.from) || !r.less(d.fixed) || d.only != nil && !d.only(p) {
			continue
		}
		found := fmt.Sprintf("Linux %s: %s", p.host.Kernel, d.what)
		return problem{found, d.cost, d.source, d.mend}.warning(d.degrades)
	}
	return ok(strings.TrimSpace("Linux " + p.host.Kernel))
}
