package doctor

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ferrygpu/ferry/internal/room"
)

// lowLocked is the limit of locked memory below which a check warns.
const lowLocked = 1 << 30

func (p *patient) checkLocked() Check {
	// "Max locked memory  8388608  8388608  bytes": the soft limit and the hard one.
	limits := strings.Fields(p.field("proc/self/limits", "Max locked memory"))
	if len(limits) < 2 {
		return skipped("proc/self/limits does not say")
	}
	if limits[0] == "unlimited" {
		return ok("unlimited")
	}
	soft, err := strconv.ParseUint(limits[0], 10, 64)
	if err != nil {
		return skipped("proc/self/limits has no number")
	}
	if soft >= lowLocked {
		return ok(sizeText(soft))
	}
	return problem{
		found:  "limit of " + sizeText(soft),
		cost:   fmt.Sprintf("mlock, io_uring and RDMA fail beyond %s; cuMemHostAlloc and cuMemHostRegister do not count (os_lock_user_pages of NVIDIA's kernel module)", sizeText(soft)),
		source: Manual,
		mend:   "ulimit -l unlimited; docker run --ulimit memlock=-1; in a service LimitMEMLOCK=infinity",
	}.warning(false)
}

// The room below a limit of a cgroup at which a check warns, and at which it fails.
const (
	littleRoom = 1 << 30
	noRoom     = 64 << 20
)

func (p *patient) checkCgroup() Check {
	group := room.Read(p.files).Group
	if group.Limit == room.Unknown {
		return ok("no memory limit")
	}
	left := group.Left
	found := fmt.Sprintf("memory limit %s, room for %s", sizeText(group.Limit), sizeText(left))
	trouble := problem{
		found:  found,
		cost:   fmt.Sprintf("page-locked memory counts: more than %s ends the process (cgroup manual, memory.max)", sizeText(left)),
		source: Manual,
		mend:   "raise the limit: docker run --memory, resources.limits.memory, systemctl set-property MemoryMax",
	}
	switch {
	case left < noRoom:
		return trouble.failure()
	case left < littleRoom:
		return trouble.warning(false)
	}
	return ok(found)
}

func (p *patient) checkHugePages() Check {
	const dir = "sys/kernel/mm/transparent_hugepage/"
	_, rest, found := strings.Cut(p.text(dir+"enabled"), "[")
	mode, _, closed := strings.Cut(rest, "]")
	if !found || !closed {
		return skipped("the kernel has no transparent huge pages")
	}
	if mode != "never" {
		return ok(mode)
	}
	return problem{
		found:  "never",
		cost:   "page-locking 4 GiB takes 302 ms instead of 148, closing it 208 instead of 99 (H200, docs/notes/pinning.md)",
		source: Measured,
		mend:   "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, as root of the host",
	}.warning(p.hasGPU())
}

func (p *patient) checkReservedPages() Check {
	count, known := p.kib("proc/meminfo", "Hugetlb:")
	if !known {
		return skipped("proc/meminfo does not say")
	}
	free, _ := strconv.ParseUint(p.field("proc/meminfo", "HugePages_Free:"), 10, 40)
	size, _ := p.kib("proc/meminfo", "Hugepagesize:")
	idle := free * size
	if count == 0 {
		return ok("none, and Ferry needs none")
	}
	found := fmt.Sprintf("%s reserved, %s of it unused", sizeText(count), sizeText(idle))
	if p.host.Memory == 0 || idle <= p.host.Memory/4 {
		return ok(found)
	}
	return problem{
		found:  found,
		cost:   fmt.Sprintf("%s of %s cannot be page-locked by Ferry or used by other programs (Linux manual, hugetlbpage)", sizeText(idle), sizeText(p.host.Memory)),
		source: Manual,
		mend:   "sysctl vm.nr_hugepages=0, if no program needs them",
	}.warning(false)
}
