package doctor

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/internal/room"
)

// release is the version of a Linux kernel.
type release struct{ major, minor, patch int }

// parseRelease reads the beginning of a release such as 6.8.0-52-generic.
func parseRelease(text string) (r release, known bool) {
	end := strings.IndexFunc(text, func(c rune) bool { return c != '.' && (c < '0' || c > '9') })
	if end >= 0 {
		text = text[:end]
	}
	parts := strings.Split(text, ".")
	if len(parts) < 2 {
		return r, false
	}
	for i, to := range []*int{&r.major, &r.minor, &r.patch} {
		if i >= len(parts) {
			break
		}
		n, err := strconv.Atoi(parts[i])
		if err != nil {
			return release{}, i > 1
		}
		*to = n
	}
	return r, true
}

// readHost reads what the report says of the machine.
func (p *patient) readHost() {
	p.host.System = p.System
	if p.System != linux {
		return
	}
	p.host.Kernel = p.text("proc/sys/kernel/osrelease")
	p.kernel, _ = parseRelease(p.host.Kernel)
	p.host.Processors = len(numbers(p.field("proc/self/status", "Cpus_allowed_list:")))
	p.host.Memory, _ = p.kib("proc/meminfo", "MemTotal:")
	p.host.WSL = anyPart(strings.ToLower(p.host.Kernel), "microsoft")
	p.host.Virtual = p.isVirtual()
	p.host.Container = p.container()
}

// isVirtual reports whether the processor says that a hypervisor runs below.
func (p *patient) isVirtual() bool {
	flags := " " + p.field("proc/cpuinfo", "flags") + " "
	return strings.Contains(flags, " hypervisor ") || p.exists("sys/hypervisor/uuid")
}

// container returns the kind of the container that the process runs in, or "".
func (p *patient) container() string {
	switch {
	case p.isGVisor():
		return "gvisor"
	case p.exists("run/.containerenv"):
		return "podman"
	case p.exists("var/run/secrets/kubernetes.io/serviceaccount"):
		return "kubernetes"
	case p.exists(".dockerenv"):
		return "docker"
	}
	groups := p.text("proc/self/cgroup")
	for _, kind := range []struct{ part, name string }{
		{"kubepods", "kubernetes"}, {"docker", "docker"}, {"libpod", "podman"}, {"containerd", "containerd"}, {"lxc", "lxc"},
	} {
		if strings.Contains(groups, kind.part) {
			return kind.name
		}
	}
	return ""
}

func (p *patient) checkContainer() Check {
	switch p.host.Container {
	case "":
		return ok("none")
	case "gvisor":
		return gvisor()
	}
	return ok(p.host.Container + ": the limits above are those of the container")
}

func (p *patient) checkWSL() Check {
	if !p.host.WSL {
		return ok("no")
	}
	return problem{
		found:  "WSL 2: Windows' driver serves the GPU",
		cost:   "CPU and GPU cannot use managed memory at once (CUDA on WSL guide), and all page-locked memory ended at 0.75 to 1 GiB (FlashML-org/FreeToken#233), in Docker at 500 MB (microsoft/WSL#14078)",
		source: Reported,
		mend:   "for measurements start Linux itself; else keep page-locked buffers few and reuse them",
	}.warning(false)
}

func (p *patient) checkFirstTouch() Check {
	if !p.host.Virtual {
		return ok("no hypervisor seen")
	}
	return ok("virtual machine: memory is backed at first use")
}

// fillBytes is how many GB/s one processor copies from pageable to page-locked memory, by
// the profile of the H200 machine. pageableBest is what Ferry reached there with twelve.
const (
	fillBytes    = 7.1
	pageableBest = 50.6
)

func (p *patient) checkProcessors() Check {
	n := p.host.Processors
	if n == 0 {
		return skipped("proc/self/status does not say")
	}
	quota, limited := p.quota()
	found := fmt.Sprintf("%d for this process", n)
	use := float64(n)
	if limited && quota < use {
		found, use = fmt.Sprintf("%d, of which the cgroup gives the time of %.1f", n, quota), quota
	}
	best := pageableBest
	if l := p.bestLink(); l > 0 {
		best = min(best, l)
	}
	if !p.hasGPU() || use*fillBytes >= best {
		return ok(found)
	}
	return problem{
		found:  found,
		cost:   fmt.Sprintf("pageable slices: %.1f GB/s at most instead of %.1f; page-locked memory is as fast as ever (profile h200: %.1f a processor)", use*fillBytes, best, fillBytes),
		source: Predicted,
		mend:   fmt.Sprintf("give the process %d processors (docker --cpus, taskset), or page-lock the memory", int(best/fillBytes)+1),
	}.warning(true)
}

// quota returns how many processors' time the cgroup allows.
func (p *patient) quota() (processors float64, limited bool) {
	for _, dir := range room.Directories(p.files, "cpu") {
		limit, period, _ := strings.Cut(p.text(dir.Name+"/cpu.max"), " ")
		if dir.Old {
			limit, period = p.text(dir.Name+"/cpu.cfs_quota_us"), p.text(dir.Name+"/cpu.cfs_period_us")
		}
		q, err := strconv.ParseFloat(limit, 64)
		of, err2 := strconv.ParseFloat(period, 64)
		if err != nil || err2 != nil || q <= 0 || of <= 0 {
			continue
		}
		if !limited || q/of < processors {
			processors, limited = q/of, true
		}
	}
	return processors, limited
}
