package advise

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ferrygpu/ferry"
	"github.com/ferrygpu/ferry/cu"
	"github.com/ferrygpu/ferry/internal/refusal"
	"github.com/ferrygpu/ferry/profile"
)

// Kinds of host memory.
const (
	Pageable      = "pageable"
	Pinned        = "pinned"
	ZeroCopy      = "zero-copy"
	WriteCombined = "zero-copy write-combined"
	Managed       = "managed"
	Registered    = "registered"
)

// Paths of the data.
const (
	Copied     = "copy"                      // copies and the kernel, one after the other in one stream
	Staged     = "staged pipeline"           // package pipeline, through page-locked memory of its own
	Pipelined  = "pipeline"                  // chunks over several streams
	Mapped     = "mapped"                    // the kernel reads and writes host memory over the link
	MappedIn   = "mapped in, copy out"       // the kernel only reads it
	MappedOut  = "copy in, mapped out"       // the kernel only writes it
	OnDemand   = "on demand"                 // pages move when they are touched
	Prefetched = "prefetch"                  // pages are moved before the kernel, and back after it
	EachTime   = "copy, registered per call" // Copied, with the memory registered within the step
)

// way is one way to make a step.
type way struct {
	kind, path     string
	parts, streams int // of Pipelined
}

// String names a way: "pinned, pipeline of 8 chunks over 4 streams".
func (w way) String() string {
	if w.path == Pipelined {
		return fmt.Sprintf("%s, pipeline of %d chunks over %d streams", w.kind, w.parts, w.streams)
	}
	return w.kind + ", " + w.path
}

// inPlace and outPlace report whether the kernel uses host memory.
func (w way) inPlace() bool  { return w.path == Mapped || w.path == MappedIn || w.kind == Managed }
func (w way) outPlace() bool { return w.path == Mapped || w.path == MappedOut || w.kind == Managed }

// onHeap reports whether the CPU reads results in memory that no driver call has seen.
func (w way) onHeap() bool { return w.kind == Pageable || w.path == EachTime }

// chunk returns the bytes of a chunk of the larger end. Without chunks it is that end.
func (w way) chunk(j *Job) int {
	most := 0
	for _, bytes := range []int{j.In, j.Out} {
		first, end := j.bounds(bytes, 0, max(1, w.parts))
		most = max(most, 4*(end-first))
	}
	return most
}

// sizeText describes a size: "4.0 MiB".
func sizeText(n int) string { return refusal.Size(uintptr(n)) }

// candidates returns the ways that the source of a job allows on a device, without those of
// the search for chunks, and the reasons why others are left out.
func candidates(g *ferry.GPU, j *Job) (ways []way, left []string, err error) {
	_, memory, err := g.MemInfo()
	if err != nil {
		return nil, nil, err
	}
	part := j.part(0, j.Devices)
	ways, left = allowed(g, j)
	ways = slices.DeleteFunc(ways, func(w way) bool {
		need := w.onDevice(&part)
		if need > memory {
			left = append(left, fmt.Sprintf("no %v: it needs %s of device memory, and the device has %s", w, sizeText(need), sizeText(memory)))
		}
		return need > memory
	})
	if len(ways) == 0 {
		err = fmt.Errorf("no memory suits this device: %s", strings.Join(left, "; "))
	}
	return ways, left, err
}

// onDevice returns how many bytes of device memory a way needs. Managed memory can be
// larger than that memory, and a staged pipeline needs little.
func (w way) onDevice(j *Job) (bytes int) {
	if w.path == Staged {
		return 0
	}
	if !w.inPlace() {
		bytes += j.In
	}
	if !w.outPlace() {
		bytes += j.Out
	}
	return bytes
}

// allowed returns the ways that the source and the attributes of a device allow, and why
// others are left out.
func allowed(g *ferry.GPU, j *Job) (ways []way, left []string) {
	has := map[cu.DeviceAttribute]bool{}
	for _, a := range []cu.DeviceAttribute{cu.DeviceAttributeCanMapHostMemory, cu.DeviceAttributeManagedMemory,
		cu.DeviceAttributeConcurrentManagedAccess, cu.DeviceAttributeHostRegisterSupported} {
		v, err := g.Attribute(a)
		has[a] = err == nil && v != 0
	}
	both := j.In > 0 && j.Out > 0
	add := func(need cu.DeviceAttribute, all ...way) {
		if need != 0 && !has[need] {
			left = append(left, fmt.Sprintf("no %v: %v is 0", all[0], need))
			return
		}
		ways = append(ways, all...)
	}
	add(0, way{kind: Pageable, path: Copied})
	if j.Source != Slice && j.Access.divides() && (j.In == j.Out || !both) {
		add(0, way{kind: Pageable, path: Staged})
	}
	if j.Source == Existing {
		add(cu.DeviceAttributeHostRegisterSupported, way{kind: Registered, path: Copied}, way{kind: Registered, path: EachTime})
		if has[cu.DeviceAttributeHostRegisterSupported] {
			add(cu.DeviceAttributeCanMapHostMemory, mappedWays(Registered, both)...)
		}
		return ways, left
	}
	add(0, way{kind: Pinned, path: Copied})
	mapped := mappedWays(ZeroCopy, both)
	if most := writeCombinedMost(g); j.In > 0 && float64(j.In) > most {
		left = append(left, fmt.Sprintf("no %s: this machine refuses more than %.0f MiB of such memory", WriteCombined, most/(1<<20)))
	} else if j.In > 0 {
		mapped = append(mapped, way{kind: WriteCombined, path: Mapped})
	}
	add(cu.DeviceAttributeCanMapHostMemory, mapped...)
	add(cu.DeviceAttributeManagedMemory, way{kind: Managed, path: OnDemand})
	if has[cu.DeviceAttributeManagedMemory] {
		add(cu.DeviceAttributeConcurrentManagedAccess, way{kind: Managed, path: Prefetched})
	}
	return ways, left
}

// writeCombinedMost returns how many bytes one allocation of write-combined memory may have.
func writeCombinedMost(g *ferry.GPU) float64 {
	if d, ok := cu.As[interface{ Machine() *profile.Profile }](g.Driver()); ok && d.Machine().Host.WriteCombined.Value > 0 {
		return d.Machine().Host.WriteCombined.Value
	}
	return math.Inf(1)
}

// mappedWays returns the ways by which a kernel uses memory of a kind over the link.
func mappedWays(kind string, both bool) []way {
	all := []way{{kind: kind, path: Mapped}}
	if both {
		all = append(all, way{kind: kind, path: MappedIn}, way{kind: kind, path: MappedOut})
	}
	return all
}
