package doctor

import "strings"

// checkMIG says whether the GPU is divided into instances.
func (p *patient) checkMIG() Check {
	switch on := p.about.MIG; {
	case on == nil:
		return skipped(p.without())
	case !*on:
		return ok("off")
	}
	return problem{
		found:  "on: CUDA sees one instance, not the whole GPU",
		cost:   "an instance has a part of the memory, of the multiprocessors and of the copy engines, and no peers (NVIDIA's guide Multi-Instance GPU)",
		source: Manual,
		mend:   "nvidia-smi -L lists the instances, CUDA_VISIBLE_DEVICES=MIG-UUID chooses one; nvidia-smi -mig 0 as root ends the mode",
	}.warning(false)
}

// checkConfidential says whether what crosses the link is encrypted.
func (p *patient) checkConfidential() Check {
	switch on := p.about.Confidential; {
	case on == nil && p.encrypted():
		return skipped("an encrypted virtual machine, and " + p.without())
	case on == nil:
		return ok("no encrypted virtual machine")
	case !*on:
		return ok("off")
	}
	return problem{
		found:  "on: the CPU encrypts what crosses the link",
		cost:   "cuMemHostRegister is CUDA_ERROR_NOT_SUPPORTED for every size; copies of page-locked memory reach 4.9 GiB/s (H200, vllm-project/vllm#55428)",
		source: Reported,
		mend:   "AllocHost instead of Register, and data that stays on the GPU; only the host can turn the mode off",
	}.warning(true)
}

// encrypted reports whether this is a virtual machine whose memory is encrypted.
func (p *patient) encrypted() bool {
	flags := " " + p.field("proc/cpuinfo", "flags") + " "
	return strings.Contains(flags, " tdx_guest ") || p.exists("dev/tdx_guest") || p.exists("dev/sev-guest")
}

// gvisorVersion is in /proc/version of every gVisor, whose kernel is none of Linux.
const gvisorVersion = "Sun Jan 10 15:06:54 PST 2016"

// isGVisor reports whether the kernel is that of gVisor.
func (p *patient) isGVisor() bool {
	return strings.Contains(p.text("proc/version"), gvisorVersion) || strings.Contains(strings.ToLower(p.host.Kernel), "gvisor")
}

func gvisor() Check {
	return problem{
		found:  "gVisor: its own kernel passes the driver's calls on (nvproxy)",
		cost:   "only drivers that runsc knows work, and each call to the driver takes longer (gVisor's guide GPU Support)",
		source: Manual,
		mend:   "runsc --nvproxy; runsc nvproxy list-supported-drivers names the versions",
	}.warning(false)
}
